//! The embedded cluster's node agent, written with sendo.
