//! The store on disk, tried by processes that are killed or started with another
//! umask.

mod killed;
mod private;
