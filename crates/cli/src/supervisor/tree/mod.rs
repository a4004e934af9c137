//! The members of the tree: the processes that belong to it, which of them are managed, and their resident
//! memory.
//!
//! A member is managed when a slot of the shared page contains its id *and* the program image that it runs
//! now. A managed process that continues as a static program keeps its slot, with gauges that are no longer
//! written.
//!
//! ```text
//! every sample (3-100 ms): slots -> ended? freed : resident by the kernel's counters
//! every scan (0.1-2 s):    walk from the supervisor down -> new members, images, which are not managed
//! now and then:            page tables of forked members -> memory counted twice (`forks`)
//! ```
//!
//! Managed members write their own gauges. Everything else is summed up here in `unmanaged`. A child between
//! vfork and exec shares its parent's memory and counts nothing.

mod families;
mod forks;
mod scan;
mod unmanaged;

pub(super) use unmanaged::NESTED;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use memfold_proc::process::{self, Image};
use memfold_shared::page::{Shared, Slot, state};

use super::lookout::Known;
use crate::report::record::processes::{self, Sums};
use families::Families;
use forks::Forks;

/// One process of the tree.
#[derive(Debug, Clone)]
struct Member {
    parent: i32,
    start_time: u64,
    image: Image,
    /// When it was first seen with this image.
    since: Instant,
    /// The CPU time that it had used by then, in ticks.
    ticks: u64,
    /// Its id in its own namespace.
    inner_pid: i32,
    managed: bool,
    /// It was counted and reported as unmanaged.
    told: bool,
    /// It shares the address space of its parent: between vfork and exec.
    borrowed: bool,
    /// It was seen in the current scan.
    seen: bool,
}

/// Resident memory of members, in bytes, by the kernel's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// Managed members.
    pub known: u64,
    /// The lowest possible value of `known`: members related by fork share as much as they can.
    pub least: u64,
    /// Memory of processes that have taken a slot since the last scan. They may share all of it with their
    /// parents.
    pub new: u64,
}

/// The supervisor's information about the tree.
pub struct Tree {
    root: i32,
    shared: &'static Shared,
    members: HashMap<i32, Member>,
    has_children_files: bool,
    next_scan: Instant,
    /// The earliest time of the next scan, even if there are new processes.
    earliest_scan: Instant,
    /// Memory that forked members count twice.
    pub forks: Forks,
    /// Memory of this process, the shared page and the spill area, in bytes.
    pub own: u64,
    /// Memory of the spill area, in bytes.
    pub area_bytes: u64,
    /// `own`, plus the memory of unmanaged members.
    pub unmanaged: u64,
    /// The lowest possible value of `unmanaged`: members related by fork share as much as they can.
    pub unmanaged_least: u64,
    /// Number of members without a slot that have been counted.
    pub unmanaged_count: u64,
    /// A child of the supervisor that does not belong to the program.
    pub not_of_it: Option<i32>,
    /// Processes that have ended, and their counters, if a report is wanted.
    pub ended: Option<Vec<(u32, Sums)>>,
    /// What `note_freed` returned for the slots that were freed here since the last sample, in bytes.
    left: u64,
    /// Information for the lookout, if there is one.
    pub known: Option<Arc<Known>>,
}

impl Tree {
    /// The tree below this process.
    pub fn new(shared: &'static Shared) -> Self {
        let root = std::process::id() as i32;
        let now = Instant::now();
        Self {
            root,
            shared,
            members: HashMap::new(),
            has_children_files: process::children(root, 1, &mut Vec::new()),
            next_scan: now,
            earliest_scan: now,
            forks: Forks::new(now),
            own: 0,
            area_bytes: 0,
            unmanaged: 0,
            unmanaged_least: 0,
            unmanaged_count: 0,
            not_of_it: None,
            ended: None,
            left: 0,
            known: None,
        }
    }

    /// Frees the slots of processes that have ended, and returns the resident memory of the managed members.
    /// New processes make a scan due.
    pub fn sample(&mut self, now: Instant) -> Resident {
        self.welcome();
        let (mut new, mut due) = (0, false);
        let mut managed = Families::default();
        for slot in self.shared.live_slots() {
            let Some((pid, member)) = self.member_of(slot) else {
                new += slot.resident.load(Relaxed);
                due = true;
                continue;
            };
            if !member.managed && slot.resident.load(Relaxed) > 0 {
                // It has executed another program since the last scan.
                due = true;
            }
            match process::anonymous(pid) {
                // A member that has executed another program is counted among the unmanaged ones.
                Some(bytes) if bytes > 0 && member.managed => {
                    managed.add(member.image, bytes);
                    if slot.state.load(Relaxed) == state::STOPPED {
                        // It no longer reports its memory itself.
                        slot.resident.store(bytes, Relaxed);
                    }
                }
                Some(bytes) if bytes > 0 => {}
                _ if process::has_ended(pid) => {
                    self.left += free(self.shared, slot, &mut self.ended);
                    self.forks.ended(pid, now);
                }
                _ => {}
            }
        }
        if due {
            self.next_scan = self.earliest_scan;
        }
        self.forks.erode(self.shared.unshared.load(Relaxed), now);
        Resident { known: managed.sum(), least: managed.least(), new }
    }

    /// By how much `left` of the shared page has grown because of what this has found since the last call.
    pub fn take_left(&mut self) -> u64 {
        std::mem::take(&mut self.left)
    }

    /// Treats members that have got a slot since the last scan as managed. Otherwise their earlier memory
    /// would be counted in addition to their current memory.
    fn welcome(&mut self) {
        let managed = |slot| {
            let (pid, member) = self.member_of(slot)?;
            (!member.managed && runs_image_of(slot, member.image)).then_some(pid)
        };
        let come: Vec<i32> = self.shared.live_slots().filter_map(managed).collect();
        for pid in &come {
            if let Some(member) = self.members.get_mut(pid) {
                (member.managed, member.borrowed, member.told) = (true, false, false);
            }
        }
        if !come.is_empty() {
            self.sum_unmanaged();
        }
    }

    /// The member that a slot belongs to. A member in its own pid namespace writes its inner id to the slot.
    fn member_of(&self, slot: &Slot) -> Option<(i32, &Member)> {
        let said = slot.pid.load(Relaxed) as i32;
        if let Some(member) = self.members.get(&said) {
            return Some((said, member));
        }
        let inside = self.members.iter().find(|(_, member)| member.inner_pid == said);
        inside.map(|(pid, member)| (*pid, member))
    }

    /// The id here of a slot's process.
    pub fn pid_of(&self, slot: &Slot) -> Option<i32> {
        self.member_of(slot).map(|(pid, _)| pid)
    }

    fn slot_of(&self, pid: i32, inner_pid: i32) -> Option<&'static Slot> {
        self.shared.live_slots().find(|slot| {
            let said = slot.pid.load(Relaxed) as i32;
            said == pid || said == inner_pid
        })
    }

    /// Number of members now.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Members that are not managed now.
    #[cfg(test)]
    fn not_managed(&self) -> Vec<i32> {
        self.members.iter().filter(|(_, m)| !m.managed && !m.borrowed).map(|(pid, _)| *pid).collect()
    }
}

/// Frees the slot of a process that has ended. Returns what `note_freed` does.
fn free(shared: &Shared, slot: &Slot, ended: &mut Option<Vec<(u32, Sums)>>) -> u64 {
    if let Some(ended) = ended {
        ended.push((slot.pid.load(Relaxed), processes::sums(&slot.counters)));
    }
    shared.free_slot(slot)
}

/// Whether a process with this image still runs the program that took the slot.
fn runs_image_of(slot: &Slot, image: Image) -> bool {
    let taken_by = slot.image.load(Relaxed);
    taken_by == 0 || !image.is_known() || taken_by == image.stack
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use memfold_shared::page::SLOTS;
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::scan::LONG_GRACE;
    use super::*;
    use crate::settings::Settings;
    use crate::settings::shared_page::SharedPage;

    #[test]
    fn a_slot_that_comes_after_the_scan_is_not_counted_with_what_was_there_without_it() {
        let page = SharedPage::new(&Settings::example()).unwrap();
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id() as i32;
        let mut tree = Tree::new(page.page);
        while process::anonymous(pid).unwrap_or(0) == 0 || process::name(pid).as_deref() != Some(b"sleep") {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The program is still being loaded, so wait until its memory stays the same.
        let mut own = 0;
        while own != process::anonymous(pid).unwrap() {
            own = process::anonymous(pid).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        // Do the steps of a scan, which would not find the children of a test's thread.
        tree.see(pid, Instant::now());
        tree.judge(Instant::now());
        tree.sum_unmanaged();
        // Subtract `own`, because other tests change this process's memory meanwhile.
        assert_eq!(tree.unmanaged - tree.own, own);
        assert_eq!((tree.not_managed(), tree.len()), (vec![pid], 1));

        let slot = page.page.take_slot(pid as u32).unwrap();
        slot.resident.store(1 << 20, Relaxed);
        let resident = tree.sample(Instant::now());
        assert!(tree.not_managed().is_empty());
        assert_eq!((resident.known, tree.unmanaged), (own, tree.own));

        // The process executes another program: its slot stays, and a scan is due.
        tree.members.get_mut(&pid).unwrap().managed = false;
        slot.image.store(1, Relaxed);
        tree.next_scan = Instant::now() + Duration::from_secs(100);
        tree.sample(Instant::now());
        assert!(
            tree.not_managed().contains(&pid) && tree.scan_is_due(Instant::now() + Duration::from_secs(1))
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// On a busy machine, "cannot be managed" was said of programs that had not come to load the library yet.
    #[test]
    fn a_process_that_has_had_no_cpu_yet_is_not_reported() {
        let page = SharedPage::new(&Settings::example()).unwrap();
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id() as i32;
        let wait_until = |wanted: u8| {
            while process::stat(pid).unwrap().state != wanted {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let send = |pid: i32, signal| kill(Pid::from_raw(pid), signal).unwrap();
        let mut tree = Tree::new(page.page);
        let mut reports = |after: Duration| {
            tree.see(pid, Instant::now());
            let since = tree.members[&pid].since;
            tree.judge(since + after).len()
        };
        send(pid, Signal::SIGSTOP);
        wait_until(b'T');
        assert_eq!(reports(Duration::from_secs(5)), 0);
        send(pid, Signal::SIGCONT);
        wait_until(b'S');
        assert_eq!(reports(Duration::from_millis(100)), 0);
        assert_eq!(reports(Duration::from_secs(5)), 1);
        assert_eq!(reports(Duration::from_secs(5)), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        // One that stays without a CPU is reported in the end.
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        send(child.id() as i32, Signal::SIGSTOP);
        tree.see(child.id() as i32, Instant::now());
        assert_eq!(tree.judge(Instant::now() + LONG_GRACE).len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The advice for another reason was harmful: to remove memfold's library from the environment.
    #[test]
    fn a_full_table_is_named_as_the_reason() {
        let page = SharedPage::new(&Settings::example()).unwrap();
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let mut tree = Tree::new(page.page);
        (0..SLOTS as u32 - 1).for_each(|at| assert!(page.page.take_slot(5_000_000 + at).is_some()));
        for is_full in [false, true] {
            tree.see(child.id() as i32, Instant::now());
            let news = tree.judge(Instant::now() + LONG_GRACE);
            assert_eq!((news.len(), news[0].why.contains("1024 processes")), (1, is_full), "{}", news[0].why);
            tree.members.clear();
            let _ = page.page.take_slot(6_000_000);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
