//! What of a process is in use: its working set over some seconds.
//!
//! The kernel's referenced bits of all its pages are cleared once (`clear_refs`), and then looked at again and again without clearing them (`smaps`): so after `t`
//! seconds one sees all that was used within them, the working set `W(t)` of Denning (1968). Its slope is the rate at which pages come that were not
//! used for `t` seconds, which is the rate of faults if just that much is kept uncompressed (Denning and Schwartz, 1972).
//!
//! Pages of a huge page have one bit together; so where there are huge pages, more seems to be in use than is. Bits that were set for the kernel's own reclaim are
//! lost, which it finds again within one round.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::Serialize;

use crate::Error;

/// Looks: after all of the time, half of it, a quarter and so on.
const LOOKS: i32 = 6;

/// What was used, and when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Private anonymous memory, bytes.
    pub resident_bytes: u64,
    /// After so many seconds, so many bytes of it had been used.
    pub points: Vec<(f64, u64)>,
    /// By the first address of each mapping: resident and used bytes, at the end.
    #[serde(skip)]
    pub by_mapping: HashMap<u64, (u64, u64)>,
}

impl WorkingSet {
    /// Bytes used in all of the time.
    pub fn used_bytes(&self) -> u64 {
        self.points.last().map_or(0, |it| it.1)
    }

    /// How long it was looked at.
    pub fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |it| it.0)
    }

    /// The share that was not used.
    pub fn idle(&self) -> f64 {
        1.0 - self.used_bytes() as f64 / self.resident_bytes.max(1) as f64
    }

    /// Pages a second that have to be brought back if so many bytes are kept uncompressed, those used last. Beyond what was seen it is the last
    /// rate, which is more than it will be.
    pub fn faults_per_second(&self, kept: u64) -> f64 {
        if kept >= self.resident_bytes {
            return 0.0;
        }
        let mut before = (0.0, 0);
        let mut rate = f64::INFINITY;
        for &(time, bytes) in &self.points {
            let slope =
                bytes.saturating_sub(before.1) as f64 / crate::PAGE as f64 / (time - before.0).max(1e-6);
            // A working set grows ever more slowly: what looks otherwise is chance.
            rate = slope.min(rate);
            if bytes >= kept {
                return rate;
            }
            before = (time, bytes);
        }
        if rate.is_finite() { rate } else { 0.0 }
    }
}

/// Looks at a process for so long. `progress` is told the share that is over, and says whether to go on.
pub fn watch(
    pid: i32,
    time: Duration,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<Option<WorkingSet>, Error> {
    let fail = |error: io::Error| match error.raw_os_error() {
        Some(number) if number == Errno::ESRCH as i32 => Error::Vanished(pid),
        _ => Error::Process(pid, error),
    };
    fs::write(format!("/proc/{pid}/clear_refs"), "1").map_err(fail)?;
    let begin = Instant::now();
    let mut set = WorkingSet { resident_bytes: 0, points: Vec::new(), by_mapping: HashMap::new() };
    for look in (0..LOOKS).rev() {
        let at = time.div_f64(2_f64.powi(look));
        while let Some(left) = at.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
            sleep(left.min(Duration::from_millis(50)));
            if !progress(begin.elapsed().as_secs_f64() / time.as_secs_f64()) {
                return Ok(None);
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let text = match fs::read_to_string(format!("/proc/{pid}/smaps")) {
            Ok(text) if !text.is_empty() => text,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            // It was there a moment ago.
            _ => return Err(Error::Vanished(pid)),
        };
        set.by_mapping = private_of(&text);
        let sum = set.by_mapping.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        set.resident_bytes = sum.0;
        // What was used and is there no more makes it smaller; it was used all the same.
        let used = set.points.last().map_or(0, |it| it.1).max(sum.1).min(sum.0);
        set.points.push((seconds, used));
    }
    Ok(Some(set))
}

/// The private mappings of `smaps`: anonymous bytes, and those of them that were referenced.
fn private_of(text: &str) -> HashMap<u64, (u64, u64)> {
    let mut mappings = HashMap::new();
    let mut start = None;
    let (mut referenced, mut resident) = (0, 0);
    for line in text.lines() {
        if line.as_bytes().first().is_some_and(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
        {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().and_then(|range| range.split_once('-'));
            let is_private = words.next().is_some_and(|word| word.ends_with('p'));
            start = address.filter(|_| is_private).and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
            (referenced, resident) = (0, 0);
            continue;
        }
        let (Some(start), Some((key, rest))) = (start, line.split_once(':')) else { continue };
        let bytes = || rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10;
        match key {
            "Rss" => resident = bytes(),
            "Referenced" => referenced = bytes(),
            "Anonymous" => {
                let anonymous = bytes();
                // Of a file's mapping some pages are the file's, and which of them were used nobody says.
                let used = referenced.saturating_sub(resident.saturating_sub(anonymous)).min(anonymous);
                if anonymous > 0 {
                    mappings.insert(start, (anonymous, used));
                }
            }
            _ => {}
        }
    }
    mappings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_of_private_mappings_counts() {
        let text = "\
7f00-7f10 rw-p 00000000 00:00 0    [heap]
Rss:                 400 kB
Referenced:          100 kB
Anonymous:           400 kB
8000-8010 rw-p 00000000 08:01 7    /lib/x.so
Rss:                 100 kB
Referenced:           70 kB
Anonymous:            40 kB
9000-9010 rw-s 00000000 00:00 0    /dev/shm/x
Rss:                 100 kB
Referenced:          100 kB
Anonymous:           100 kB
";
        let found = private_of(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[&0x7f00], (400 << 10, 100 << 10));
        assert_eq!(found[&0x8000], (40 << 10, 10 << 10));
    }

    #[test]
    fn rates_are_slopes_of_the_working_set() {
        let page = crate::PAGE as u64;
        let points = vec![(0.5, 1000 * page), (1.0, 1200 * page), (2.0, 1300 * page)];
        let set = WorkingSet { resident_bytes: 5000 * page, points, by_mapping: HashMap::new() };
        assert_eq!(set.faults_per_second(500 * page).round(), 2000.0);
        assert_eq!(set.faults_per_second(1100 * page).round(), 400.0);
        assert_eq!(set.faults_per_second(1250 * page).round(), 100.0);
        assert_eq!(set.faults_per_second(4000 * page).round(), 100.0);
        assert_eq!(set.faults_per_second(5000 * page), 0.0);
        assert!((set.idle() - 0.74).abs() < 1e-9);
    }

    /// A part of this process's memory is used all the time, and a larger one never.
    #[test]
    fn what_a_process_uses_is_seen() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let mut idle = vec![1_u8; 64 << 20];
        let stop = AtomicBool::new(false);
        let set = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut busy = vec![1_u8; 8 << 20];
                while !stop.load(Relaxed) {
                    busy.iter_mut().step_by(4096).for_each(|byte| *byte = byte.wrapping_add(1));
                    sleep(Duration::from_millis(1));
                }
            });
            let set = watch(std::process::id() as i32, Duration::from_millis(400), |_| true);
            stop.store(true, Relaxed);
            set.unwrap().unwrap()
        });
        idle[0] = 2;
        assert!(set.resident_bytes >= 72 << 20, "{set:?}");
        // Other tests of this process use some, too.
        assert!((8 << 20..60 << 20).contains(&set.used_bytes()), "{set:?}");
        assert_eq!(set.points.len(), LOOKS as usize);
    }

    #[test]
    fn one_that_is_not_there_is_an_error() {
        assert!(watch(i32::MAX, Duration::from_millis(10), |_| true).is_err());
    }
}
