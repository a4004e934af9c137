//! Numbers all pages of a source in the order of their addresses.
//!
//! ```text
//!   mapping 0              mapping 1
//!  | run     . run  |     | run          |       . not resident
//!    0 1 2     3 4          5 6 7 8 9            numbers
//! ```

use crate::PAGE;

/// Adjacent pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The address of the first page.
    pub address: u64,
    /// The number of pages.
    pub pages: u64,
}

/// A part of a source with a name: a mapping, a segment of a core, a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its name, which may contain any bytes.
    pub name: Vec<u8>,
    /// Its first address.
    pub start: u64,
    /// Its resident pages.
    pub runs: Vec<Run>,
}

impl Mapping {
    /// The number of its resident pages.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.pages).sum()
    }
}

/// The index; see the module.
#[derive(Debug)]
pub struct Index {
    /// The number of its first page, the run, and the mapping's index in the list.
    runs: Vec<(u64, Run, usize)>,
    pages: u64,
}

impl Index {
    /// The index of the pages of these mappings.
    pub fn new(mappings: &[Mapping]) -> Self {
        let (mut runs, mut pages) = (Vec::new(), 0);
        for (place, mapping) in mappings.iter().enumerate() {
            for run in mapping.runs.iter().filter(|run| run.pages > 0) {
                runs.push((pages, *run, place));
                pages += run.pages;
            }
        }
        Index { runs, pages }
    }

    /// The number of pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Page `number` and the adjacent pages after it, and their mapping.
    pub fn find(&self, number: u64) -> Option<(Run, usize)> {
        let at = self.runs.partition_point(|(first, ..)| *first <= number).checked_sub(1)?;
        let (first, run, mapping) = self.runs[at];
        let into = number - first;
        let left = run.pages.checked_sub(into).filter(|left| *left > 0)?;
        Some((Run { address: run.address + into * PAGE as u64, pages: left }, mapping))
    }
}

/// The indices of the mappings with the most pages.
pub fn largest(mappings: &[Mapping], most: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..mappings.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(mappings[*place].pages()));
    places.truncate(most);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_through_all_runs() {
        let run = |address, pages| Run { address, pages };
        let mapping = |start, runs| Mapping { name: Vec::new(), start, runs };
        let index = Index::new(&[
            mapping(0, vec![run(0x1000, 3), run(0x8000, 2)]),
            mapping(0x10000, vec![]),
            mapping(0x20000, vec![run(0x20000, 5)]),
        ]);
        assert_eq!(index.pages(), 10);
        assert_eq!(index.find(0), Some((run(0x1000, 3), 0)));
        assert_eq!(index.find(2), Some((run(0x3000, 1), 0)));
        assert_eq!(index.find(3), Some((run(0x8000, 2), 0)));
        assert_eq!(index.find(9), Some((run(0x24000, 1), 2)));
        assert_eq!(index.find(10), None);
        assert_eq!(Index::new(&[]).find(0), None);
    }
}
