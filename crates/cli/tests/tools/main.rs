//! The tools beside `memfold run`: their output and their refusals.

mod analyze;
mod bench;
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod escapes;

/// Checks that a message offers a command for root, by whichever of these exists on this machine.
#[track_caller]
fn offers_to_root(said: &common::Said, command: &str) {
    let ways = ["sudo ", "doas ", "su -c \""].map(|way| format!("try {way}{command}"));
    assert!(ways.iter().any(|way| said.err.contains(way)), "{}", said.err);
}
