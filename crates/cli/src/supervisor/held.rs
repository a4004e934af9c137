//! Explains why a process stays over the limit: private memory that counts but is not managed. memfold
//! searches the kernel's list of the process's mappings for it, rarely, and only while the limit is exceeded.

use std::io::{BufRead, BufReader};

use memfold_proc::maps::{Mapping, figure};

use crate::report::seen::Held;

/// The runtime does not manage mappings smaller than this.
const SMALLEST: u64 = 64 << 10;

/// Kinds of memory that is not managed. The text follows a size.
const KINDS: [&str; 5] = [
    "are changed pages of files (private mappings)",
    "are the main thread's stack",
    "are in mappings of less than 64 KiB",
    "are sealed (mseal)",
    "are locked (mlock)",
];
const FILES: usize = 0;
const STACK: usize = 1;
const SMALL: usize = 2;
const SEALED: usize = 3;
const LOCKED: usize = 4;

/// The largest kind in a process.
pub fn look(pid: i32) -> Option<Held> {
    parse(BufReader::new(std::fs::File::open(format!("/proc/{pid}/smaps")).ok()?))
}

fn parse(text: impl BufRead) -> Option<Held> {
    let mut sums = [0u64; KINDS.len()];
    let (mut kind, mut bytes) = (None, 0);
    for line in text.lines().map_while(Result::ok) {
        if let Some(("Anonymous", anonymous)) = figure(&line) {
            bytes = anonymous;
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            let has = |flag: &str| flags.split_whitespace().any(|found| found == flag);
            let kind = match kind {
                Some(kind) => Some(kind),
                None if has("sl") => Some(SEALED),
                None => has("lo").then_some(LOCKED),
            };
            if let Some(kind) = kind {
                sums[kind] += bytes;
            }
            bytes = 0;
        } else if let Some(mapping) = Mapping::parse(line.as_bytes()) {
            kind = kind_of(&mapping);
        }
    }
    let (kind, bytes) = sums.into_iter().enumerate().max_by_key(|(_, bytes)| *bytes)?;
    Some(Held { bytes, what: KINDS[kind] })
}

/// The kind of a mapping, as far as its first line tells.
fn kind_of(mapping: &Mapping) -> Option<usize> {
    match mapping.name {
        [b'/', ..] => Some(FILES),
        b"[stack]" => Some(STACK),
        _ => (mapping.end - mapping.start < SMALLEST).then_some(SMALL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let entry = |head: &str, kib: u32, flags: &str| {
            format!("{head}\nSize: 4 kB\nAnonymous:  {kib} kB\nAnonHugePages: 9 kB\nVmFlags: rd {flags}\n")
        };
        let found = |text: &str| parse(text.as_bytes()).map(|held| (held.bytes >> 10, held.what));
        let heap = entry("5000-900000 rw-p 00000000 00:00 0    [heap]", 900, "wr");
        assert_eq!(found(&heap), Some((0, KINDS[LOCKED])));
        let file = entry("7000-900000 rw-p 00000000 fe:00 12   /tmp/a b", 70, "wr");
        let stack = entry("7f00-900000 rw-p 00000000 00:00 0   [stack]", 50, "wr gd");
        assert_eq!(found(&(heap.clone() + &file + &stack)), Some((70, KINDS[FILES])));
        let small = entry("1000-3000 rw-p 00000000 00:00 0 ", 8, "wr").repeat(20);
        assert_eq!(found(&(file + &small)), Some((160, KINDS[SMALL])));
        assert_eq!(found(&(heap + &stack)), Some((50, KINDS[STACK])));
        let sealed = entry("100000-300000 rw-p 00000000 00:00 0 ", 300, "wr sl");
        assert_eq!(found(&(sealed + &small)), Some((300, KINDS[SEALED])));
    }
}
