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
//! one value, in `pipeline.rs`. Each folder is a step of that way, and uses only those
//! below it (`cargo xtask arrows` checks that):
//!
//! | folder | what it does |
//! |---|---|
//! | `listen/` | TLS and HTTP, certificates |
//! | `api_server.rs`, `bootstrap/` | the server as a value, the objects of a new cluster |
//! | `pipeline.rs`, `route.rs`, `monitor.rs` | the steps of a request, in a row; what is counted of it |
//! | `own_controllers/` | what the server keeps right by itself: definitions, APIServices |
//! | `pages/` | paths that name no resource: discovery, OpenAPI, health |
//! | `reviews/`, `subresource/` | access reviews; what subresources answer |
//! | `aggregator/` | requests to other API servers, which APIServices name |
//! | `write/` | the steps of a write in a row, admission as a table (`write/admission/`) |
//! | `read/` | get, list, watch; objects as answers, tables, events |
//! | `state/` | what all steps share, a request with its resource, the interface of admission |
//! | `audit/` | the audit log |
//! | `access/` | authentication, authorisation, RBAC, tokens |
//! | `webhook/` | calls of webhooks |
//! | `outbound/` | how other programs are reached: connections, Services, and programs of this process |
//! | `catalog/` | the resources that are served, built-in and custom (`catalog/custom/`), and their stored form |
//! | `metrics/` | what the server counts of its work, and the form of the page `/metrics` |
//! | `request/` | path, query, options, media types, body, user |
//! | [`kinds`], [`printers`] | what is particular to a kind; how kinds look in tables |

mod access;
mod aggregator;
mod api_server;
mod audit;
mod bootstrap;
mod catalog;
pub mod kinds;
mod listen;
mod metrics;
mod monitor;
mod outbound;
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
mod webhook;
mod write;

pub use access::authenticate::Tokens;
pub use access::tokens::TokenSigner;
pub use api_server::{ApiServer, Caller, Options};
pub use audit::{Audit, AuditLog, AuditPolicy, AuditPolicyError, AuditRotation};
pub use bootstrap::StartError;
pub use listen::certificates::{
    Authority, AuthorityError, CertificateError, Identity, SigningError, SigningTerms,
};
pub use listen::gathered::Gathered;
pub use listen::{ServeError, Serving};
pub use outbound::{LocalService, LocalServices};
pub use request::body::Body;
pub use request::in_flight::InFlightLimits;
pub use request::user::User;
pub use state::pod_security;
pub use state::service_ranges::ServiceRanges;
