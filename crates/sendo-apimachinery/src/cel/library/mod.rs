//! What functions do, a file for each kind of value they are about.
//!
//! A function gets the values of its arguments, that of its target first. The
//! checker has seen to their types, except where an expression left types open:
//! then it answers `no such overload`.

pub(super) mod addresses;
pub(super) mod authorizer;
pub(super) mod convert;
pub(super) mod format;
pub(super) mod json_patch;
pub(super) mod lists;
pub(super) mod operators;
pub(super) mod optional;
pub(super) mod quantity;
pub(super) mod regex;
pub(super) mod semver;
pub(super) mod sets;
pub(super) mod strings;
pub(super) mod time;
pub(super) mod url;

use super::eval::{Machine, Result};
use super::value::Value;

/// A function of the library.
pub(super) type Run = for<'a> fn(&mut Machine<'a>, &[Value<'a>]) -> Result<Value<'a>>;
