//! The embedded Kubernetes API server, a tower service over a store.
//!
//! An [`ApiServer`] lives in a world and keeps its objects in a store. It is
//! called in this process with no socket between, or over TLS
//! ([`ApiServer::serve`]); both ways lead into the same pipeline.
//!
//! ```
//! use std::sync::Arc;
//! use sendo_server::{ApiServer, Options};
//! use sendo_store::Memory;
//! use sendo_world::World;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = World::seeded(1);
//! let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
//! let server = ApiServer::start(Options::new(store, world)).await?;
//! let client = kube::Client::new(server.client_service(), "default");
//! assert_eq!(client.apiserver_version().await?.minor, "36");
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a request
//!
//! Authenticate → authorise → route → read or write → encode: plain functions over
//! one value, in `pipeline.rs`. The steps of a write, and why they come in that
//! order, stand in `write/mod.rs`, admission as a table in `write/admission/`. What
//! reads do is in `verbs/`, what is particular to a kind in [`kinds`], how kinds
//! look in tables in [`printers`].

mod access;
mod api_server;
mod bootstrap;
mod catalog;
pub mod kinds;
mod listen;
mod own_controllers;
mod pages;
mod pipeline;
pub mod printers;
mod read;
mod request;
mod reviews;
mod route;
mod state;
mod subresource;
mod write;

pub use access::authenticate::Tokens;
pub use access::tokens::TokenSigner;
pub use api_server::{ApiServer, Caller, Options};
pub use bootstrap::StartError;
pub use listen::certificates::{Authority, AuthorityError, CertificateError, Identity};
pub use listen::gathered::Gathered;
pub use listen::{ServeError, Serving};
pub use request::body::Body;
pub use request::in_flight::InFlightLimits;
pub use request::user::User;
pub use state::service_ranges::ServiceRanges;
