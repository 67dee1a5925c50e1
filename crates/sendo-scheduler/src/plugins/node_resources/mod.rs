//! Resources: whether a pod fits, and which node it fits best.

mod balanced_allocation;
mod fit;

pub use balanced_allocation::NodeResourcesBalancedAllocation;
pub use fit::NodeResourcesFit;
