//! The numbers of `top`: current values for each process under memfold, and their change since the last look.
//!
//! Counters begin at zero and only grow while a process lives. So all counts of a new process are from the
//! time since the last look. Slots are reused, so a counter is identified by tree, slot and process. A
//! counter that has decreased belongs to another process with the same id.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use memfold_proc::process;
use memfold_shared::page::{Counters, Slot, state};
use serde::Serialize;

use crate::trees::{Hidden, Known, Tree};

/// One process: a field for each column, in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Row {
    pub pid: i32,
    pub state: &'static str,
    #[serde(flatten)]
    pub memory: Memory,
    #[serde(flatten)]
    pub rates: Rates,
    #[serde(serialize_with = "crate::output::text::name")]
    pub command: Vec<u8>,
    #[serde(skip)]
    pub totals: Totals,
}

/// Bytes at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Memory {
    pub logical_bytes: u64,
    pub resident_bytes: u64,
    pub standby_bytes: u64,
    pub payload_bytes: u64,
    pub overhead_bytes: u64,
    /// Uncompressed size of the data spilled to the tier of --spill.
    pub spilled_bytes: u64,
    pub saved_bytes: i64,
    pub compression_ratio: Option<f64>,
}

/// Rates since the last look; unknown at the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Rates {
    pub faults_per_second: Option<f64>,
    pub fault_us: Option<f64>,
    pub stall_share: Option<f64>,
}

/// Totals since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Totals {
    pub faults: u64,
    pub fault_ns: u64,
    pub stalled_ns: u64,
}

/// A tree and its processes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Group {
    pub supervisor: i32,
    /// The user to whom the tree belongs.
    #[serde(skip)]
    pub user: u32,
    #[serde(serialize_with = "crate::output::text::name")]
    pub command: Vec<u8>,
    pub limit_bytes: u64,
    pub stall_target: Option<f64>,
    pub idle_seconds: Option<f64>,
    pub unmanaged_bytes: u64,
    #[serde(flatten)]
    pub memory: Memory,
    #[serde(flatten)]
    pub rates: Rates,
    /// Totals of all processes, including those that have ended.
    #[serde(skip)]
    pub totals: Totals,
    pub processes: Vec<Row>,
}

/// A tree that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// Its supervisor.
    pub supervisor: i32,
    /// Its user.
    pub user: u32,
    /// "user" if it belongs to another user, "version" if its version of memfold differs.
    pub reason: &'static str,
}

/// Everything at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Look {
    /// Version of memfold.
    pub version: &'static str,
    /// Seconds since 1970.
    pub time: f64,
    /// The time since the last look.
    pub seconds: f64,
    /// Trees that can be read.
    pub trees: Vec<Group>,
    /// Trees that cannot be read.
    pub hidden: Vec<Unseen>,
}

/// Takes one look after the other.
pub struct Looker {
    known: Known,
    is_only: bool,
    before: HashMap<Key, Totals>,
    at: Option<Instant>,
}

/// Supervisor and its start time, slot and process; a whole tree has neither slot nor process.
type Key = (i32, u64, Option<(usize, u32)>);

impl Looker {
    /// Looks at all trees, or at one.
    pub fn new(only: Option<Tree>) -> Self {
        let is_only = only.is_some();
        let mut known = Known::default();
        known.trees.extend(only);
        Looker { known, is_only, before: HashMap::new(), at: None }
    }

    /// Takes a look.
    pub fn look(&mut self) -> Look {
        let hidden = if self.is_only {
            self.known.trees.retain(Tree::is_there);
            Vec::new()
        } else {
            self.known.look()
        };
        let now = Instant::now();
        let seconds = self.at.map(|at| now.duration_since(at).as_secs_f64());
        self.at = Some(now);
        let mut changes = Changes { before: std::mem::take(&mut self.before), now: HashMap::new(), seconds };
        let groups = self.known.trees.iter().map(|tree| group(tree, &mut changes)).collect();
        self.before = changes.now;
        Look {
            version: env!("CARGO_PKG_VERSION"),
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            seconds: seconds.unwrap_or(0.0),
            trees: groups,
            hidden: hidden.into_iter().map(unseen).collect(),
        }
    }

    /// Whether the one tree has ended.
    pub fn has_ended(&self) -> bool {
        self.is_only && self.known.trees.is_empty()
    }

    /// The tree of a supervisor, if the last look found it.
    pub fn tree(&self, supervisor: i32) -> Option<&Tree> {
        self.known.trees.iter().find(|tree| tree.supervisor == supervisor)
    }
}

fn unseen((supervisor, why): (i32, Hidden)) -> Unseen {
    let reason = match why {
        Hidden::Refused => "user",
        Hidden::Version => "version",
    };
    Unseen { supervisor, user: process::user(supervisor).unwrap_or(0), reason }
}

/// Counters at the last look and now.
struct Changes {
    before: HashMap<Key, Totals>,
    now: HashMap<Key, Totals>,
    seconds: Option<f64>,
}

impl Changes {
    fn rates(&mut self, key: Key, now: Totals) -> Rates {
        self.now.insert(key, now);
        let Some(seconds) = self.seconds.filter(|seconds| *seconds > 0.0) else { return Rates::default() };
        let before = self.before.get(&key).copied().unwrap_or_default();
        let is_another = now.faults < before.faults || now.stalled_ns < before.stalled_ns;
        let before = if is_another { Totals::default() } else { before };
        let faults = now.faults - before.faults;
        let fault_us = now.fault_ns.saturating_sub(before.fault_ns) as f64 / 1000.0;
        let stalled = (now.stalled_ns - before.stalled_ns) as f64 / 1e9;
        Rates {
            faults_per_second: Some(faults as f64 / seconds),
            fault_us: (faults > 0).then(|| fault_us / faults as f64),
            // A wait that has just ended may have begun before the last look.
            stall_share: Some((stalled / seconds).min(1.0)),
        }
    }
}

impl Totals {
    fn of(counters: &Counters) -> Self {
        Totals {
            faults: counters.pages_faulted.load(Relaxed),
            fault_ns: counters.fault_ns.load(Relaxed),
            stalled_ns: counters.stalled_ns.load(Relaxed),
        }
    }

    /// The sum of both, which saturates because the page may contain any values.
    fn and(self, other: Self) -> Self {
        Totals {
            faults: self.faults.wrapping_add(other.faults),
            fault_ns: self.fault_ns.wrapping_add(other.fault_ns),
            stalled_ns: self.stalled_ns.wrapping_add(other.stalled_ns),
        }
    }
}

impl Memory {
    fn new(resident: u64, [evicted, payload, overhead, standby, spilled]: [u64; 5]) -> Self {
        let away = evicted.saturating_add(spilled);
        let logical = resident.saturating_sub(payload.saturating_add(overhead)).saturating_add(away);
        Memory {
            logical_bytes: logical,
            resident_bytes: resident,
            standby_bytes: standby,
            payload_bytes: payload,
            overhead_bytes: overhead,
            spilled_bytes: spilled,
            saved_bytes: logical.wrapping_sub(resident) as i64,
            compression_ratio: (payload > 0).then(|| evicted as f64 / payload as f64),
        }
    }
}

/// A process's gauges besides `resident`, in the order in which `Memory::new` takes them.
fn gauges(slot: &Slot) -> [u64; 5] {
    let load = |gauge: &AtomicU64| gauge.load(Relaxed);
    [&slot.evicted, &slot.payload, &slot.overhead, &slot.standby, &slot.spilled].map(load)
}

fn group(tree: &Tree, changes: &mut Changes) -> Group {
    let page = &tree.page;
    let key = |of| (tree.supervisor, tree.start_time, of);
    let (mut totals, mut sums, mut processes) = (Totals::of(&page.ended), [0_u64; 5], Vec::new());
    for (number, slot) in page.slots.iter().enumerate() {
        let pid = slot.pid.load(Relaxed);
        if pid == 0 {
            continue;
        }
        let (now, gauges) = (Totals::of(&slot.counters), gauges(slot));
        totals = totals.and(now);
        sums.iter_mut().zip(gauges).for_each(|(sum, gauge)| *sum = sum.saturating_add(gauge));
        let rates = changes.rates(key(Some((number, pid))), now);
        let pid = memfold_proc::namespace::outer(pid as i32, tree.supervisor);
        // Skip a process that has ended: the supervisor frees its slot at the next look.
        if !process::has_ended(pid) {
            processes.push(row(slot, pid, gauges, rates, now));
        }
    }
    let stall = processes.iter().filter_map(|row| row.rates.stall_share).max_by(f64::total_cmp);
    let rates = changes.rates(key(None), totals);
    let stall_share = rates.stall_share.map(|_| stall.unwrap_or(0.0));
    Group {
        supervisor: tree.supervisor,
        user: process::user(tree.supervisor).unwrap_or(0),
        command: tree.command(),
        limit_bytes: page.limit_bytes.load(Relaxed),
        stall_target: set(page.stall_ppm.load(Relaxed)).map(|ppm| ppm / 1e6),
        idle_seconds: set(page.idle_ms.load(Relaxed)).map(|ms| ms / 1e3),
        unmanaged_bytes: page.unmanaged_resident.load(Relaxed),
        memory: Memory::new(page.tree_resident(), sums),
        rates: Rates { stall_share, ..rates },
        totals,
        processes,
    }
}

/// Zero means none.
fn set(value: u32) -> Option<f64> {
    (value > 0).then_some(value.into())
}

fn row(slot: &Slot, pid: i32, gauges: [u64; 5], rates: Rates, totals: Totals) -> Row {
    Row {
        pid,
        state: match slot.state.load(Relaxed) {
            _ if !runs_what_took(slot, pid) => "unmanaged",
            state::WATCHING => "watching",
            state::PAGING => "paging",
            state::STOPPED => "stopped",
            _ => "starting",
        },
        memory: Memory::new(slot.resident.load(Relaxed), gauges),
        rates,
        command: process::name(pid).unwrap_or_default(),
        totals,
    }
}

/// Whether a process still runs the program that took the slot.
fn runs_what_took(slot: &Slot, pid: i32) -> bool {
    let (taken_by, image) = (slot.image.load(Relaxed), process::stat(pid).map(|stat| stat.image));
    taken_by == 0 || image.is_none_or(|image| !image.is_known() || image.stack == taken_by)
}

#[cfg(test)]
mod tests;
