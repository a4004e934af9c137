//! What test probes say of a structure.

use std::fmt::Display;
use std::string::String;

/// What came of looking at a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything holds: 0.
    Sound,
    /// Something does not, in words that end with a zero: 1.
    Wrong(String),
    /// It could not be looked at, and why: 2.
    NotLookedAt(&'static core::ffi::CStr),
}

impl Verdict {
    /// The number that the probe fires with.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Verdict::Sound => 0,
            Verdict::Wrong(_) => 1,
            Verdict::NotLookedAt(_) => 2,
        }
    }

    /// The address of its words, which end with a zero.
    pub(crate) fn words(&self) -> *const u8 {
        match self {
            Verdict::Sound => c"sound".as_ptr().cast(),
            Verdict::Wrong(words) => words.as_ptr(),
            Verdict::NotLookedAt(why) => why.as_ptr().cast(),
        }
    }
}

impl<E: Display> From<Result<(), E>> for Verdict {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Verdict::Sound,
            Err(error) => Verdict::Wrong(std::format!("{error}\0")),
        }
    }
}
