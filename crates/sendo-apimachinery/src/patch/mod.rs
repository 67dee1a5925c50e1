//! Changing an object by a patch: JSON merge patch, JSON patch, strategic merge patch.
//!
//! Each works on plain JSON values and answers a refusal as the [`Status`](crate::Status)
//! that Kubernetes sends for it. What the patched value then means for its kind
//! (unknown fields, defaults, validation) is up to the caller.

mod json;
mod merge;
mod strategic;

pub use json::{JsonPatch, PatchFault};
pub use merge::{json_type, merge_patch};
pub use strategic::{ListStrategy, MapStrategy, PatchType, strategic_merge_patch};
