//! The whole program on a live cluster, in virtual time.

mod controller;
mod manifests;
mod versions;
mod webhooks;
