//! How requests get to the API server: requests as values, one way to send them,
//! and the errors they end with. The cache and the client are built on it.

mod error;
#[cfg(test)]
pub(crate) mod fake_api;
mod guarded;
mod intercept;
mod rate;
mod request;
mod retry;

pub use error::Error;
pub(crate) use error::{to_json, without_values};
pub(crate) use guarded::{GuardedKube, type_hint};
pub use intercept::{Call, Interceptor};
pub use rate::{Rate, RateLimit};
pub use request::WriteGate;
pub(crate) use request::{Request, Transport};
pub(crate) use retry::Retries;
