//! The sendo command.
fn main() {}
