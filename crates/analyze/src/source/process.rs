//! The resident private anonymous pages of a process.
//!
//! The process is not stopped and notices nothing. Its pages are copied while it runs, so they come from
//! slightly different moments, and a page may change while it is copied. This makes no difference to a
//! measurement that compresses each block alone. Pages that are swapped out or were never touched are not
//! read, and so do not become resident.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use memfold_proc::maps;
use memfold_proc::pagemap::{Region, is_unknown, scan};
use nix::errno::Errno;

use super::Source;
use crate::index::{Mapping, Run};
use crate::{Error, PAGE};

/// The range that is queried at once if the kernel has no search for pages.
const TOGETHER: u64 = 64 << 20;

/// An open process: all three files refer to the same memory, even if the process execs or ends.
pub struct Memory {
    maps: File,
    pagemap: File,
    memory: File,
}

/// A mapping that may hold private anonymous pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Private {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// The kernel's name for it; empty for plain memory.
    pub name: Vec<u8>,
}

impl Memory {
    /// Opens the process, which needs the right to trace it.
    pub fn open(pid: i32) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}"));
        Ok(Memory { maps: open("maps")?, pagemap: open("pagemap")?, memory: open("mem")? })
    }

    /// The private mappings; none once the process has ended.
    pub fn private(&self) -> io::Result<Vec<Private>> {
        let mut text = Vec::new();
        (&self.maps).read_to_end(&mut text)?;
        Ok(text.split(|byte| *byte == b'\n').filter_map(private).collect())
    }

    /// The first regions of resident anonymous pages from `start` on, and where to continue the search.
    pub fn resident(&self, start: u64, end: u64) -> io::Result<(Vec<Region>, u64)> {
        let mut found = vec![Region::default(); 256];
        match scan(&self.pagemap, start, end, &mut found) {
            Ok((count, next)) => {
                found.truncate(count);
                // The kernel always makes progress; `max` guarantees that the search ends in any case.
                Ok((found, next.max(start + PAGE as u64)))
            }
            // Kernels before 6.7.
            Err(error) if is_unknown(&error) => self.resident_by_page(start, end),
            Err(error) => Err(error),
        }
    }

    fn resident_by_page(&self, start: u64, end: u64) -> io::Result<(Vec<Region>, u64)> {
        const PRESENT: u64 = 1 << 63;
        const FILE: u64 = 1 << 61;
        let page = PAGE as u64;
        let next = end.min(start + TOGETHER);
        let mut entries = vec![0; ((next - start) / page * 8) as usize];
        let got = self.pagemap.read_at(&mut entries, start / page * 8)?;
        let mut found: Vec<Region> = Vec::new();
        for (i, entry) in entries[..got].chunks_exact(8).enumerate() {
            let bits = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
            if bits & PRESENT == 0 || bits & FILE != 0 {
                continue;
            }
            let at = start + i as u64 * page;
            match found.last_mut() {
                Some(last) if last.end == at => last.end += page,
                _ => found.push(Region::new(at, at + page)),
            }
        }
        Ok((found, next))
    }

    /// Copies resident bytes from an address on; returns the number of bytes copied.
    pub fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.memory.read_at(into, address).unwrap_or(0)
    }
}

/// The range of a line of `maps`, if it can contain private anonymous pages. Written pages of private file
/// mappings are such pages, too.
fn private(line: &[u8]) -> Option<Private> {
    let mapping = maps::Mapping::parse(line).filter(maps::Mapping::is_private)?;
    let special = mapping.name.starts_with(b"[v") || mapping.name.starts_with(b"/dev/");
    (!special).then(|| Private { start: mapping.start, end: mapping.end, name: mapping.name.to_owned() })
}

/// A process whose pages were listed.
pub struct Process {
    memory: Memory,
    mappings: Vec<Mapping>,
}

impl Process {
    /// Lists the resident pages of the process.
    pub fn open(pid: i32) -> Result<Self, Error> {
        let fail = |error| Error::Process(pid, error);
        let memory = Memory::open(pid).map_err(fail)?;
        let mut mappings = Vec::new();
        for Private { start, end, name } in memory.private().map_err(fail)? {
            let (mut runs, mut at) = (Vec::new(), start);
            while at < end {
                let (found, next) = match memory.resident(at, end) {
                    Ok(found) => found,
                    Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => {
                        return Err(Error::Vanished(pid));
                    }
                    Err(error) => return Err(fail(error)),
                };
                runs.extend(
                    found
                        .iter()
                        .map(|it| Run { address: it.start, pages: (it.end - it.start) / PAGE as u64 }),
                );
                at = next;
            }
            let name = if name.is_empty() { "[anonymous]".into() } else { name };
            if !runs.is_empty() {
                mappings.push(Mapping { name, start, runs });
            }
        }
        if mappings.is_empty() {
            return Err(Error::NoMemory(pid));
        }
        Ok(Process { memory, mappings })
    }
}

impl Source for Process {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.memory.read(address, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_can_hold_private_pages() {
        let range = |start, end, name: &str| Some(Private { start, end, name: name.into() });
        assert_eq!(private(b"1000-3000 rw-p 00000000 00:00 0 "), range(0x1000, 0x3000, ""));
        assert_eq!(
            private(b"1000-3000 rw-p 00000000 00:00 0          [heap]"),
            range(0x1000, 0x3000, "[heap]")
        );
        assert_eq!(
            private(b"1000-3000 r--p 00002000 08:01 77   /usr/lib/a b.so"),
            range(0x1000, 0x3000, "/usr/lib/a b.so")
        );
        let odd = private(b"1000-3000 r--p 00002000 08:01 77   /\xff").unwrap();
        assert_eq!(odd.name, b"/\xff");
        assert_eq!(private(b"1000-3000 rw-s 00000000 00:01 9    /memfd:x (deleted)"), None);
        assert_eq!(private(b"1000-3000 rw-p 00000000 00:05 9    /dev/nvidia0"), None);
        assert_eq!(private(b"1000-3000 r--p 00000000 00:00 0    [vvar]"), None);
        assert_eq!(private(b""), None);
    }

    #[test]
    fn both_ways_find_the_same_pages() {
        let memory = Memory::open(std::process::id() as i32).unwrap();
        // A mapping of its own, with a missing page in the middle.
        let mut block = vec![1u8; 4 << 20];
        let page = PAGE as u64;
        let start = (block.as_mut_ptr() as u64).next_multiple_of(page) + page;
        let end = start + 100 * page;
        let hole = start + 50 * page;
        // SAFETY: within the block, whose bytes may have any value; they read as zero afterwards.
        let given = unsafe { nix::libc::madvise(hole as *mut _, PAGE, nix::libc::MADV_DONTNEED) };
        assert_eq!(given, 0);
        let pages = |regions: Vec<Region>| regions.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
        let wanted = vec![(start, hole), (hole + page, end)];
        assert_eq!(pages(memory.resident_by_page(start, end).unwrap().0), wanted);
        assert_eq!(pages(memory.resident(start, end).unwrap().0), wanted);
        assert_eq!(block[0], 1);
    }
}
