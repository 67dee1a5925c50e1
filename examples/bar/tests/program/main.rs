//! The whole program on a live cluster, in virtual time; its replicas as processes, in real time.

mod check;
mod controller;
mod manifests;
mod replicas;
mod versions;
mod webhooks;
