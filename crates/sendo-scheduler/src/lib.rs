//! The embedded cluster's scheduler, written with sendo.
