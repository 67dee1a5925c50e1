//! An ordered, versioned key-value store with watches.
