//! The server as its clients see it, called in this process.

mod access;
mod changes;
mod custom;
mod objects;
mod rules;
mod support;
mod watching;
