//! The trace buffer (trail): events that processes leave for a report, in the shared page. It is used only if
//! a report is wanted ([`flags::REPORT`]); otherwise nothing is written here, and untouched memory costs
//! nothing.
//!
//! ```text
//!             63..59  58    57..36      35..0
//!  word 0   | lap   | kind | process  | page number, or that of a block's first compressed page |
//!  word 1   | lap   | pages (58..48)  | 47..0: duration of a fault, ns, or compressed size of pages |
//! ```
//!
//! Invariants:
//! - A writer never waits and never fails: it takes a number and writes event `n` at `n % EVENTS`. A reader
//!   that is too slow misses the oldest events, and knows how many.
//! - Both words carry the lap, `n / EVENTS`, and each word is written atomically, so an event that is half
//!   written, or half overwritten, is recognised.
//! - The reader copes with any value, as everywhere in the shared page.
//!
//! [`flags::REPORT`]: crate::page::flags::REPORT

use core::sync::atomic::{AtomicU64, Ordering::*};

/// Number of events kept: enough for 160 ms at 100,000 events a second.
pub const EVENTS: usize = 1 << 14;
/// Number of counters of compressed sizes: see [`size_class`].
pub const SIZES: usize = 2 + PAGE / SIZE_STEP;
/// Width of a size class in bytes.
pub const SIZE_STEP: usize = 64;
/// The classes for pages of zeros, and for pages of another repeated word.
pub const ZEROS: usize = 0;
/// See [`ZEROS`].
pub const REPEATED: usize = 1;

const PAGE: usize = 4096;
/// Number of pages in a block.
const PAGES: u64 = 512;
/// How many times to look at an incomplete event before it is given up.
const PATIENCE: u32 = 20;
const LAPS: u64 = 31;
const LAP_SHIFT: u32 = 59;
const KIND: u64 = 1 << 58;
const PROCESS_SHIFT: u32 = 36;
const PROCESS: u64 = (1 << 22) - 1;
const PLACE: u64 = (1 << PROCESS_SHIFT) - 1;
const COUNT_SHIFT: u32 = 48;
const COUNT: u64 = (1 << 11) - 1;
const VALUE: u64 = (1 << COUNT_SHIFT) - 1;

/// The trace buffer; see the module.
#[repr(C)]
pub struct Trail {
    /// Number of events that were ever begun.
    head: AtomicU64,
    /// Number of pages by compressed size: see [`size_class`].
    pub sizes: [AtomicU64; SIZES],
    events: [[AtomicU64; 2]; EVENTS],
}

/// An event in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Process id, as the process knows it.
    pub pid: u32,
    /// A page's number.
    pub page: u64,
    /// What happened.
    pub what: What,
}

/// See [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A fault on a compressed page took this long, in ns.
    Fault(u64),
    /// This many pages of its block of 2 MiB were compressed, beginning with this one.
    Compressed(u64),
}

/// Class of a page that was compressed to `bytes` bytes and is not one repeated word: steps of 64 bytes, the
/// first ending with 64.
pub fn size_class(bytes: usize) -> usize {
    2 + (bytes.clamp(1, PAGE) - 1) / SIZE_STEP
}

impl Trail {
    /// Touches the memory before it is needed, so that no process has to wait for it when it leaves an event.
    /// Called by the supervisor.
    pub fn provide(&self) {
        self.events.iter().step_by(PAGE / size_of::<[u64; 2]>()).for_each(|event| event[0].store(0, Relaxed));
    }

    /// A fault was served.
    pub fn fault(&self, pid: u32, page: u64, ns: u64) {
        self.leave(pid, page, 0, 1, ns);
    }

    /// Pages of a block were compressed.
    pub fn compressed(&self, pid: u32, first: u64, pages: u64, bytes: u64) {
        self.leave(pid, first, KIND, pages, bytes);
    }

    fn leave(&self, pid: u32, place: u64, kind: u64, count: u64, value: u64) {
        let number = self.head.fetch_add(1, Relaxed);
        let lap = lap_of(number) << LAP_SHIFT;
        let [first, second] = &self.events[number as usize % EVENTS];
        let process = (u64::from(pid) & PROCESS) << PROCESS_SHIFT;
        first.store(lap | kind | process | place & PLACE, Relaxed);
        second.store(lap | (count & COUNT) << COUNT_SHIFT | value.min(VALUE), Relaxed);
    }

    fn event(&self, number: u64) -> Option<Event> {
        let [first, second] = self.events[number as usize % EVENTS].each_ref().map(|word| word.load(Relaxed));
        let lap = lap_of(number);
        if first >> LAP_SHIFT != lap || second >> LAP_SHIFT != lap {
            return None;
        }
        let what = match first & KIND {
            0 => What::Fault(second & VALUE),
            _ => What::Compressed(second >> COUNT_SHIFT & COUNT),
        };
        let pid = (first >> PROCESS_SHIFT & PROCESS) as u32;
        Some(Event { pid, page: first & PLACE, what })
    }
}

/// Never zero, the value of a place that was never written.
fn lap_of(number: u64) -> u64 {
    number / EVENTS as u64 % LAPS + 1
}

/// The position of a reader.
#[derive(Debug, Default)]
pub struct Reader {
    at: u64,
    /// An event that was incomplete at the last look.
    waits_for: u64,
    /// How many times it was looked at.
    looks: u32,
    /// Number of events that were never seen: too many arrived, or their writer was killed while it wrote.
    pub lost: u64,
}

impl Reader {
    /// Passes all new events to `each`. It stops at an event that is being written; after some looks, or if
    /// this is the `last` call, that event is given up.
    pub fn drain(&mut self, trail: &Trail, last: bool, mut each: impl FnMut(Event)) {
        let end = trail.head.load(Relaxed);
        while self.at != end {
            let behind = trail.head.load(Relaxed).wrapping_sub(self.at);
            if behind > EVENTS as u64 {
                let missed = (behind - EVENTS as u64).min(end.wrapping_sub(self.at));
                self.at = self.at.wrapping_add(missed);
                self.lost = self.lost.saturating_add(missed);
                continue;
            }
            match trail.event(self.at) {
                Some(event) => each(event),
                // It was overwritten meanwhile: the next turn counts it.
                None if trail.head.load(Relaxed).wrapping_sub(self.at) > EVENTS as u64 => continue,
                None if !last && self.is_patient() => return,
                None => self.lost += 1,
            }
            self.at = self.at.wrapping_add(1);
        }
    }
}

impl Reader {
    /// Whether to look again later: on a busy machine a writer may be delayed in the middle.
    fn is_patient(&mut self) -> bool {
        if self.waits_for != self.at {
            (self.waits_for, self.looks) = (self.at, 0);
        }
        self.looks += 1;
        self.looks <= PATIENCE
    }
}

/// Pages of one block that were just compressed, recorded as one event.
pub struct Run<'a> {
    trail: &'a Trail,
    pid: u32,
    first: u64,
    pages: u64,
    bytes: u64,
    sizes: [u16; SIZES],
}

impl<'a> Run<'a> {
    /// No pages yet.
    pub fn new(trail: &'a Trail, pid: u32) -> Self {
        Run { trail, pid, first: 0, pages: 0, bytes: 0, sizes: [0; SIZES] }
    }

    /// Adds a page: its number, its size class, and its bytes.
    pub fn add(&mut self, page: u64, class: usize, bytes: u64) {
        if page / PAGES != self.first / PAGES || self.pages == COUNT {
            self.flush();
        }
        if self.pages == 0 {
            self.first = page;
        }
        self.pages += 1;
        self.bytes += bytes;
        if let Some(count) = self.sizes.get_mut(class) {
            *count += 1;
        }
    }

    fn flush(&mut self) {
        if self.pages > 0 {
            self.trail.compressed(self.pid, self.first, self.pages, self.bytes);
        }
        (self.pages, self.bytes) = (0, 0);
    }

    /// Records the pages.
    pub fn end(mut self) {
        self.flush();
        for (sum, count) in self.trail.sizes.iter().zip(self.sizes).filter(|(_, count)| *count > 0) {
            sum.fetch_add(count.into(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn trail() -> Box<Trail> {
        // SAFETY: all fields are atomic numbers, for which zeros are valid.
        unsafe { Box::<Trail>::new_zeroed().assume_init() }
    }

    #[test]
    fn the_reader_gets_all_events_but_the_overwritten_ones() {
        let (trail, mut reader, mut seen) = (trail(), Reader::default(), Vec::new());
        let most = (1u64 << 35) - 1;
        trail.fault(4_194_303, most, 7);
        trail.compressed(1, 512, 2047, 1 << 23);
        reader.drain(&trail, false, |event| seen.push(event));
        assert_eq!(
            seen,
            [
                Event { pid: 4_194_303, page: most, what: What::Fault(7) },
                Event { pid: 1, page: 512, what: What::Compressed(2047) }
            ]
        );
        // More laps than the number in an event can distinguish.
        for lap in 1..40u64 {
            let many = EVENTS as u64 + 5;
            (0..many).for_each(|page| trail.fault(2, page, lap));
            seen.clear();
            reader.drain(&trail, false, |event| seen.push(event));
            assert_eq!((seen.len(), reader.lost), (EVENTS, 5 * lap));
            let last = Event { pid: 2, page: many - 1, what: What::Fault(lap) };
            assert_eq!((seen[0].page, seen.last()), (5, Some(&last)));
        }
    }

    #[test]
    fn one_that_is_never_complete_is_given_up() {
        let (trail, mut reader, mut seen) = (trail(), Reader::default(), 0);
        trail.head.fetch_add(1, Relaxed);
        trail.fault(1, 1, 1);
        for _ in 0..PATIENCE {
            reader.drain(&trail, false, |_| seen += 1);
            assert_eq!((seen, reader.lost), (0, 0));
        }
        reader.drain(&trail, false, |_| seen += 1);
        assert_eq!((seen, reader.lost), (1, 1));
        trail.head.fetch_add(1, Relaxed);
        reader.drain(&trail, true, |_| seen += 1);
        assert_eq!((seen, reader.lost), (1, 2));
        // A nonsensical head does not keep it from ending.
        trail.head.store(u64::MAX / 2, Relaxed);
        reader.drain(&trail, true, |_| seen += 1);
        assert!(reader.lost > EVENTS as u64);
    }

    #[test]
    fn threads_lose_nothing_that_is_not_counted() {
        const EACH: u64 = 40_000;
        let (trail, mut reader, mut seen) = (trail(), Reader::default(), 0u64);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=3u32)
                .map(|pid| {
                    let trail = &trail;
                    scope.spawn(move || {
                        (0..EACH).for_each(|page| trail.fault(pid, page, page * u64::from(pid)))
                    })
                })
                .collect();
            let mut look = |reader: &mut Reader, last| {
                reader.drain(&trail, last, |event| {
                    // The fields of a torn event would not match.
                    assert_eq!(event.what, What::Fault(event.page * u64::from(event.pid)));
                    seen += 1;
                })
            };
            while !writers.iter().all(|writer| writer.is_finished()) {
                look(&mut reader, false);
            }
            look(&mut reader, true);
        });
        assert_eq!(seen + reader.lost, 3 * EACH);
        assert!(seen > 0);
    }

    #[test]
    fn runs_split_by_block_and_sizes_by_class() {
        let (trail, mut reader, mut seen) = (trail(), Reader::default(), Vec::new());
        let mut run = Run::new(&trail, 9);
        for (page, class) in [(510, ZEROS), (511, REPEATED), (512, size_class(64)), (513, size_class(4096))] {
            run.add(page, class, 100);
        }
        run.end();
        reader.drain(&trail, false, |event| seen.push((event.page, event.what)));
        assert_eq!(seen, [(510, What::Compressed(2)), (512, What::Compressed(2))]);
        let sizes: Vec<u64> = trail.sizes.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!((sizes[..3].to_vec(), sizes[SIZES - 1]), (std::vec![1, 1, 1], 1));
        assert_eq!(size_class(65), 3);
    }
}
