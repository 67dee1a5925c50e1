//! The server as its clients see it, called in this process.

mod access;
mod changes;
mod custom;
mod health;
mod objects;
mod support;
mod watching;
