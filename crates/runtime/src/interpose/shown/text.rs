//! The files that are shown differently, and their contents.
//!
//! | file | what is replaced |
//! | --- | --- |
//! | `/proc/meminfo` | total, free and available memory; buffers and caches, which others fill, are none |
//! | `memory.max`, `.high`; `memory.limit_in_bytes`, `memory.memsw.limit_in_bytes` | a limit, if at least memfold's |
//! | `memory.current`; `memory.usage_in_bytes`, `memory.memsw.usage_in_bytes` | more by what compression saves |
//! | `memory.stat` of version 1 | `hierarchical_memory_limit` and `hierarchical_memsw_limit`, likewise |

use core::fmt::Write;

use memfold_shared::page::Shown;

/// More than the files hold.
pub const MOST_BYTES: usize = 8192;
/// Version 1 writes "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// The kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/proc/meminfo`
    Machine,
    /// A cgroup's limit.
    Limit,
    /// A cgroup's use.
    Use,
    /// A cgroup's statistics.
    Statistics,
}

impl Kind {
    /// The kind of a file with this path, if it is in the file system that has such files.
    pub fn of(path: &[u8]) -> Option<Self> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        match name {
            b"meminfo" => Some(Kind::Machine),
            b"memory.max" | b"memory.high" | b"memory.limit_in_bytes" | b"memory.memsw.limit_in_bytes" => {
                Some(Kind::Limit)
            }
            b"memory.current" | b"memory.usage_in_bytes" | b"memory.memsw.usage_in_bytes" => Some(Kind::Use),
            b"memory.stat" => Some(Kind::Statistics),
            _ => None,
        }
    }

    /// Whether this is that file system, as `statfs` names it.
    pub fn is_in(self, file_system: u64) -> bool {
        const PROC: u64 = 0x9fa0;
        const CGROUP: u64 = 0x27_e0eb;
        const CGROUP_2: u64 = 0x6367_7270;
        match self {
            Kind::Machine => file_system == PROC,
            _ => file_system == CGROUP || file_system == CGROUP_2,
        }
    }

    /// Writes what is shown instead of a file's contents; `None` if they stay, or are not what they should be.
    pub fn show(self, contents: &[u8], shown: Shown, into: &mut Contents) -> Option<()> {
        let text = core::str::from_utf8(contents).ok()?;
        match self {
            Kind::Machine => machine(text, shown, into),
            Kind::Limit => {
                let limit = number(text.trim_ascii())?;
                is_ours(limit, shown).then_some(())?;
                writeln!(into, "{}", shown.total).ok()
            }
            Kind::Use => {
                let used = number(text.trim_ascii())?;
                writeln!(into, "{}", used.saturating_add(shown.saved).min(shown.total)).ok()
            }
            Kind::Statistics => statistics(text, shown, into),
        }
    }
}

fn machine(text: &str, shown: Shown, into: &mut Contents) -> Option<()> {
    for line in text.lines() {
        let name = line.split(':').next()?;
        let bytes = match name {
            "MemTotal" => shown.total,
            "MemFree" | "MemAvailable" => shown.free,
            "Buffers" | "Cached" | "SwapCached" | "KReclaimable" | "SReclaimable" | "Active(file)"
            | "Inactive(file)" => 0,
            _ => {
                writeln!(into, "{line}").ok()?;
                continue;
            }
        };
        // As the kernel does: the numbers end in one column.
        writeln!(into, "{name}:{:1$} kB", bytes >> 10, 23usize.saturating_sub(name.len())).ok()?;
    }
    Some(())
}

fn statistics(text: &str, shown: Shown, into: &mut Contents) -> Option<()> {
    let mut any = false;
    for line in text.lines() {
        let limited = line.split_once(' ').filter(|(name, bytes)| {
            matches!(*name, "hierarchical_memory_limit" | "hierarchical_memsw_limit")
                && number(bytes).is_some_and(|bytes| is_ours(bytes, shown))
        });
        match limited {
            Some((name, _)) => writeln!(into, "{name} {}", shown.total).ok()?,
            None => writeln!(into, "{line}").ok()?,
        }
        any |= limited.is_some();
    }
    any.then_some(())
}

/// Whether this is a limit, and may be that of a cgroup in which memfold was started: one that is lower than
/// memfold's was set later, for a part of the tree or for others.
fn is_ours(limit: u64, shown: Shown) -> bool {
    (shown.limit..NO_LIMIT).contains(&limit)
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Contents that are written without an allocation.
pub struct Contents {
    bytes: [u8; MOST_BYTES],
    length: usize,
}

impl Contents {
    /// None yet.
    pub const fn new() -> Self {
        Contents { bytes: [0; MOST_BYTES], length: 0 }
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Contents {
    /// Fails if there is no room for all of it: half a file is worse than the kernel's.
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(core::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;

    const SHOWN: Shown = Shown { total: 300 << 20, limit: 90 << 20, free: 100 << 20, saved: 50 << 20 };

    fn shown(kind: Kind, contents: &str) -> Option<String> {
        let mut into = Contents::new();
        kind.show(contents.as_bytes(), SHOWN, &mut into)?;
        Some(String::from_utf8(into.bytes().to_vec()).unwrap())
    }

    #[test]
    fn files_by_name_and_file_system() {
        assert_eq!(Kind::of(b"/proc/meminfo"), Some(Kind::Machine));
        assert_eq!(Kind::of(b"/sys/fs/cgroup/a/b/memory.max"), Some(Kind::Limit));
        assert_eq!(Kind::of(b"memory.usage_in_bytes"), Some(Kind::Use));
        assert_eq!(Kind::of(b"/sys/fs/cgroup/memory.stat"), Some(Kind::Statistics));
        for other in ["", "/", "/proc/meminfo/", "/proc/vmstat", "a.meminfo", "memory.max.old"] {
            assert_eq!(Kind::of(other.as_bytes()), None, "{other}");
        }
        assert!(Kind::Machine.is_in(0x9fa0) && !Kind::Machine.is_in(0x6265_6572));
        assert!(Kind::Limit.is_in(0x6367_7270) && Kind::Use.is_in(0x27_e0eb) && !Kind::Limit.is_in(0xef53));
    }

    #[test]
    fn the_machine() {
        let text = "MemTotal:       24689764 kB\nMemFree:        22516124 kB\nMemAvailable:   23423420 kB\n\
                    Buffers:           39932 kB\nCached:          1142036 kB\nSwapTotal:             0 kB\n\
                    HugePages_Total:       0\n";
        let wanted = "MemTotal:         307200 kB\nMemFree:          102400 kB\nMemAvailable:     102400 kB\n\
                      Buffers:               0 kB\nCached:                0 kB\nSwapTotal:             0 kB\n\
                      HugePages_Total:       0\n";
        assert_eq!(shown(Kind::Machine, text).as_deref(), Some(wanted));
        let real = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert_eq!(shown(Kind::Machine, &real).unwrap().lines().count(), real.lines().count());
    }

    #[test]
    fn a_cgroup() {
        assert_eq!(shown(Kind::Limit, "104857600\n").as_deref(), Some("314572800\n"));
        // A group below or beside, which memfold's limit does not fit into.
        assert_eq!(shown(Kind::Limit, "50000000\n"), None);
        // No limit stays no limit.
        assert_eq!(shown(Kind::Limit, "max\n"), None);
        assert_eq!(shown(Kind::Limit, "9223372036854771712\n"), None);
        assert_eq!(shown(Kind::Use, "52428800\n").as_deref(), Some("104857600\n"));
        assert_eq!(shown(Kind::Use, "304857600\n").as_deref(), Some("314572800\n"));
        let stat =
            "cache 5\nhierarchical_memory_limit 104857600\nhierarchical_memsw_limit 9223372036854771712\n";
        let wanted =
            "cache 5\nhierarchical_memory_limit 314572800\nhierarchical_memsw_limit 9223372036854771712\n";
        assert_eq!(shown(Kind::Statistics, stat).as_deref(), Some(wanted));
        assert_eq!(shown(Kind::Statistics, "anon 5\nfile 7\n"), None);
    }

    #[test]
    fn content_that_does_not_fit_is_not_changed() {
        assert_eq!(shown(Kind::Machine, &"MemTotal: 1 kB\n".repeat(MOST_BYTES / 12)), None);
        assert_eq!(shown(Kind::Limit, "\u{fffd}"), None);
        assert_eq!(shown(Kind::Limit, ""), None);
    }
}
