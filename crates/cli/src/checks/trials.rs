//! Trials for `doctor` beyond userfaultfd: ways to see which pages are in use. Each trial uses one of them
//! for real, in a separate process.

use std::time::Duration;

use memfold_proc::pagemap::{Region, scan};
use memfold_proc::{PAGE, field_kib};
use nix::libc;

use super::probe::{self, Outcome};

const PAGES: u64 = 16;

/// Whether the kernel shows which pages were touched: the bits are cleared through `/proc/self/clear_refs`
/// and read from `/proc/self/smaps`.
pub fn referenced_bits() -> bool {
    answer(see_referenced)
}

/// Whether PAGEMAP_SCAN (Linux 6.7) finds present pages.
pub fn pagemap_scan() -> bool {
    answer(scan_pages)
}

fn answer(trial: impl FnOnce() -> Option<bool>) -> bool {
    let outcome = probe::in_child(Duration::from_secs(3), || vec![trial().unwrap_or(false).into()]);
    outcome == Outcome::Answer(vec![1])
}

/// Maps pages between inaccessible ones, so that the mapping merges with no other, and writes to all of them.
fn own_pages() -> Option<u64> {
    let bytes = ((PAGES + 2) * PAGE) as usize;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, how, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let first = start as u64 + PAGE;
    let inner = (PAGES * PAGE) as usize;
    // SAFETY: within the mapping just made; no reference into it exists.
    let opened = unsafe { libc::mprotect(first as *mut _, inner, libc::PROT_READ | libc::PROT_WRITE) };
    if opened != 0 {
        return None;
    }
    touch(first, PAGES);
    Some(first)
}

fn touch(first: u64, pages: u64) {
    for page in 0..pages {
        // SAFETY: pages of `own_pages`, which are writable and to which no reference exists.
        unsafe { std::ptr::write_volatile((first + page * PAGE) as *mut u8, 1) };
    }
}

fn referenced(first: u64) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let head = format!("{first:x}-");
    let own = maps.lines().position(|line| line.starts_with(&head))?;
    let rest: Vec<&str> = maps.lines().skip(own).take(24).collect();
    field_kib(&rest.join("\n"), "Referenced:")
}

fn see_referenced() -> Option<bool> {
    let first = own_pages()?;
    let before = referenced(first)?;
    std::fs::write("/proc/self/clear_refs", "1").ok()?;
    let cleared = referenced(first)?;
    touch(first, PAGES / 4);
    let after = referenced(first)?;
    Some(before == PAGES * PAGE && cleared == 0 && after == PAGES / 4 * PAGE)
}

fn scan_pages() -> Option<bool> {
    let first = own_pages()?;
    let file = std::fs::File::open("/proc/self/pagemap").ok()?;
    let mut found = [Region::default(); 4];
    let (count, _) = scan(&file, first, first + PAGES * PAGE, &mut found).ok()?;
    Some(count == 1 && (found[0].start, found[0].end) == (first, first + PAGES * PAGE))
}
