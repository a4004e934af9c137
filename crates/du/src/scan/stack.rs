//! The stack of directories that wait to be read.

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use memfold::heap::Session;

use super::open::{self, Open};
use crate::Error;
use crate::entry::Kind;
use crate::part::Reader;
use crate::tree::Contents;

/// How many adjacent levels are opened again when the last directory of a chain is done.
const LEFT: usize = 8;

/// A directory to be read.
pub struct Task {
    pub place: Origin,
    pub number: u32,
}

/// The position of a directory.
pub enum Origin {
    /// The directory where reading starts, and its position in the tree.
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

/// A directory that was read and in which subdirectories wait.
pub struct Level {
    pub open: Arc<Open>,
    pub contents: Contents,
    /// The next part to be examined.
    part: usize,
    /// Directories from the parts before it, the next one last.
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
            place: Origin::Below { above: self.open.clone(), name, slot },
            number,
        }))
    }
}

struct State {
    start: Option<Task>,
    levels: Vec<Level>,
    /// The directories opened last, which may still be open. All others are closed, including those without
    /// waiting subdirectories whose descendants are being read.
    open: VecDeque<Weak<Open>>,
    /// The most that may be open.
    most: usize,
    /// Threads that are reading and may add directories.
    busy: usize,
    is_stopped: bool,
}

/// The stack; see the module.
pub struct Stack {
    state: Mutex<State>,
    changed: Condvar,
}

impl Stack {
    pub fn new(open: Arc<Open>, above: u32, slot: u32) -> Self {
        let start = Task { number: open.number, place: Origin::Start { open, above, slot } };
        let state = State {
            start: Some(start),
            levels: Vec::new(),
            open: VecDeque::new(),
            most: open::most(),
            busy: 0,
            is_stopped: false,
        };
        Stack { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops giving out directories.
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// The next directory; `None` when all are read. `idle` is called before waiting.
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

    /// Notes that a directory was opened again.
    pub fn keep(&self, open: &Arc<Open>) {
        self.lock().keep(open);
    }

    /// Closes all directories that can be opened again, because too many are open.
    pub fn close(&self) {
        let closed = std::mem::take(&mut self.lock().open);
        closed.iter().filter_map(Weak::upgrade).for_each(|open| open.close());
    }

    /// Reports that a task is done; `level` has further ones, if any.
    pub fn done(&self, level: Option<Level>) {
        let mut state = self.lock();
        state.busy -= 1;
        let is_more = level.is_some();
        if let Some(level) = level {
            state.keep(&level.open);
            state.levels.push(level);
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
            let mut left = self.levels.pop().map(|level| level.open);
            for _ in 0..LEFT {
                left = left.and_then(|open| open.leave());
                let Some(open) = &left else { break };
                self.keep(open);
            }
        }
        Ok(None)
    }

    /// Notes that a directory is open; if too many are, the one noted longest ago is closed.
    fn keep(&mut self, open: &Arc<Open>) {
        self.open.push_back(Arc::downgrade(open));
        while self.open.len() > self.most {
            if let Some(old) = self.open.pop_front().and_then(|old| old.upgrade()) {
                old.close();
            }
        }
    }
}
