//! The server as its clients see it, called in this process.

mod access;
mod admission;
mod changes;
mod custom;
mod health;
mod objects;
mod rules;
mod services;
mod support;
mod watching;
