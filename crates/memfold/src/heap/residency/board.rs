//! The tasks of the heap's own thread, which sessions set.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::heap::block::handle::Handle;
use crate::heap::sync::locked;

/// The thread's tasks.
#[derive(Default)]
pub struct Work {
    pub faults: VecDeque<Handle>,
    pub make_room: bool,
    pub stop: bool,
}

/// The state that the heap and its thread share.
#[derive(Default)]
pub struct Board {
    pub work: Mutex<Work>,
    pub wake: Condvar,
    /// Held while the thread works.
    pub working: Mutex<()>,
}

impl Board {
    /// Keeps the thread from working.
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        locked(&self.working)
    }
}
