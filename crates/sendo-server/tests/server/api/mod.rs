//! The server as its clients see it, called in this process.

mod access;
mod admission;
mod aggregation;
mod aliases;
mod asking;
mod bad_input;
mod changes;
mod custom;
mod deletion;
mod health;
mod history;
mod limits;
mod nonsense;
mod objects;
mod ownership;
mod permissions;
mod reaching;
mod rights;
mod rules;
mod services;
mod slow_readers;
mod sources;
mod support;
mod tokens;
mod verbs;
mod watching;
