//! Directories that wait to be read.

use std::ffi::CString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use memfold::heap::Session;

use super::open::Open;
use crate::Error;
use crate::entry::Kind;
use crate::part::Reader;
use crate::tree::Contents;

/// Directories that may be open while they have some that wait.
const OPEN: usize = 200;

/// A directory to be read.
pub struct Task {
    pub place: Place,
    pub number: u32,
}

/// Where a directory is.
pub enum Place {
    /// Where reading starts; and where that is in the tree.
    Start {
        open: Arc<Open>,
        above: u32,
        slot: u32,
    },
    Below {
        above: Arc<Open>,
        name: CString,
        slot: u32,
    },
}

/// A directory that was read, and in which some wait.
pub struct Level {
    pub open: Arc<Open>,
    pub contents: Contents,
    /// The part that is looked at next.
    part: usize,
    /// Those of the parts before it, the next one last.
    waiting: Vec<(u32, u32, CString)>,
}

impl Level {
    pub fn new(open: Arc<Open>, contents: Contents) -> Self {
        Level { open, contents, part: 0, waiting: Vec::new() }
    }

    fn next(&mut self, nodes: &Session<'_>) -> Result<Option<Task>, Error> {
        while self.waiting.is_empty() && self.part < self.contents.parts() {
            let bytes = nodes.read(self.contents.part(nodes, self.part)?)?;
            let mut entries = Reader::new(&bytes)?;
            let mut slot = (self.part * crate::part::MOST) as u32;
            while let Some(entry) = entries.read()? {
                if let Kind::Directory(number) = entry.kind {
                    let name = CString::new(entry.name).map_err(|_| Error::Damaged)?;
                    self.waiting.push((number, slot, name));
                }
                slot += 1;
            }
            self.waiting.reverse();
            self.part += 1;
        }
        Ok(self.waiting.pop().map(|(number, slot, name)| Task {
            place: Place::Below { above: self.open.clone(), name, slot },
            number,
        }))
    }
}

struct State {
    start: Option<Task>,
    levels: Vec<Level>,
    /// Levels below this one, from the root, may be closed.
    closed: usize,
    /// Threads that read, and may bring more.
    busy: usize,
    is_stopped: bool,
}

/// See the module.
pub struct Stack {
    state: Mutex<State>,
    changed: Condvar,
}

impl Stack {
    pub fn new(open: Arc<Open>, above: u32, slot: u32) -> Self {
        let start = Task { number: open.number, place: Place::Start { open, above, slot } };
        let state = State { start: Some(start), levels: Vec::new(), closed: 0, busy: 0, is_stopped: false };
        Stack { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more is given out.
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// The next directory; `None` when all are read. `idle` is called before it waits.
    pub fn take(
        &self,
        nodes: &Session<'_>,
        mut idle: impl FnMut() -> Result<(), Error>,
    ) -> Result<Option<Task>, Error> {
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return Ok(None);
            }
            if let Some(task) = state.next(nodes)? {
                state.busy += 1;
                return Ok(Some(task));
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return Ok(None);
            }
            drop(state);
            idle()?;
            state = self.lock();
            if !state.is_stopped && state.busy > 0 && state.levels.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// A task is done; perhaps there are more.
    pub fn done(&self, level: Option<Level>) {
        let mut state = self.lock();
        state.busy -= 1;
        let is_more = level.is_some();
        state.levels.extend(level);
        // The lowest ones are needed last.
        while state.levels.len() - state.closed > OPEN {
            state.levels[state.closed].open.close();
            state.closed += 1;
        }
        if is_more || state.busy == 0 {
            self.changed.notify_all();
        }
    }
}

impl State {
    fn next(&mut self, nodes: &Session<'_>) -> Result<Option<Task>, Error> {
        if let Some(start) = self.start.take() {
            return Ok(Some(start));
        }
        while let Some(level) = self.levels.last_mut() {
            if let Some(task) = level.next(nodes)? {
                return Ok(Some(task));
            }
            if let Some(level) = self.levels.pop() {
                level.open.leave();
            }
            self.closed = self.closed.min(self.levels.len());
        }
        Ok(None)
    }
}
