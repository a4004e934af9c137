//! The check `round_trip` of the codecs, see `crates/codec/tests/checks/round_trip.rs`.
#![no_main]

#[path = "../../crates/codec/tests/checks/mod.rs"]
mod checks;
mod options;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::run("codec_round_trip", data));
