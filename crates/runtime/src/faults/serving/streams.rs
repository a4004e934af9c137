//! Sequential faults: how many pages to restore at once.

use crate::kernel::addresses::PAGES;
use crate::kernel::sys::PAGE;

/// How many sequential streams a handler follows at the same time.
const STREAMS: usize = 8;
/// Maximum number of zero pages that a stream of touches of fresh memory gets at once.
const ZERO_RUN: usize = PAGES;

/// Faults at ascending adjacent addresses.
#[derive(Clone, Copy, Default)]
struct Stream {
    next: usize,
    run: usize,
    used: u64,
}

/// The most recent streams.
#[derive(Default)]
pub struct Streams {
    streams: [Stream; STREAMS],
    clock: u64,
}

impl Streams {
    /// How many pages to restore for a fault at `page`.
    pub fn run_length(&mut self, page: usize) -> usize {
        self.clock += 1;
        let clock = self.clock;
        if let Some(stream) = self.streams.iter_mut().find(|s| s.next == page) {
            stream.run = (stream.run * 2).clamp(1, ZERO_RUN);
            stream.used = clock;
            return stream.run;
        }
        if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = Stream { next: page + PAGE, run: 1, used: clock };
        }
        1
    }

    /// Notes where the last stream will fault next: after the restored pages.
    pub fn expect_next(&mut self, page: usize, pages: usize) {
        let clock = self.clock;
        if let Some(stream) = self.streams.iter_mut().find(|s| s.used == clock) {
            stream.next = page + pages * PAGE;
        }
    }
}
