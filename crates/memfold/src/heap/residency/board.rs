//! What the heap and its own thread share: what the thread is to do.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::heap::block::handle::Handle;
use crate::heap::sync::locked;

/// Tasks of the thread.
#[derive(Default)]
pub struct Work {
    pub faults: VecDeque<Handle>,
    pub make_room: bool,
    pub stop: bool,
}

/// What the heap and its thread share.
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
