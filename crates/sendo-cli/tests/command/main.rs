//! The command, run as a process.

mod add;
mod deploy;
mod dev;
mod image;
mod new;
mod processes;
mod up;
