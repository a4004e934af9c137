//! The processes of a run: their memory, and what paging cost them. The list is bounded. For processes beyond
//! the bound, only the sums of the counters are kept.
//!
//! Counters are exact, because they are read after a process has ended and before its slot is freed. Gauges
//! are read with each sample, and the largest values are kept.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use memfold_proc::process;
use memfold_shared::page::{Counters, Shared, Slot, state};

/// The maximum number of processes.
pub const PROCESSES: usize = 200;
/// The number that stands for all processes beyond the list.
pub const OTHERS: u32 = u32::MAX;
/// The maximum number of characters of a command that are kept.
const COMMAND: usize = 160;
/// The maximum number of bytes of a command line that are read.
const LINE: u64 = 1024;

/// Values of [`Counters::each`].
pub type Sums = [u64; 16];

/// Reads the counters.
pub fn sums(counters: &Counters) -> Sums {
    counters.each().map(|(_, value)| value.load(Relaxed))
}

/// The value of a counter by its name.
pub fn count(shared: &Shared, sums: &Sums, name: &str) -> u64 {
    let at = shared.ended.each().iter().position(|(own, _)| *own == name);
    at.map_or(0, |at| sums[at])
}

/// One process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its id: the one outside of its pid namespace, if known.
    pub pid: i32,
    /// Its parent's id when the process was first seen.
    pub parent: i32,
    /// Its command, if it lived long enough to be read.
    pub command: String,
    /// When it was first seen, in seconds.
    pub from: f64,
    /// When it was seen to have ended.
    pub to: Option<f64>,
    /// Peak private memory in bytes, including memfold's memory in the process.
    pub peak_resident: u64,
    /// The peak of the evicted bytes minus the memory for their storage.
    pub peak_saved: u64,
    /// The peak of the evicted bytes, and the payload at that time.
    pub peak_evicted: (u64, u64),
    /// Counters.
    pub sums: Sums,
    /// It has taken a slot.
    pub managed: bool,
    /// Why it is not managed.
    pub why: Option<String>,
    /// The runtime in it has stopped.
    pub stopped: bool,
    image: u64,
}

/// The list.
#[derive(Debug, Default)]
pub struct Processes {
    /// In the order in which they were first seen.
    pub list: Vec<Process>,
    by_pid: HashMap<u32, u32>,
    /// Processes without room in the list: their number, and the sums of their counters.
    pub more: (u64, Sums),
}

impl Processes {
    /// The index of the process that has, or had, this id.
    pub fn find(&self, pid: u32) -> Option<u32> {
        self.by_pid.get(&pid).copied()
    }

    fn enter(&mut self, pid: u32, at: f64) -> u32 {
        let known = self.find(pid).filter(|number| *number == OTHERS || self.at(*number).to.is_none());
        if let Some(number) = known {
            return number;
        }
        let number = if self.list.len() < PROCESSES { self.list.len() as u32 } else { OTHERS };
        if number == OTHERS {
            self.more.0 += 1;
            // Not entered in the map, which would outgrow the list.
            return OTHERS;
        }
        self.by_pid.insert(pid, number);
        self.list.push(Process { pid: pid as i32, from: at, ..Process::default() });
        number
    }

    fn at(&self, number: u32) -> &Process {
        &self.list[number as usize]
    }

    /// Adds processes that have a slot and are not known yet.
    pub fn welcome(&mut self, shared: &Shared, at: f64) {
        for slot in shared.live_slots() {
            let pid = slot.pid.load(Relaxed);
            if self.list.len() < PROCESSES || self.by_pid.contains_key(&pid) {
                self.enter(pid, at);
            }
        }
    }

    /// Records a process that has a slot now; `pid` is its id outside of its pid namespace, if known.
    pub fn note(&mut self, slot: &Slot, pid: Option<i32>, at: f64) {
        let inner = slot.pid.load(Relaxed);
        if self.list.len() >= PROCESSES && !self.by_pid.contains_key(&inner) {
            return;
        }
        let number = self.enter(inner, at);
        let Some(process) = self.list.get_mut(number as usize) else { return };
        let image = slot.image.load(Relaxed);
        if let Some(pid) =
            pid.filter(|pid| *pid != process.pid || process.parent == 0 || image != process.image)
        {
            process.look(pid);
            process.image = image;
        }
        let [resident, evicted, payload, overhead] =
            [&slot.resident, &slot.evicted, &slot.payload, &slot.overhead].map(|gauge| gauge.load(Relaxed));
        process.managed = true;
        process.peak_resident = process.peak_resident.max(resident);
        process.peak_saved = process.peak_saved.max(evicted.saturating_sub(payload + overhead));
        process.peak_evicted = process.peak_evicted.max((evicted, payload));
        process.stopped |= slot.state.load(Relaxed) == state::STOPPED;
        process.sums = sums(&slot.counters);
    }

    /// Records that a process has ended, with these counters.
    pub fn ended(&mut self, pid: u32, sums: Sums, at: f64) {
        match self.enter(pid, at) {
            OTHERS => self.more.1.iter_mut().zip(sums).for_each(|(sum, value)| *sum += value),
            number => {
                let process = &mut self.list[number as usize];
                (process.to, process.sums, process.managed) = (Some(at), sums, true);
            }
        }
    }

    /// Records that a process is not managed.
    pub fn unmanaged(&mut self, pid: i32, why: &str, at: f64) {
        let number = self.enter(pid as u32, at);
        if let Some(process) = self.list.get_mut(number as usize) {
            process.look(pid);
            process.why = Some(why.to_owned());
        }
    }

    /// Reads the memory of unmanaged processes, which nothing else reads.
    pub fn look_at_unmanaged(&mut self, at: f64) {
        for process in self.list.iter_mut().filter(|process| process.why.is_some() && process.to.is_none()) {
            match process::anonymous(process.pid) {
                Some(bytes) if bytes > 0 => process.peak_resident = process.peak_resident.max(bytes),
                _ if process::has_ended(process.pid) => process.to = Some(at),
                _ => {}
            }
        }
    }
}

impl Process {
    fn look(&mut self, pid: i32) {
        self.pid = pid;
        if let Some(stat) = process::stat(pid) {
            self.parent = stat.parent;
        }
        if let Some(command) = command(pid)
            .or_else(|| Some(memfold_escape::text(&process::name(pid)?).into_owned()))
            .filter(|text| !text.is_empty())
        {
            self.command = command;
        }
    }
}

fn command(pid: i32) -> Option<String> {
    let line = process::command_line(pid, LINE)?;
    let text = memfold_escape::text(&line);
    let words: Vec<String> =
        text.split('\0').map(|word| word.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Some(words.join(" ").trim_end().chars().take(COMMAND).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_summed_up() {
        let mut processes = Processes::default();
        for pid in 0..PROCESSES as u32 + 50 {
            processes.ended(pid + 1, [1; 16], 0.5);
        }
        assert_eq!(processes.list.len(), PROCESSES);
        assert_eq!(processes.more, (50, [50; 16]));
        assert_eq!(processes.by_pid.len(), PROCESSES);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_process() {
        let mut processes = Processes::default();
        processes.ended(7, [1; 16], 0.5);
        processes.ended(7, [2; 16], 0.9);
        assert_eq!(processes.list.iter().map(|process| process.sums[0]).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(processes.find(7), Some(1));
        processes.unmanaged(std::process::id() as i32, "static", 1.0);
        processes.look_at_unmanaged(1.1);
        let own = &processes.list[2];
        assert!(own.peak_resident > 0 && own.to.is_none() && own.parent > 0 && !own.command.is_empty());
    }
}
