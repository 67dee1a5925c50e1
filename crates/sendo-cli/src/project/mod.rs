//! The files of a project, and changes of them.

mod changes;
mod git;
mod rustfmt;

pub(crate) use changes::Changes;
pub(crate) use git::initialise;
