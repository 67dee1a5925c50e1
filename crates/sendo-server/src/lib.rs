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

mod aggregation;
mod answer;
mod authenticate;
mod authorise;
mod body;
mod bootstrap;
mod call;
mod certs;
mod crd;
mod decode;
mod discovery;
mod event;
mod follow;
mod gathered;
mod health;
mod idle;
mod in_flight;
mod keys;
pub mod kinds;
mod negotiate;
mod openapi;
mod openapi_descriptions;
mod options;
mod path;
mod pipeline;
pub mod printers;
mod query;
mod rbac;
mod request;
mod resource;
mod reviews;
mod roots;
mod route;
mod selection;
mod serve;
mod server;
mod streams;
mod subresource;
mod table;
mod tokens;
mod user;
mod verbs;
mod view;
mod warnings;
mod wire;
mod write;
mod yaml;

pub use authenticate::Tokens;
pub use body::Body;
pub use certs::{Authority, AuthorityError, CertificateError, Identity};
pub use gathered::Gathered;
pub use in_flight::InFlightLimits;
pub use serve::{ServeError, Serving};
pub use server::{ApiServer, Caller, Options, StartError};
pub use tokens::TokenSigner;
pub use user::User;
pub use write::allocation::ServiceRanges;
