//! Scheduling of this library's and the supervisor's threads: the CPUs to which they are bound, and the time
//! slice that they request from the kernel.

use crate::kernel::sys::{nr, syscall};

/// The slice of threads for which others wait, in ns: the smallest that the kernel accepts.
const SHORT_SLICE: u64 = 100_000;

/// The CPU on which the calling thread runs at the moment.
pub fn cpu() -> usize {
    let mut cpu = 0u32;
    // SAFETY: the kernel writes one number.
    let _ = unsafe { syscall(nr::GETCPU, [&raw mut cpu as usize, 0, 0, 0, 0, 0]) };
    cpu as usize
}

/// Lets another thread run.
pub fn yield_now() {
    // SAFETY: no arguments, no effect on memory.
    let _ = unsafe { syscall(nr::SCHED_YIELD, [0; 6]) };
}

/// Sleeps for this long, or until a signal arrives.
pub fn sleep(ns: u64) {
    let time = [ns / 1_000_000_000, ns % 1_000_000_000];
    // SAFETY: the kernel reads the time and writes nothing.
    let _ = unsafe { syscall(nr::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// A set of CPUs.
pub type CpuSet = [u64; 16];

/// The CPUs on which the calling thread may run.
pub fn allowed_cpus() -> CpuSet {
    let mut set = [0u64; 16];
    let args = [0, size_of::<CpuSet>(), set.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes at most the size given.
    let _ = unsafe { syscall(nr::SCHED_GETAFFINITY, args) };
    set
}

/// Binds the calling thread to the CPUs in `set`.
pub fn bind_to(set: &CpuSet) {
    let args = [0, size_of::<CpuSet>(), set.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel only reads the set.
    let _ = unsafe { syscall(nr::SCHED_SETAFFINITY, args) };
}

/// How a thread is scheduled: `struct sched_attr` in its first form.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Requests the shortest slice for the calling thread, for which others wait, and changes nothing else. A
/// thread with a shorter slice than the running thread's runs as soon as it is woken (Linux 6.12; earlier
/// kernels ignore this), and its share of the CPU stays the same.
///
/// Threads that are not in a hurry could request a longer slice than usual, but must not: the kernel lets a
/// group of tasks lag behind by twice the longest slice among them, and with slices of 10 ms Linux 6.18 let
/// such a group catch up for most of a minute, in which nothing else on the machine ran, not even the
/// kernel's own threads.
pub fn shorten_slice() {
    let mut how = SchedAttr::default();
    let bytes = size_of::<SchedAttr>();
    // SAFETY: the kernel writes at most this many bytes.
    let got = unsafe { syscall(nr::SCHED_GETATTR, [0, &raw mut how as usize, bytes, 0, 0, 0]) };
    // This field is a slice only under the usual policy.
    if got.is_ok() && how.policy == 0 {
        how.runtime = SHORT_SLICE;
        // SAFETY: the kernel only reads it.
        let _ = unsafe { syscall(nr::SCHED_SETATTR, [0, &raw const how as usize, 0, 0, 0, 0]) };
    }
}

/// The CPU to which a thread is bound.
pub struct Binding {
    /// The CPU that belongs to the thread.
    pub own: usize,
    bound: usize,
}

impl Binding {
    /// Bound to none yet.
    pub fn new(own: usize) -> Self {
        Binding { own, bound: usize::MAX }
    }

    /// Binds the calling thread to a CPU.
    pub fn bind(&mut self, cpu: usize) {
        if cpu == self.bound {
            return;
        }
        let mut set = [0u64; 16];
        if let Some(word) = set.get_mut(cpu / 64) {
            *word = 1 << (cpu % 64);
            bind_to(&set);
            self.bound = cpu;
        }
    }
}
