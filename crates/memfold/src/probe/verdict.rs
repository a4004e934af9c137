//! The verdict of a test probe on a structure.

use std::fmt::Display;
use std::string::String;

/// The result of checking a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All invariants hold: 0.
    Sound,
    /// One does not hold; the text says which, and ends with a zero: 1.
    Wrong(String),
    /// It could not be checked; the text says why: 2.
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

    /// The address of its text, which ends with a zero.
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
