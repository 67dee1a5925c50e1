//! The API server as its clients see it.

mod api;
mod contract;
mod tls;
mod webhook_server;
