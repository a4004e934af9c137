//! The walk of the tree from the supervisor down. It finds new members, the images that they run, and members
//! that are not managed.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_proc::process::{self, Image};
use memfold_shared::page::{SLOTS, Shared, Slot};

use super::families::Families;
use super::unmanaged::why_not_managed;
use super::{Member, Tree, free, runs_image_of};
use crate::sys;

const TABLE_IS_FULL: &str = "at most 1024 processes of a tree can be managed at a time";
const _: () = assert!(SLOTS == 1024);

/// How long a member may be without a slot before it is reported.
const GRACE: Duration = Duration::from_secs(1);
/// The same for one that may not have had the CPU time yet that loading the library takes.
pub(super) const LONG_GRACE: Duration = Duration::from_secs(30);
/// That CPU time, in ticks of 10 ms.
const LOADED_TICKS: u64 = 10;
/// Scans may take 1/SCAN_SHARE of the time, or 1/FORCED_SCAN_SHARE if there are new processes.
const SCAN_SHARE: u32 = 200;
const FORCED_SCAN_SHARE: u32 = 30;

/// A member that is not managed, to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmanaged {
    /// Process id.
    pub pid: i32,
    /// Short name.
    pub name: String,
    /// The reason, as far as it is known.
    pub why: &'static str,
}

impl Tree {
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

    /// Tells the lookout which process each slot belongs to. Clears the inherited memory of forked processes
    /// that were measured, because their pages no longer count twice.
    fn tell_lookout(&self) {
        for (number, slot) in self.shared.used().iter().enumerate() {
            let Some((pid, member)) = self.member_of(slot) else { continue };
            if let Some(known) = &self.known {
                known.note(number, slot, pid, member.managed);
            }
            let (is_measured, inherited) = (self.forks.has_measured(pid), slot.inherited.load(Relaxed));
            slot.shares.store(u32::from(is_measured || inherited != 0), Relaxed);
            if inherited != 0 && is_measured {
                slot.inherited.store(0, Relaxed);
            }
        }
    }

    /// Frees slots of processes that came and went between two scans.
    fn free_unknown(&mut self) {
        for slot in self.shared.live_slots() {
            if self.member_of(slot).is_none() && process::has_ended(slot.pid.load(Relaxed) as i32) {
                self.left += free(self.shared, slot, &mut self.ended);
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
            // If all other threads are memfold's, look at the first thread only: memfold's threads have no
            // children. Looking is expensive: when a thread ends, the kernel discards the directory entries
            // that were looked up for it, and a thread that waits for the process spins until that is done.
            process::children(pid, threads.saturating_sub(own.get(&pid).copied().unwrap_or(0)), &mut found);
            next += 1;
        }
        // A process that is adopted during the walk is found twice.
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(super) fn see(&mut self, pid: i32, now: Instant) {
        let Some(stat) = process::stat(pid) else { return };
        if matches!(stat.state, b'Z' | b'X') && stat.threads <= 1 {
            return;
        }
        let fresh = Member {
            parent: stat.parent,
            start_time: stat.start_time,
            image: stat.image,
            since: now,
            ticks: stat.ticks,
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
                    (known.image, known.since, known.ticks) = (stat.image, now, stat.ticks);
                }
            }
            _ => {
                let inner_pid = process::inner_pid(pid).unwrap_or(pid);
                self.members.insert(pid, Member { inner_pid, ..fresh });
            }
        }
    }

    /// Finds out which members are managed and which borrow their parent's memory.
    pub(super) fn judge(&mut self, now: Instant) -> Vec<Unmanaged> {
        let mut news = Vec::new();
        let pids: Vec<i32> = self.members.keys().copied().collect();
        for pid in pids {
            let Some(mut member) = self.members.get(&pid).cloned() else { continue };
            let slot = self.slot_of(pid, member.inner_pid);
            member.managed = slot.is_some_and(|slot| runs_image_of(slot, member.image));
            if let Some(slot) = slot.filter(|_| !member.managed) {
                self.left += forget_gauges(self.shared, slot);
            }
            member.borrowed = !member.managed && self.borrows(pid, &member);
            let age = now.duration_since(member.since);
            let is_old = || age >= LONG_GRACE || age >= GRACE && !may_be_starting(pid, &member);
            if !member.managed && !member.borrowed && !member.told && is_old() {
                member.told = true;
                self.unmanaged_count += 1;
                let is_copy = |parent: &Member| parent.managed && parent.image == member.image;
                let is_full = slot.is_none() && self.shared.live_slots().count() >= SLOTS;
                let why = match self.members.get(&member.parent) {
                    _ if is_full => TABLE_IS_FULL,
                    // It was probably made by a bare system call, because it still runs its parent's image.
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
            // The kernel refuses to answer: assume that a process borrows if its counter equals its parent's.
            process::anonymous(pid) == process::anonymous(member.parent)
        })
    }

    /// Sums up the memory of this process and of members without a slot. For members whose runtime has
    /// stopped, `sample` sets the gauge.
    pub(super) fn sum_unmanaged(&mut self) {
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
}

/// Whether a member may not have come to load the library yet: it waits for a CPU or a disk, or is stopped, and
/// has used next to no CPU time since it runs this image. One that sleeps has loaded what it loads.
fn may_be_starting(pid: i32, member: &Member) -> bool {
    process::stat(pid).is_some_and(|stat| {
        matches!(stat.state, b'R' | b'D' | b'T' | b't') && stat.ticks < member.ticks + LOADED_TICKS
    })
}

/// Clears the gauges of a process that has executed another program. If that program only loads the library
/// slowly, it writes the gauges itself later. Returns what `note_left` does.
fn forget_gauges(shared: &Shared, slot: &Slot) -> u64 {
    let left = shared.note_left(slot);
    for gauge in [&slot.resident, &slot.evicted, &slot.payload, &slot.overhead, &slot.standby, &slot.spilled]
    {
        gauge.store(0, Relaxed);
    }
    left
}
