//! What C programs cannot test: panics, and whether the headers match the code. The rest is in `tests/capi`.

mod header;
mod panics;
