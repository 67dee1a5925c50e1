//! The embedded Kubernetes API server, a tower service over a store.
//!
//! An [`ApiServer`] lives in a world and keeps its objects in a store. It is
//! called in this process with no socket between ([`ApiServer::as_user`]):
//! `kube::Client::new(server.client_service(), "default")` is a client of it.

mod admission;
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
mod health;
mod keys;
pub mod kinds;
mod negotiate;
mod openapi;
mod openapi_descriptions;
mod options;
mod owners;
mod path;
mod pipeline;
pub mod printers;
mod query;
mod request;
mod resource;
mod roots;
mod route;
mod selection;
mod serve;
mod server;
mod strategy;
mod subresource;
mod table;
mod user;
mod verbs;
mod view;
mod wire;
mod yaml;

pub use authenticate::Tokens;
pub use body::Body;
pub use certs::{Authority, CertificateError, Identity};
pub use serve::{ServeError, Serving};
pub use server::{ApiServer, Caller, Options, StartError};
pub use user::User;
