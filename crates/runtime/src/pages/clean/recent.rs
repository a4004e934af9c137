//! Which clean pages were restored recently: see `exchange.rs`.

use crate::kernel::sys::PAGE;

/// Maximum number of runs to remember. The keeper evicts forgotten ones.
const RUNS: usize = 2048;

/// Clean pages in the order in which they were restored: runs, as an address with the number of pages in its
/// low bits.
pub struct Recent {
    pub(super) runs: [u64; RUNS],
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) pages: usize,
    pub(super) owed: usize,
}

impl Recent {
    /// No pages.
    pub const fn new() -> Self {
        Recent { runs: [0; RUNS], first: 0, count: 0, pages: 0, owed: 0 }
    }

    /// Forgets all of them: in a forked child they are not clean, or pages may no longer be evicted this way.
    pub fn forget(&mut self) {
        (self.first, self.count, self.pages, self.owed) = (0, 0, 0, 0);
    }

    pub(super) fn push(&mut self, start: usize, pages: usize) {
        if self.count == RUNS {
            self.pop();
        }
        self.runs[(self.first + self.count) % RUNS] = (start | pages) as u64;
        self.count += 1;
        self.pages += pages;
    }

    pub(super) fn pop(&mut self) -> Option<(usize, usize)> {
        self.count = self.count.checked_sub(1)?;
        let run = self.runs[self.first] as usize;
        self.first = (self.first + 1) % RUNS;
        let (start, pages) = (run & !(PAGE - 1), run & (PAGE - 1));
        self.pages -= pages;
        Some((start, pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::addresses::RUN;

    #[test]
    fn runs_are_popped_in_order_and_old_ones_are_forgotten() {
        let mut recent = Recent::new();
        assert_eq!(recent.pop(), None);
        for number in 1..=RUNS + 3 {
            recent.push(number * RUN * PAGE, 1 + number % RUN);
        }
        assert_eq!(recent.count, RUNS);
        assert_eq!(recent.pop(), Some((4 * RUN * PAGE, 5)));
        let rest: usize = core::iter::from_fn(|| recent.pop()).map(|(_, pages)| pages).sum();
        assert_eq!(rest, (5..=RUNS + 3).map(|number| 1 + number % RUN).sum());
        assert_eq!((recent.pages, recent.count), (0, 0));
    }
}
