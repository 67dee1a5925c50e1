//! The library from outside: what its public face promises.

mod cache;
mod contract;
mod manager;
mod mistakes;
mod program;
mod rotation;
mod sent_once;
