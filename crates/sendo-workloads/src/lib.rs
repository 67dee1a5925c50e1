//! The embedded cluster's controllers, written with sendo.
