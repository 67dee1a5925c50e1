//! The files of a project, and changes of them.

mod changes;
mod git;
mod manifest;
mod rustfmt;

pub(crate) use changes::Changes;
#[cfg(feature = "add")]
pub(crate) use git::check_clean;
#[cfg(feature = "image")]
pub(crate) use git::commit;
pub(crate) use git::initialise;
pub(crate) use manifest::Project;
