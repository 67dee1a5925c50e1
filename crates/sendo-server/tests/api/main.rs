//! The server as its clients see it, called in this process.

mod objects;
mod support;
mod watching;
