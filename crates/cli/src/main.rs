//! The `memfold` command.
fn main() {}
