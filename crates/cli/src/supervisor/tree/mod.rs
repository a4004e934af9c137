//! The members of the tree: which there are, which are managed, and how much memory they have resident.
//!
//! A member is managed when a slot of the shared page contains its id *and* the program image that it runs
//! now. A managed process that continues as a static program keeps its slot, with gauges that are no longer
//! written.
//!
//! ```text
//! every sample (3-100 ms): slots -> ended? freed : resident by the kernel's counters
//! every scan (0.1-2 s):    walk from the supervisor down -> new members, images, which are not managed
//! now and then:            page tables of forked members -> what is counted twice (`forks`)
//! ```
//!
//! Managed members write their own gauges. Everything else is summed up here in `unmanaged`. A child between
//! vfork and exec shares its parent's memory and counts nothing.

mod forks;
mod unmanaged;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_proc::process::{self, Image};
use memfold_shared::page::{Shared, Slot, state};

use super::lookout::Known;
use crate::report::record::processes::{self, Sums};
use crate::sys;
use forks::Forks;
use unmanaged::why_not_managed;

/// How long a member without a slot has to get one before it is reported.
const GRACE: Duration = Duration::from_secs(1);
/// Scans may take one part in this many of the time, and if there is something new, one part in
/// `FORCED_SCAN_SHARE`.
const SCAN_SHARE: u32 = 200;
const FORCED_SCAN_SHARE: u32 = 30;

/// One process of the tree.
#[derive(Debug, Clone)]
struct Member {
    parent: i32,
    start_time: u64,
    image: Image,
    /// When it was first seen with this image.
    since: Instant,
    /// Its id in its own namespace.
    inner_pid: i32,
    managed: bool,
    /// It was counted as unmanaged.
    told: bool,
    /// It shares the address space of its parent: between vfork and exec.
    borrowed: bool,
    /// It was seen in the present scan.
    seen: bool,
}

/// A member that is not managed, to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmanaged {
    /// Process id.
    pub pid: i32,
    /// Short name.
    pub name: String,
    /// The reason, as far as its file shows it.
    pub why: &'static str,
}

/// Resident memory of members, in bytes, by the kernel's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// Managed members.
    pub known: u64,
    /// The same, if members related by fork share all that they can: the least it can be.
    pub least: u64,
    /// Memory of processes that have taken a slot since the last scan. They may share all of it with the
    /// process that forked them.
    pub new: u64,
}

/// Bytes by program image: members of one image may share pages.
#[derive(Default)]
struct Families(HashMap<Image, Family>);

#[derive(Default)]
struct Family {
    sum: u64,
    largest: u64,
}

impl Families {
    fn add(&mut self, image: Image, bytes: u64) {
        let family = self.0.entry(image).or_default();
        family.sum += bytes;
        family.largest = family.largest.max(bytes);
    }

    fn sum(&self) -> u64 {
        self.0.values().map(|family| family.sum).sum()
    }

    fn least(&self) -> u64 {
        self.0.values().map(|family| family.largest).sum()
    }
}

/// What the supervisor knows about the tree.
pub struct Tree {
    root: i32,
    shared: &'static Shared,
    members: HashMap<i32, Member>,
    has_children_files: bool,
    next_scan: Instant,
    /// No scan before this time, even if there is something new.
    earliest_scan: Instant,
    /// Memory that forked members count twice.
    pub forks: Forks,
    /// This process and the shared page, in bytes.
    pub own: u64,
    /// Additional memory of the spill area, in bytes.
    pub area_bytes: u64,
    /// The same, plus unmanaged members.
    pub unmanaged: u64,
    /// The same, if members related by fork share all that they can.
    pub unmanaged_least: u64,
    /// Number of members without a slot that have been counted.
    pub unmanaged_count: u64,
    /// A child of the supervisor that does not belong to the program.
    pub not_of_it: Option<i32>,
    /// Processes that have ended, and their counters, if a report is wanted.
    pub ended: Option<Vec<(u32, Sums)>>,
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
                // It has started to run another program since the last scan.
                due = true;
            }
            match process::anonymous(pid) {
                // A member that continues as another program is counted among the unmanaged ones.
                Some(bytes) if bytes > 0 && member.managed => {
                    managed.add(member.image, bytes);
                    if slot.state.load(Relaxed) == state::STOPPED {
                        // It no longer reports its memory itself.
                        slot.resident.store(bytes, Relaxed);
                    }
                }
                Some(bytes) if bytes > 0 => {}
                _ if process::has_ended(pid) => {
                    free(self.shared, slot, &mut self.ended);
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

    /// Members that have got a slot since the last scan are managed from now on: otherwise their earlier
    /// memory would be counted in addition to their present memory.
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

    /// The member that a slot belongs to. A member in a pid namespace of its own writes the id that it has
    /// there.
    fn member_of(&self, slot: &Slot) -> Option<(i32, &Member)> {
        let said = slot.pid.load(Relaxed) as i32;
        if let Some(member) = self.members.get(&said) {
            return Some((said, member));
        }
        let inside = self.members.iter().find(|(_, member)| member.inner_pid == said);
        inside.map(|(pid, member)| (*pid, member))
    }

    /// The id of a slot's process, as this process knows it.
    pub fn pid_of(&self, slot: &Slot) -> Option<i32> {
        self.member_of(slot).map(|(pid, _)| pid)
    }

    fn slot_of(&self, pid: i32, inner_pid: i32) -> Option<&'static Slot> {
        self.shared.live_slots().find(|slot| {
            let said = slot.pid.load(Relaxed) as i32;
            said == pid || said == inner_pid
        })
    }

    /// Whether a scan is due.
    pub fn scan_is_due(&self, now: Instant) -> bool {
        now >= self.next_scan
    }

    /// Walks the tree. Returns members that turned out to be unmanaged.
    pub fn scan(&mut self, now: Instant) -> Vec<Unmanaged> {
        let begin = sys::cpu_time();
        for member in self.members.values_mut() {
            member.seen = false;
        }
        let other = self.not_of_it;
        for pid in self.descendants().into_iter().filter(|pid| Some(*pid) != other) {
            self.see(pid, now);
        }
        self.members.retain(|_, member| member.seen);
        self.free_unknown();
        let news = self.judge(now);
        self.sum_unmanaged();
        let cost = sys::cpu_time().saturating_sub(begin);
        self.next_scan = now + (cost * SCAN_SHARE).clamp(Duration::from_millis(100), Duration::from_secs(2));
        self.earliest_scan = now + (cost * FORCED_SCAN_SHARE).max(Duration::from_millis(5));
        let unshared = self.shared.unshared.load(Relaxed);
        self.forks.measure(&self.families(), unshared, Instant::now());
        self.tell_lookout();
        news
    }

    /// Tells the lookout which process each slot belongs to; and forked processes that were measured no
    /// longer count pages twice.
    fn tell_lookout(&self) {
        for (number, slot) in self.shared.used().iter().enumerate() {
            let Some((pid, member)) = self.member_of(slot) else { continue };
            if let Some(known) = &self.known {
                known.note(number, slot, pid, member.managed);
            }
            if slot.inherited.load(Relaxed) != 0 && self.forks.has_measured(pid) {
                slot.inherited.store(0, Relaxed);
            }
        }
    }

    /// Frees slots of processes that came and went between two scans.
    fn free_unknown(&mut self) {
        for slot in self.shared.live_slots() {
            if self.member_of(slot).is_none() && process::has_ended(slot.pid.load(Relaxed) as i32) {
                free(self.shared, slot, &mut self.ended);
            }
        }
    }

    fn descendants(&self) -> Vec<i32> {
        let mut found = Vec::new();
        if !self.has_children_files {
            let all = process::all_with_parents();
            let mut parents = vec![self.root];
            while let Some(parent) = parents.pop() {
                let children = all.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid);
                parents.extend(children.clone());
                found.extend(children);
            }
            return found;
        }
        // This process has two threads, and only the first has children.
        process::children(self.root, 1, &mut found);
        let own: HashMap<i32, u32> = self
            .shared
            .live_slots()
            .filter(|slot| slot.keeper.load(Relaxed) != 0)
            .filter_map(|slot| Some((self.member_of(slot)?, slot.tasks.load(Relaxed))))
            .filter(|((_, member), _)| member.managed)
            .map(|((pid, _), tasks)| (pid, tasks))
            .collect();
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            let threads = process::stat(pid).map_or(1, |stat| stat.threads);
            // Threads of memfold have no children. Looking at them is expensive: when a thread ends, the
            // kernel discards the directory entries that were looked up for it, and a thread that waits for
            // the process spins until that is done.
            process::children(pid, threads.saturating_sub(own.get(&pid).copied().unwrap_or(0)), &mut found);
            next += 1;
        }
        // A process that moves up during the walk is found twice.
        found.sort_unstable();
        found.dedup();
        found
    }

    fn see(&mut self, pid: i32, now: Instant) {
        let Some(stat) = process::stat(pid) else { return };
        if matches!(stat.state, b'Z' | b'X') && stat.threads <= 1 {
            return;
        }
        let fresh = Member {
            parent: stat.parent,
            start_time: stat.start_time,
            image: stat.image,
            since: now,
            inner_pid: pid,
            managed: false,
            told: false,
            borrowed: false,
            seen: true,
        };
        match self.members.get_mut(&pid) {
            Some(known) if known.start_time == stat.start_time => {
                known.seen = true;
                known.parent = stat.parent;
                if known.image != stat.image {
                    known.image = stat.image;
                    known.since = now;
                }
            }
            _ => {
                let inner_pid = process::inner_pid(pid).unwrap_or(pid);
                self.members.insert(pid, Member { inner_pid, ..fresh });
            }
        }
    }

    /// Finds out which members are managed and which borrow their parent's memory.
    fn judge(&mut self, now: Instant) -> Vec<Unmanaged> {
        let mut news = Vec::new();
        let pids: Vec<i32> = self.members.keys().copied().collect();
        for pid in pids {
            let Some(mut member) = self.members.get(&pid).cloned() else { continue };
            let slot = self.slot_of(pid, member.inner_pid);
            member.managed = slot.is_some_and(|slot| runs_image_of(slot, member.image));
            if let Some(slot) = slot.filter(|_| !member.managed) {
                forget_gauges(slot);
            }
            member.borrowed = !member.managed && self.borrows(pid, &member);
            let old = now.duration_since(member.since) >= GRACE;
            if !member.managed && !member.borrowed && old && !member.told {
                member.told = true;
                self.unmanaged_count += 1;
                let is_copy = |parent: &Member| parent.managed && parent.image == member.image;
                let why = match self.members.get(&member.parent) {
                    // It was probably made by a bare system call: it has no environment of its own.
                    Some(parent) if member.image.is_known() && is_copy(parent) => {
                        "a copy of its parent that could not be prepared"
                    }
                    _ => why_not_managed(pid),
                };
                let name = memfold_escape::shown(&process::name(pid).unwrap_or_default());
                news.push(Unmanaged { pid, name, why });
            }
            if member.managed {
                member.told = false;
            }
            self.members.insert(pid, member);
        }
        news
    }

    /// Whether a process without a slot runs in its parent's address space.
    fn borrows(&self, pid: i32, member: &Member) -> bool {
        let Some(parent) = self.members.get(&member.parent) else { return false };
        if parent.image != member.image {
            return false;
        }
        sys::same_memory(pid, member.parent).unwrap_or_else(|| {
            // The kernel does not allow the question: a process that counts exactly what its parent counts is
            // assumed to borrow.
            process::anonymous(pid) == process::anonymous(member.parent)
        })
    }

    /// Sums up the memory of this process and of members without a slot. For members whose runtime has
    /// stopped, `sample` sets the gauge.
    fn sum_unmanaged(&mut self) {
        self.own = process::anonymous(self.root).unwrap_or(0) + self.shared.memory() + self.area_bytes;
        let mut others = Families::default();
        for (pid, member) in self.members.iter().filter(|(_, member)| !member.borrowed) {
            if !member.managed || self.slot_of(*pid, member.inner_pid).is_none() {
                others.add(member.image, process::anonymous(*pid).unwrap_or(0));
            }
        }
        self.unmanaged = self.own + others.sum();
        self.unmanaged_least = self.own + others.least();
    }

    /// Members that run the same program image as another member, so that they are related by fork and may
    /// share pages.
    fn families(&self) -> Vec<i32> {
        let mut sizes: HashMap<Image, u32> = HashMap::new();
        let own = || self.members.iter().filter(|(_, m)| !m.borrowed && m.image.is_known());
        for (_, member) in own() {
            *sizes.entry(member.image).or_default() += 1;
        }
        let mut pids: Vec<i32> = own().filter(|(_, m)| sizes[&m.image] > 1).map(|(pid, _)| *pid).collect();
        pids.sort_unstable();
        pids
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

/// Frees the slot of a process that has ended.
fn free(shared: &Shared, slot: &Slot, ended: &mut Option<Vec<(u32, Sums)>>) {
    if let Some(ended) = ended {
        ended.push((slot.pid.load(Relaxed), processes::sums(&slot.counters)));
    }
    shared.free_slot(slot);
}

/// Whether the process that took the slot still runs the program that it ran then.
fn runs_image_of(slot: &Slot, image: Image) -> bool {
    let taken_by = slot.image.load(Relaxed);
    taken_by == 0 || !image.is_known() || taken_by == image.stack
}

/// Clears the gauges of a process that continues as another program. If that program merely loads the library
/// slowly, it writes them itself later.
fn forget_gauges(slot: &Slot) {
    for gauge in [&slot.resident, &slot.evicted, &slot.payload, &slot.overhead, &slot.standby, &slot.spilled]
    {
        gauge.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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
        // The program is still being loaded: wait until its memory stays the same.
        let mut own = 0;
        while own != process::anonymous(pid).unwrap() {
            own = process::anonymous(pid).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        // As a scan does it, which would not find the children of a test's thread.
        tree.see(pid, Instant::now());
        tree.judge(Instant::now());
        tree.sum_unmanaged();
        // Other tests run in this process, whose own memory changes meanwhile.
        assert_eq!(tree.unmanaged - tree.own, own);
        assert_eq!((tree.not_managed(), tree.len()), (vec![pid], 1));

        let slot = page.page.take_slot(pid as u32).unwrap();
        slot.resident.store(1 << 20, Relaxed);
        let resident = tree.sample(Instant::now());
        assert!(tree.not_managed().is_empty());
        assert_eq!((resident.known, tree.unmanaged), (own, tree.own));

        // It continues as another program: its slot stays, and a scan is due.
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
}
