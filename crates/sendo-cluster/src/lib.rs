//! API server, controllers, scheduler and nodes in one process.
