//! The check `name` of the codecs, see `crates/codec/tests/checks/name.rs`.
#![no_main]

#[path = "../../crates/codec/tests/checks/mod.rs"]
mod checks;
mod options;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::run("codec_name", data));
