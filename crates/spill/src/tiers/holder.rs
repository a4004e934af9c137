//! The process that owns data on a server, so that other processes can tell whether it still lives.
//!
//! ```text
//!   a2e48925-... 4026531836 1234 567890          boot of the machine, PID namespace, process, and its start time
//! ```
//!
//! A PID is valid only on one machine until its next boot, and in one PID namespace.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    place: String,
    pid: i32,
    begin: u64,
}

impl Holder {
    /// This process; `None` if the system does not provide its identity.
    pub fn this() -> Option<Self> {
        let pid = std::process::id() as i32;
        let Seen::Lives(begin) = look(pid) else { return None };
        Some(Holder { place: place()?, pid, begin })
    }

    /// Parses text that another process has written with `Display`.
    pub fn read(text: &str) -> Option<Self> {
        let mut words = text.rsplitn(3, ' ');
        let (begin, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Holder { place: words.next()?.to_owned(), pid, begin })
    }

    /// Whether the process has ended; `None` if that cannot be determined from here.
    pub fn has_ended(&self) -> Option<bool> {
        if place()? != self.place || self.pid <= 0 {
            return None;
        }
        Some(match look(self.pid) {
            Seen::Lives(begin) => begin != self.begin,
            Seen::Ended => true,
            // A process with this PID exists, and may be the holder.
            Seen::Hidden => false,
        })
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.place, self.pid, self.begin)
    }
}

enum Seen {
    /// A live process with this start time.
    Lives(u64),
    Ended,
    Hidden,
}

fn look(pid: i32) -> Seen {
    // SAFETY: no signal is sent.
    let is_none = unsafe { libc::kill(pid, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    if is_none {
        return Seen::Ended;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Seen::Hidden };
    // The name is in parentheses, and may itself contain parentheses. The state and other words follow it;
    // the number of threads and the start time are the 18th and the 20th.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return Seen::Hidden };
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(threads), Some(begin)) = (number(17), number(19)) else { return Seen::Hidden };
    // A zombie has ended. If only its first thread has ended, the thread count includes the others.
    if matches!(words[0], "Z" | "X") && threads <= 1 { Seen::Ended } else { Seen::Lives(begin) }
}

fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(format!("{} {space}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends() {
        let this = Holder::this().unwrap();
        assert_eq!(Holder::read(&this.to_string()), Some(this.clone()));
        assert_eq!(this.has_ended(), Some(false));
        // Another process with the same PID.
        assert_eq!(Holder { begin: this.begin + 1, ..this.clone() }.has_ended(), Some(true));
        // A process on another machine.
        assert_eq!(Holder { place: "elsewhere 1".into(), ..this.clone() }.has_ended(), None);
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id() as i32;
        let Seen::Lives(begin) = look(pid) else { panic!("it does not live") };
        let other = Holder { pid, begin, ..this };
        assert_eq!(other.has_ended(), Some(false));
        child.kill().unwrap();
        let begin = std::time::Instant::now();
        while other.has_ended() == Some(false) {
            assert!(begin.elapsed().as_secs() < 20, "nobody has waited for it yet, but it has ended");
        }
        child.wait().unwrap();
        assert_eq!(other.has_ended(), Some(true));
        assert_eq!(Holder::read("no holder"), None);
    }
}
