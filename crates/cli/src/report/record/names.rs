//! Finds the names of mappings by address, from `/proc/PID/maps`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::rc::Rc;

use memfold_proc::maps::Mapping;

/// The name of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Name {
    /// Not looked up yet, or the process had ended.
    #[default]
    Unknown,
    /// The name that was found.
    Known(Rc<str>),
}

impl Name {
    /// As text, if it is known.
    pub fn text(&self) -> Option<&str> {
        match self {
            Name::Unknown => None,
            Name::Known(name) => Some(name),
        }
    }
}

/// Finds the mappings of a sorted list of addresses, and passes each index in the list and its name to
/// `found`. Reads no further than the last address.
pub fn look(pid: i32, addresses: &[u64], found: impl FnMut(usize, &Name)) -> std::io::Result<()> {
    scan(BufReader::new(File::open(format!("/proc/{pid}/maps"))?), addresses, found)
}

fn scan(maps: impl BufRead, addresses: &[u64], mut found: impl FnMut(usize, &Name)) -> std::io::Result<()> {
    let (mut next, mut guard_end) = (0, 0);
    for line in maps.split(b'\n') {
        if next == addresses.len() {
            break;
        }
        let line = line?;
        let Some(mapping) = Mapping::parse(&line) else { continue };
        while addresses.get(next).is_some_and(|address| *address < mapping.start) {
            next += 1;
        }
        if addresses.get(next).is_some_and(|address| *address < mapping.end) {
            let name = Name::Known(name_of(&mapping, guard_end).into());
            while addresses.get(next).is_some_and(|address| *address < mapping.end) {
                found(next, &name);
                next += 1;
            }
        }
        guard_end = if is_guard(&mapping) { mapping.end } else { 0 };
    }
    Ok(())
}

/// Whether the mapping is a few inaccessible pages, like those below a thread's stack.
fn is_guard(mapping: &Mapping) -> bool {
    mapping.rights == b"---p" && mapping.name.is_empty() && mapping.end - mapping.start <= 64 << 10
}

fn name_of(mapping: &Mapping, guard_end: u64) -> String {
    if mapping.name.is_empty() {
        let what = if guard_end == mapping.start { "thread stack" } else { "anonymous" };
        return format!("[{what}] {}", memfold::size::Human(mapping.end - mapping.start));
    }
    let name = memfold_escape::text(mapping.name);
    let name = name.trim_end_matches(" (deleted)");
    let name = if name.starts_with('/') { name.rsplit('/').next().unwrap_or(name) } else { name };
    name.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mappings() {
        let maps = "\
00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a program (deleted)
01000000-01100000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 
7f1000000000-7f1000001000 ---p 00000000 00:00 0 
7f1000001000-7f1000801000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
";
        let addresses = [0, 0x400000, 0x1000000, 0x1000fff, 0x2000000, 0x7f00003fffff, 0x7f1000001000];
        let mut names = vec![String::new(); addresses.len()];
        scan(maps.as_bytes(), &addresses, |at, name| names[at] = name.text().unwrap().to_owned()).unwrap();
        assert_eq!(
            names,
            ["", "a program", "[heap]", "[heap]", "", "[anonymous] 4 MiB", "[thread stack] 8 MiB"]
        );
    }

    #[test]
    fn of_this_process() {
        let own = std::process::id() as i32;
        let local = 0u8;
        let mut found = None;
        look(own, &[&raw const local as u64], |at, name| found = Some((at, name.clone()))).unwrap();
        assert!(matches!(found, Some((0, Name::Known(_)))));
        assert!(look(i32::MAX, &[1], |_, _| ()).is_err());
    }
}
