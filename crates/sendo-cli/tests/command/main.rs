//! The command, run as a process.

mod add;
mod deploy;
mod new;
mod up;
