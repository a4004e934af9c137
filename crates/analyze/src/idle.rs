//! Measures what a process uses: its working set over some seconds.
//!
//! The kernel's referenced bits of all pages of the process are cleared once (`clear_refs`), and then read
//! several times without clearing them (`smaps`). After `t` seconds they show everything that was used within
//! that time: the working set `W(t)` of Denning (1968). From it `faults_per_second` predicts how many pages
//! are evicted and restored if a given amount stays uncompressed under a known policy.
//!
//! The pages of a huge page share one bit, so huge pages make more memory seem in use than is. The clearing
//! also loses the bits that the kernel's own reclaim relies on; reclaim collects them again within one round.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use memfold_proc::maps::{self, Mapping};
use nix::errno::Errno;
use serde::Serialize;

use crate::Error;
use crate::source::several;

/// The number of readings: after the whole time, half of it, a quarter, and so on.
const LOOKS: i32 = 6;

/// The memory that was used within increasing times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Private anonymous memory, bytes.
    pub resident_bytes: u64,
    /// Pairs: a time in seconds, and the bytes used within it.
    pub points: Vec<(f64, u64)>,
    /// Resident and used bytes of each mapping at the end, by its first address.
    #[serde(skip)]
    pub by_mapping: HashMap<u64, (u64, u64)>,
}

impl WorkingSet {
    /// Bytes used within the whole time.
    pub fn used_bytes(&self) -> u64 {
        self.points.last().map_or(0, |it| it.1)
    }

    /// How long the process was watched.
    pub fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |it| it.0)
    }

    /// The share that was not used.
    pub fn idle(&self) -> f64 {
        1.0 - self.used_bytes() as f64 / self.resident_bytes.max(1) as f64
    }

    /// Pages per second that must be restored if this many bytes stay uncompressed, namely those restored
    /// last. The runtime evicts pages in the order in which they became resident, so a page is evicted after
    /// a time `T`, however often it was used. If pages are used independently of each other, as many are
    /// resident as if each stayed for a random time with that mean (Gelenbe, 1973). So the number `K` of
    /// resident pages is the mean of `W` over exponentially distributed times with the mean `T`, and `K / T`
    /// pages are evicted and restored each second.
    pub fn faults_per_second(&self, kept: u64) -> f64 {
        if kept >= self.resident_bytes {
            return 0.0;
        }
        let (kept, pieces) = (kept.max(crate::PAGE as u64), self.pieces());
        // The mean of W: each piece of the curve adds its slope for its length.
        let present = |mean: f64| -> f64 {
            pieces
                .iter()
                .map(|(from, to, slope)| slope * mean * ((-from / mean).exp() - (-to / mean).exp()))
                .sum()
        };
        let (mut low, mut high) = (1e-6_f64, 1e9);
        if present(high) < kept as f64 {
            return 0.0;
        }
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            if present(middle) < kept as f64 { low = middle } else { high = middle }
        }
        kept as f64 / crate::PAGE as f64 / high
    }

    /// The curve in straight pieces: from, to, and bytes per second. Beyond the observed time the last slope
    /// continues, which overestimates the curve.
    fn pieces(&self) -> Vec<(f64, f64, f64)> {
        let mut pieces = Vec::new();
        let (mut before, mut slope, mut bytes_before) = ((0.0, 0), f64::INFINITY, 0.0);
        for &(time, bytes) in &self.points {
            let seconds = (time - before.0).max(1e-6);
            // A working set grows ever more slowly: a steeper piece is chance.
            slope = slope.min(bytes.saturating_sub(before.1) as f64 / seconds);
            pieces.push((before.0, time, slope));
            bytes_before += slope * seconds;
            before = (time, bytes);
        }
        let left = self.resident_bytes as f64 - bytes_before;
        if slope.is_finite() && slope > 0.0 && left > 0.0 {
            pieces.push((before.0, before.0 + left / slope, slope));
        }
        pieces
    }
}

/// Observations of several processes.
#[derive(Debug)]
pub struct Watched {
    /// Processes that could not be watched to the end, by their index in the list.
    pub failed: Vec<(usize, Error)>,
    /// The time of each reading, and each process's resident and used bytes then.
    looks: Vec<(f64, Vec<(u64, u64)>)>,
    by_mapping: HashMap<u64, (u64, u64)>,
}

impl Watched {
    /// The joint working set of the processes whose index satisfies `counts`.
    pub fn set(&self, counts: impl Fn(usize) -> bool) -> WorkingSet {
        let mut set = WorkingSet { resident_bytes: 0, points: Vec::new(), by_mapping: HashMap::new() };
        for (seconds, each) in &self.looks {
            let those = each.iter().enumerate().filter(|(place, _)| counts(*place));
            let sum = those.fold((0, 0), |sum, (_, it)| (sum.0 + it.0, sum.1 + it.1));
            set.resident_bytes = sum.0;
            // Memory that was used and then released lowers the sum, but it was used all the same.
            let used = set.used_bytes().max(sum.1).min(sum.0);
            set.points.push((*seconds, used));
        }
        let those = self.by_mapping.iter().filter(|(address, _)| counts(several::place(**address)));
        set.by_mapping = those.map(|(address, bytes)| (*address, *bytes)).collect();
        set
    }
}

/// Watches these processes for this long, or until none of them is left. `progress` receives the fraction of
/// the time that has passed. Addresses are encoded as in [`several`].
pub fn watch(pids: &[i32], time: Duration, mut progress: impl FnMut(f64)) -> Watched {
    let (mut failed, mut looks, mut by_mapping) = (Vec::new(), Vec::new(), HashMap::new());
    let fail = |pid: i32, error: io::Error| match error.raw_os_error() {
        Some(number) if number == Errno::ESRCH as i32 => Error::Vanished(pid),
        _ => Error::Process(pid, error),
    };
    let mut watch: Vec<(usize, i32)> = pids.iter().copied().enumerate().collect();
    let mut each = |watch: &mut Vec<(usize, i32)>, does: &mut dyn FnMut(usize, i32) -> Result<(), Error>| {
        watch.retain(|&(place, pid)| does(place, pid).map_err(|error| failed.push((place, error))).is_ok());
    };
    each(&mut watch, &mut |_, pid| {
        fs::write(format!("/proc/{pid}/clear_refs"), "1").map_err(|error| fail(pid, error))
    });
    let begin = Instant::now();
    for look in (0..LOOKS).rev() {
        let at = time.div_f64(2_f64.powi(look));
        while let Some(left) =
            at.checked_sub(begin.elapsed()).filter(|left| !left.is_zero() && !watch.is_empty())
        {
            sleep(left.min(Duration::from_millis(50)));
            progress(begin.elapsed().as_secs_f64() / time.as_secs_f64());
        }
        let seconds = begin.elapsed().as_secs_f64();
        let mut sums = vec![(0, 0); pids.len()];
        by_mapping.clear();
        each(&mut watch, &mut |place, pid| {
            // Names of mappings may contain any bytes.
            let text = match fs::read(format!("/proc/{pid}/smaps")) {
                Ok(text) if !text.is_empty() => text,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(pid, error)),
                // The process has ended since it was opened.
                _ => return Err(Error::Vanished(pid)),
            };
            let found = private_of(&String::from_utf8_lossy(&text));
            sums[place] = found.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            let found = found.into_iter();
            by_mapping.extend(found.map(|(start, bytes)| (several::address(place, start), bytes)));
            Ok(())
        });
        looks.push((seconds, sums));
    }
    Watched { failed, looks, by_mapping }
}

/// The private mappings in `smaps`: anonymous bytes, and how many of them are referenced.
fn private_of(text: &str) -> HashMap<u64, (u64, u64)> {
    let mut mappings = HashMap::new();
    let mut start = None;
    let (mut referenced, mut resident) = (0, 0);
    for line in text.lines() {
        if let Some(mapping) = Mapping::parse(line.as_bytes()) {
            start = mapping.is_private().then_some(mapping.start);
            (referenced, resident) = (0, 0);
            continue;
        }
        let (Some(start), Some((name, bytes))) = (start, maps::figure(line)) else { continue };
        match name {
            "Rss" => resident = bytes,
            "Referenced" => referenced = bytes,
            "Anonymous" => {
                // Some pages of a file's mapping belong to the file. The kernel does not say which pages were
                // used, so these count as used first.
                let used = referenced.saturating_sub(resident.saturating_sub(bytes)).min(bytes);
                if bytes > 0 {
                    mappings.insert(start, (bytes, used));
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

    /// Simulates, step by step, pages that are used at these rates in a memory with FIFO eviction.
    fn simulated(rates: &[(usize, f64)], kept: usize) -> f64 {
        let pages: Vec<f64> =
            rates.iter().flat_map(|(count, rate)| std::iter::repeat_n(*rate, *count)).collect();
        let mut ends: Vec<f64> = Vec::new();
        let sum = pages.iter().fold(0.0, |sum, rate| {
            ends.push(sum + rate);
            sum + rate
        });
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut present = std::collections::VecDeque::new();
        let mut is_there = vec![false; pages.len()];
        let (mut faults, uses) = (0, 1_000_000);
        for number in 0..2 * uses {
            let wanted = next() * sum;
            let page = ends.partition_point(|end| *end < wanted).min(pages.len() - 1);
            if !is_there[page] {
                faults += i32::from(number >= uses);
                is_there[page] = true;
                present.push_back(page);
                if present.len() > kept {
                    is_there[present.pop_front().unwrap_or(0)] = false;
                }
            }
        }
        f64::from(faults) / (f64::from(uses) / sum)
    }

    #[test]
    fn rates_are_those_of_first_in_first_out() {
        let page = crate::PAGE as u64;
        // Uses per second: often, now and then, hardly ever.
        let rates: [(usize, f64); 3] = [(2000, 20.0), (3000, 0.8), (5000, 0.02)];
        let used = |time: f64| -> f64 {
            rates.iter().map(|(count, rate)| *count as f64 * (1.0 - (-rate * time).exp())).sum()
        };
        let points: Vec<(f64, u64)> = (0..LOOKS)
            .rev()
            .map(|look| 4.0_f64 / 2_f64.powi(look))
            .map(|time| (time, used(time) as u64 * page))
            .collect();
        let set = WorkingSet { resident_bytes: 10_000 * page, points, by_mapping: HashMap::new() };
        for kept in [2100, 2500, 4000, 5200, 7000] {
            let (told, found) = (set.faults_per_second(kept * page), simulated(&rates, kept as usize));
            // There are only six readings within four seconds: beyond the last one the prediction is too
            // high.
            let most = if kept * page > set.used_bytes() / 10 * 9 { 2.5 } else { 1.3 };
            assert!((0.75..most).contains(&(told / found)), "{kept} pages kept: {told} told, {found} found");
        }
        // Far beyond it, the prediction is never too low.
        assert!(set.faults_per_second(9000 * page) > simulated(&rates, 9000));
        assert_eq!(set.faults_per_second(10_000 * page), 0.0);
        assert!((set.idle() - 0.5).abs() < 0.03, "{}", set.idle());
    }

    #[test]
    fn a_working_set_fits_or_does_not() {
        let page = crate::PAGE as u64;
        let points = vec![(0.5, 1000 * page), (1.0, 1200 * page), (2.0, 1200 * page)];
        let set = WorkingSet { resident_bytes: 5000 * page, points, by_mapping: HashMap::new() };
        assert_eq!(set.faults_per_second(1201 * page), 0.0);
        assert!(set.faults_per_second(1100 * page) > 250.0);
        assert!((set.idle() - 0.76).abs() < 1e-9);
    }

    /// A part of this process's memory is used all the time, and a larger part never.
    #[test]
    fn the_memory_that_a_process_uses_is_found() {
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
            let watched = watch(&[std::process::id() as i32], Duration::from_millis(400), |_| ());
            stop.store(true, Relaxed);
            watched.set(|_| true)
        });
        idle[0] = 2;
        assert!(set.resident_bytes >= 72 << 20, "{set:?}");
        // Other tests in this process use memory, too.
        assert!((8 << 20..60 << 20).contains(&set.used_bytes()), "{set:?}");
        assert_eq!(set.points.len(), LOOKS as usize);
    }

    #[test]
    fn missing_processes_are_left_out() {
        let watched = watch(&[i32::MAX], Duration::from_secs(3600), |_| ());
        assert!(matches!(watched.failed[..], [(0, Error::Process(i32::MAX, _))]), "{watched:?}");
        let own = std::process::id() as i32;
        let watched = watch(&[i32::MAX, own], Duration::from_millis(10), |_| ());
        assert_eq!(watched.failed.len(), 1);
        let set = watched.set(|place| place == 1);
        assert!(
            set.resident_bytes > 0 && set.by_mapping.keys().all(|it| several::place(*it) == 1),
            "{set:?}"
        );
        assert_eq!(watched.set(|place| place == 0).resident_bytes, 0);
    }

    #[test]
    fn ended_processes_do_not_count() {
        let looks = vec![(1.0, vec![(100, 80), (50, 10)]), (2.0, vec![(0, 0), (50, 20)])];
        let watched = Watched { failed: Vec::new(), looks, by_mapping: HashMap::new() };
        let set = watched.set(|place| place == 1);
        assert_eq!((set.resident_bytes, set.points), (50, vec![(1.0, 10), (2.0, 20)]));
    }
}
