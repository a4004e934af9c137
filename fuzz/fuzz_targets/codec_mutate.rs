//! The check `mutate` of the codecs, see `crates/codec/tests/checks/mutate.rs`.
#![no_main]

#[path = "../../crates/codec/tests/checks/mod.rs"]
mod checks;
mod options;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::run("codec_mutate", data));
