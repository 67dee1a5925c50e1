//! Reads through the cache, writes to the API server.

mod error;

pub use error::Error;
