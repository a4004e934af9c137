//! For architectures without doors (`memfold_shared::door`): each process has a keeper from the start.

use memfold_shared::page::Slot;

/// As in `doors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Only the last variant is ever constructed here; the lookout handles all of them.
#[allow(dead_code)]
pub enum Sent {
    Yes,
    NotNow,
    /// As for the other architecture.
    Nobody,
    No,
}

/// As in `doors`.
pub struct Doors;

impl Doors {
    /// As in `doors`.
    pub fn new() -> Self {
        Self
    }

    /// As in `doors`.
    pub fn is_idle(&self) -> bool {
        true
    }

    /// As in `doors`.
    pub fn go_on(&mut self) {}

    /// As in `doors`.
    pub fn send(&mut self, _: i32, _: &Slot, _: bool, _: bool) -> Sent {
        Sent::No
    }
}

/// Always false: there are no doors.
pub fn are_possible(_: i32) -> bool {
    false
}
