//! Late events.
//!
//! The kernel reports an unmapped or moved range after it has released the address space. So when one thread
//! frees a range, and another thread's mapping is moved to the same addresses at once, the message about the
//! second change may arrive before that about the first:
//!
//! ```text
//!   thread 1   munmap(Z) ............................ message "Z unmapped"
//!   thread 2             mremap(C -> Z) message "C moved to Z"
//! ```
//!
//! Applied in order of arrival, the pages of C would be forgotten. The two orders are told apart as follows:
//! - While a message is on its way the kernel says so ([`Probe::Changing`]): if there is none, no message
//!   can be late.
//! - If there are entries where a mapping arrives, they belong to a mapping that has left, and the message
//!   about that is late: it is read first.
//! - If there are no entries, the arrived range is remembered until no message is on its way. If a message
//!   meanwhile says that the range was unmapped or moved away although a managed mapping is there, it refers
//!   to the previous mapping, unless a message on its way says that another one has arrived since. (A move
//!   that leaves a mapping behind, MREMAP_DONTUNMAP, is known from the interposed function.)

/// Maximum number of ranges to remember, the most recent ones: this many threads may move something between
/// two moments in which no message is on its way.
const ARRIVED: usize = 1024;
/// Maximum depth of nested waits for messages.
pub(super) const DEPTH: usize = 32;
/// The remembered ranges. Under the order lock.
pub struct Late {
    pub(super) arrived: [(usize, usize); ARRIVED],
    pub(super) count: usize,
    /// Ranges of arriving mappings whose messages have been read and now wait for late ones.
    pub(super) arriving: [(usize, usize); DEPTH],
    pub(super) depth: usize,
    /// A range that was registered while a message was on its way: the presence of a mapping there proves
    /// nothing.
    pub doubtful: (usize, usize),
    /// False while events that were read long ago are applied.
    pub enabled: bool,
}

impl Late {
    /// Nothing is remembered.
    pub const fn new() -> Self {
        Late {
            arrived: [(0, 0); ARRIVED],
            count: 0,
            arriving: [(0, 0); DEPTH],
            depth: 0,
            doubtful: (0, 0),
            enabled: true,
        }
    }

    /// A mapping has arrived at this range.
    pub fn note_arrived(&mut self, start: usize, end: usize) {
        if self.enabled {
            self.arrived[self.count % ARRIVED] = (start, end);
            self.count += 1;
        }
    }

    pub(super) fn arrived(&self) -> &[(usize, usize)] {
        &self.arrived[..self.count.min(ARRIVED)]
    }

    pub(super) fn has_arrived(&self, page: usize) -> bool {
        self.enabled && self.arrived().iter().any(|(start, end)| (*start..*end).contains(&page))
    }
}

impl Default for Late {
    fn default() -> Self {
        Self::new()
    }
}
