//! What C programs can't test: panics, and whether the headers say what the code does. The rest is in `tests/capi`.

mod header;
mod panics;
