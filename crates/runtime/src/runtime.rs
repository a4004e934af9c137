//! The state of the runtime in one process, and what all its threads use.

use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};

use memfold::store::{Memory, Owners, Ref, Tiered};
use memfold_shared::page::{Shared, Slot, state};

use crate::faults::follow::Follow;
use crate::faults::stall::Stall;
use crate::kernel::mounts::KnownMounts;
use crate::kernel::sched;
use crate::kernel::sys::{self, Fd, PAGE, advice};
use crate::kernel::uffd::Uffd;
use crate::memory::arena::Arena;
use crate::memory::lock::Lock;
use crate::pages::inbox::Inbox;
use crate::pages::keep::KeepOut;
use crate::pages::order::Order;
use crate::pages::standby::Standby;
use crate::pages::statics::Statics;
use crate::pages::table::{State, Table};
use crate::process::gate::Gate;
use crate::process::thread::Place;
use crate::spill::Spill;

/// Threads that read from the store at most: handlers, compressors and fetchers.
pub const WORKERS: usize = 12;

/// Something to wait for: a futex that counts rings.
pub struct Bell(AtomicU32);

impl Bell {
    /// Never rung.
    pub const fn new() -> Self {
        Bell(AtomicU32::new(0))
    }
    /// Wakes all who wait.
    pub fn ring(&self) {
        self.0.fetch_add(1, Release);
        sys::futex_wake(&self.0, sys::ALL, false);
    }
    /// Wakes one who waits.
    pub fn ring_one(&self) {
        self.0.fetch_add(1, Release);
        sys::futex_wake(&self.0, 1, false);
    }
    /// What to hand to [`Bell::wait`] after a last look at the condition.
    pub fn now(&self) -> u32 {
        self.0.load(Acquire)
    }
    /// Sleeps until it is rung after `seen`, or for `timeout_ns`.
    pub fn wait(&self, seen: u32, timeout_ns: u64) {
        let _ = sys::futex_wait(&self.0, seen, Some(timeout_ns), false);
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory for the store, out of the arena.
pub struct StoreMemory(pub &'static Arena);

// SAFETY: ranges handed out are fresh, exclusive and stay mapped; released
// pages read as zeros afterwards.
unsafe impl Memory for StoreMemory {
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        NonNull::new(self.0.reserve(bytes, PAGE)?)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: populating our own memory loses nothing.
        unsafe { sys::madvise(start.as_ptr() as usize, bytes, advice::POPULATE_WRITE) }.is_ok()
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the store says that nobody needs the contents.
        let _ = unsafe { sys::madvise(start.as_ptr() as usize, bytes, advice::DONTNEED) };
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: passed on to the caller. The addresses are not used again.
        unsafe { self.release(start, bytes) };
    }

    fn wait(&self, word: &AtomicU32, value: u32) {
        let _ = sys::futex_wait(word, value, Some(1_000_000), false);
    }

    fn wake(&self, word: &AtomicU32) {
        sys::futex_wake(word, 1, false);
    }
}

/// What a new thread of the program is to run.
#[repr(C)]
pub struct Start {
    /// The program's function.
    pub routine: usize,
    /// Its argument.
    pub argument: usize,
    /// Next unused one.
    pub next: *mut Start,
}

/// A list of unused [`Start`]s.
pub struct Starts(pub *mut Start);

// SAFETY: the list is reached only through its lock.
unsafe impl Send for Starts {}

/// See the module. There is one in a process, in a static.
pub struct Runtime {
    /// Own memory.
    pub arena: Arena,
    /// What became of each page.
    pub table: Table,
    /// See `order.rs`.
    pub order: Lock<Order>,
    /// Blocks taken away and not yet compressed.
    pub standby: Standby,
    /// What is beyond this machine's memory.
    pub spill: Spill,
    /// Addresses that are never taken away.
    pub keep_out: KeepOut,
    /// Data that is neither taken away nor served.
    pub statics: Statics,
    store: AtomicPtr<Tiered<StoreMemory>>,
    shared: AtomicPtr<Shared>,
    slot: AtomicPtr<Slot>,
    uffd: AtomicI32,
    witness: AtomicI32,
    /// Threads that are just discarding memory, as far as they do it by the C library.
    pub discarding: AtomicU32,
    /// Threads that are just moving memory, as far as they do it by the C library.
    pub moving: AtomicU32,
    /// The program has, or had, several threads.
    pub threaded: AtomicBool,
    /// The process may use two CPUs, and no more.
    pub two_cpus: AtomicBool,
    /// This process is not to be evicted: see `turns.rs`.
    pub keeps_all: AtomicBool,
    /// Threads that need memory wait until it is this process's turn: see `turns.rs`.
    pub waits_its_turn: AtomicBool,
    /// No other process of the tree is large.
    pub alone: AtomicBool,
    /// The process may use several CPUs: one of them may be kept awake for a while.
    pub may_keep_awake: AtomicBool,
    /// When the last fault on a page that was away was served.
    pub served_ns: AtomicU64,
    /// Until then the compressor leaves an idle CPU idle.
    pub sleep_until_ns: AtomicU64,
    /// A compressor sleeps that could stay awake for that: see `stay_awake`.
    pub sleeps: AtomicBool,
    /// When the program last unmapped managed memory.
    pub unmapped_ns: AtomicU64,
    /// The program has forked, or was forked: pages may be shared.
    pub has_forked: AtomicBool,
    /// Which handlers listen.
    pub follow: Follow,
    /// Holds children back until they have all of their memory.
    pub gate: Gate,
    /// Pages whose entry says zero.
    pub zero_pages: AtomicI64,
    /// Marked pages of all blocks: see `incompressible.rs`.
    pub incompressible: AtomicI64,
    /// Where the keeper compresses samples.
    pub sample_memory: AtomicUsize,
    /// Bytes that this process must still make free; see `watch.rs`.
    pub debt: AtomicI64,
    /// Times that memory was given back.
    pub given_back: AtomicU32,
    /// The last number of `given_back` after which a wait was in vain.
    pub vain: AtomicU32,
    /// Bytes that the debt may grow to before faults wait.
    pub margin: AtomicI64,
    /// The limit is near: who gets much memory at once tells the keeper.
    pub watches_growth: AtomicBool,
    /// What was got since the keeper has last looked, bytes.
    pub unseen_growth: AtomicUsize,
    /// How often something was unmapped or moved, or the process forked: what was registered before may be so no more.
    pub changes: AtomicU64,
    /// Bytes of large requests since the keeper's last look.
    pub much: AtomicUsize,
    /// No more can be evicted, but what is compressed can be made denser:
    /// growth waits for that.
    pub squeeze: AtomicBool,
    /// All that can be evicted was, again and again, and the limit is passed by far all the same.
    pub hopeless: AtomicBool,
    /// Nothing is left that could be evicted.
    pub exhausted: AtomicBool,
    /// Compressors sleep here.
    pub work: Bell,
    /// The keeper sleeps here.
    pub keeper: Bell,
    /// Handlers that wait for room sleep here.
    pub room: Bell,
    /// Slots on standby that the keeper tries to hold.
    pub standby_goal: AtomicUsize,
    /// What is on standby for so long is compressed although there is room, ns; `u64::MAX`: it is not.
    pub idle_ns: AtomicU64,
    /// The program hardly runs, and what is compressed may be made denser.
    pub leisure: AtomicBool,
    /// So long threads may still wait for what was taken away although there was room, ns; `i64::MAX`: nothing was.
    pub patience_ns: AtomicI64,
    /// Readers of the store: odd while reading.
    reading: [AtomicU32; WORKERS],
    /// Faults that were read and are still to be served, or to be asked for again.
    pub deferred: AtomicU32,
    /// Handlers that serve a fault right now.
    pub serving: AtomicU32,
    /// Whether a thread of the program waits, and since when.
    pub stall: Stall,
    /// What the supervisor says (`page::call`): in the slot once there is one.
    pub call: AtomicPtr<AtomicU32>,
    /// The supervisor's look at which `much` was last set to zero, as long as there is no keeper.
    pub looks_seen: AtomicU32,
    /// Paging is to start at once: a thread has got what could fill the room that is left.
    pub paging_wanted: AtomicBool,
    /// It was said that there can be no keeper.
    pub told_no_keeper: AtomicBool,
    /// Where the keeper keeps its list of mappings.
    pub keeper_memory: AtomicUsize,
    /// Where the keeper lives.
    pub keeper_place: Place,
    /// Where handlers and compressors live, by their numbers.
    pub worker_places: [Place; WORKERS],
    /// What they work in: see `worker.rs`.
    pub worker_memory: [AtomicUsize; WORKERS],
    /// The store gets no more memory; and that was said.
    pub store_full: AtomicBool,
    /// See `store_full`.
    pub told_full: AtomicBool,
    /// The limit of the program's memory that was heeded last: see `limits.rs`.
    pub heeded_limit: AtomicUsize,
    /// Handlers are to be called: the keeper does it.
    pub call_wanted: AtomicBool,
    /// In a forked child: its keeper is to serve what the parent had evicted, whoever starts it.
    pub inherits: AtomicBool,
    /// In a forked child: 1 when its pages are served, 2 when they can't be.
    pub child_ready: AtomicU32,
    /// While the keeper is inside `mremap`: where the pages go.
    pub moving_to: AtomicUsize,
    /// The kernel has told of that move: proof that the source was registered.
    pub move_seen: AtomicBool,
    /// Messages that were read in advance, some of them in the keeper's place: see `inbox.rs`.
    pub proxy: Lock<Inbox>,
    /// Where the dense tier looks next.
    pub dense_at: AtomicUsize,
    /// Some more room would spare many faults: see `dense.rs`.
    pub room_pays: AtomicBool,
    /// There may be blocks with pages of the fast tier.
    pub fast_left: AtomicBool,
    /// Pages may be pinned, which matters where taking them away does not notice it: see `pins.rs`.
    pub pins_seen: AtomicBool,
    /// Something may write to pages in a way that is never noticed: see `pins.rs`.
    pub holds_seen: AtomicBool,
    /// Where reading files is a risk, and where not.
    pub mounts: KnownMounts,
    /// The kernel has UFFDIO_MOVE.
    pub can_move: AtomicBool,
    /// Copies of shared pages that were let be made, bytes: see `copies.rs`.
    pub copied: AtomicU64,
    /// The kernel knows guard pages; and the keeper's open pagemap, to look for them.
    pub knows_guards: AtomicBool,
    /// See `knows_guards`; -1 as long as there is none.
    pub pagemap: AtomicI32,
    /// The kernel can write-protect pages.
    pub can_protect: AtomicBool,
    /// The program asked the runtime to stop: see `stop.rs`.
    pub stop_wanted: AtomicBool,
    /// The runtime has stopped.
    pub stopped: AtomicBool,
    /// The program has a sanitizer's library: see `preload.rs`.
    pub sanitized: AtomicBool,
    /// Compressors are to end, and handlers.
    pub quit_compressors: AtomicBool,
    /// See `quit_compressors`.
    pub quit_handlers: AtomicBool,
    /// Compressors and handlers that live.
    pub compressors: AtomicU32,
    /// See `compressors`.
    pub handlers: AtomicU32,
    /// Unused places for what new threads are to run.
    pub starts: Lock<Starts>,
    /// Signal mask of the thread that forks.
    pub fork_mask: AtomicU64,
    /// Forks in the line of this process: its own, and those of its ancestors that made them.
    pub forks: AtomicU32,
    /// Forks between this process and the one that the program began as.
    pub births: AtomicU32,
    /// The thread that is in a prepared fork.
    pub forker: AtomicU32,
    /// Held while paging starts, and during a fork.
    pub life: Lock<()>,
    /// Set while a fork is prepared: evictor and compressors stop.
    pub pause: AtomicU32,
    /// Threads that are about to set `pause`.
    pub about_to_fork: AtomicU32,
    /// Threads of the keeper and compressors that have stopped.
    pub paused: AtomicU32,
    /// The keeper is one of them.
    pub keeper_paused: AtomicBool,
    /// Threads that stop on request.
    pub stoppable: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// See [`Runtime::state`].
    state: AtomicU32,
    /// Which program image this is: see [`Slot::image`].
    pub image: AtomicU64,
}

/// What the supervisor says before there is a slot: nothing.
static SILENCE: AtomicU32 = AtomicU32::new(0);

/// The one runtime of this process.
pub static RUNTIME: Runtime = Runtime::new();

impl Runtime {
    const fn new() -> Self {
        Runtime {
            arena: Arena::new(),
            table: Table::new(),
            order: Lock::new(Order::new()),
            standby: Standby::new(),
            spill: Spill::new(),
            keep_out: KeepOut::new(),
            statics: Statics::new(),
            store: AtomicPtr::new(core::ptr::null_mut()),
            shared: AtomicPtr::new(core::ptr::null_mut()),
            slot: AtomicPtr::new(core::ptr::null_mut()),
            uffd: AtomicI32::new(-1),
            witness: AtomicI32::new(-1),
            discarding: AtomicU32::new(0),
            moving: AtomicU32::new(0),
            threaded: AtomicBool::new(false),
            two_cpus: AtomicBool::new(false),
            keeps_all: AtomicBool::new(false),
            waits_its_turn: AtomicBool::new(false),
            alone: AtomicBool::new(false),
            may_keep_awake: AtomicBool::new(false),
            served_ns: AtomicU64::new(0),
            sleep_until_ns: AtomicU64::new(0),
            sleeps: AtomicBool::new(false),
            unmapped_ns: AtomicU64::new(0),
            has_forked: AtomicBool::new(false),
            follow: Follow::new(),
            gate: Gate::new(),
            zero_pages: AtomicI64::new(0),
            incompressible: AtomicI64::new(0),
            sample_memory: AtomicUsize::new(0),
            debt: AtomicI64::new(0),
            given_back: AtomicU32::new(0),
            vain: AtomicU32::new(u32::MAX),
            margin: AtomicI64::new(0),
            watches_growth: AtomicBool::new(false),
            unseen_growth: AtomicUsize::new(0),
            changes: AtomicU64::new(1),
            much: AtomicUsize::new(0),
            squeeze: AtomicBool::new(false),
            hopeless: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
            work: Bell::new(),
            keeper: Bell::new(),
            room: Bell::new(),
            standby_goal: AtomicUsize::new(0),
            idle_ns: AtomicU64::new(u64::MAX),
            leisure: AtomicBool::new(false),
            patience_ns: AtomicI64::new(i64::MAX),
            reading: [const { AtomicU32::new(0) }; WORKERS],
            deferred: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            stall: Stall::new(),
            call: AtomicPtr::new((&raw const SILENCE).cast_mut()),
            looks_seen: AtomicU32::new(0),
            paging_wanted: AtomicBool::new(false),
            told_no_keeper: AtomicBool::new(false),
            keeper_memory: AtomicUsize::new(0),
            keeper_place: Place::new(),
            worker_places: [const { Place::new() }; WORKERS],
            worker_memory: [const { AtomicUsize::new(0) }; WORKERS],
            store_full: AtomicBool::new(false),
            told_full: AtomicBool::new(false),
            heeded_limit: AtomicUsize::new(usize::MAX),
            call_wanted: AtomicBool::new(false),
            inherits: AtomicBool::new(false),
            child_ready: AtomicU32::new(0),
            moving_to: AtomicUsize::new(0),
            move_seen: AtomicBool::new(false),
            proxy: Lock::new(Inbox::new()),
            dense_at: AtomicUsize::new(0),
            room_pays: AtomicBool::new(false),
            fast_left: AtomicBool::new(false),
            pins_seen: AtomicBool::new(false),
            holds_seen: AtomicBool::new(false),
            mounts: KnownMounts::new(),
            can_move: AtomicBool::new(false),
            copied: AtomicU64::new(0),
            knows_guards: AtomicBool::new(false),
            pagemap: AtomicI32::new(-1),
            can_protect: AtomicBool::new(false),
            stop_wanted: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            sanitized: AtomicBool::new(false),
            quit_compressors: AtomicBool::new(false),
            quit_handlers: AtomicBool::new(false),
            compressors: AtomicU32::new(0),
            handlers: AtomicU32::new(0),
            starts: Lock::new(Starts(core::ptr::null_mut())),
            fork_mask: AtomicU64::new(0),
            forks: AtomicU32::new(0),
            births: AtomicU32::new(0),
            forker: AtomicU32::new(0),
            life: Lock::new(()),
            pause: AtomicU32::new(0),
            about_to_fork: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            keeper_paused: AtomicBool::new(false),
            stoppable: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            state: AtomicU32::new(0),
            image: AtomicU64::new(0),
        }
    }

    /// The userfaultfd; only after [`Runtime::set_uffd`].
    pub fn uffd(&self) -> Uffd {
        Uffd(Fd(self.uffd.load(Relaxed)))
    }

    /// Whether a userfaultfd is open.
    pub fn has_uffd(&self) -> bool {
        self.uffd.load(Relaxed) >= 0
    }

    /// Sets the userfaultfd that all threads use from now on, and its witness
    /// (see `order.rs`).
    pub fn set_uffd(&self, both: Option<(Uffd, Uffd)>) {
        self.witness.store(both.map_or(-1, |(_, witness)| witness.0.0), Release);
        self.uffd.store(both.map_or(-1, |(uffd, _)| uffd.0.0), Release);
    }

    /// See `order.rs`.
    pub fn witness(&self) -> Uffd {
        Uffd(Fd(self.witness.load(Relaxed)))
    }

    /// The shared counters page.
    pub fn shared(&self) -> &'static Shared {
        // SAFETY: set once at start, before any thread of ours; never unmapped.
        unsafe { &*self.shared.load(Relaxed) }
    }

    /// This process's slot.
    pub fn slot(&self) -> &'static Slot {
        // SAFETY: as in `shared`; a slot lies inside the shared page.
        unsafe { &*self.slot.load(Relaxed) }
    }

    /// How far the runtime is in this process: one of [`state`]. The slot has
    /// a copy for others to read. Decisions are taken by this one: a child is
    /// born with it, when its parent's slot may be another's already.
    #[inline(always)]
    pub fn state(&self) -> u32 {
        self.state.load(Acquire)
    }

    /// Changes [`Runtime::state`].
    pub fn set_state(&self, state: u32) {
        self.state.store(state, Release);
        self.slot().state.store(state, Relaxed);
    }

    /// Whether anything may be evicted in this process.
    #[inline(always)]
    pub fn is_paging(&self) -> bool {
        self.state() == state::PAGING
    }

    /// Sets both.
    pub fn set_shared(&self, shared: &'static Shared, slot: &'static Slot) {
        self.shared.store(shared as *const Shared as *mut Shared, Release);
        self.slot.store(slot as *const Slot as *mut Slot, Release);
    }

    /// The store; only after [`Runtime::set_store`].
    pub fn store(&self) -> &'static Tiered<StoreMemory> {
        // SAFETY: set once before the first eviction, alive for ever.
        unsafe { &*self.store.load(Relaxed) }
    }

    /// Whether there is a store.
    pub fn has_store(&self) -> bool {
        !self.store.load(Relaxed).is_null()
    }

    /// Sets the store.
    pub fn set_store(&self, store: &'static Tiered<StoreMemory>) {
        self.store.store(store as *const _ as *mut _, Release);
    }

    /// Whether the program has, or had, several threads.
    pub fn is_threaded(&self) -> bool {
        self.threaded.load(Relaxed) || self.keep_out.count() > 1
    }

    /// Frees a blob that no entry names any more.
    pub fn free(&self, found: Ref, owner: u64) {
        if self.store().store().free(found, owner, &Entries).is_err() {
            self.fail_corrupt();
        }
    }

    /// Says that worker `number` begins or ends to read blobs it has pinned.
    pub fn set_reading(&self, number: usize, reading: bool) {
        let now = self.reading[number].fetch_add(1, SeqCst);
        debug_assert_eq!(now.is_multiple_of(2), reading);
    }

    /// Waits until every reader that reads now has done so: afterwards nobody
    /// reads a blob whose entry was emptied before the call.
    pub fn settle_readers(&self) {
        for reader in &self.reading {
            let seen = reader.load(SeqCst);
            let mut spins = 0u32;
            while seen % 2 == 1 && reader.load(SeqCst) == seen {
                spins += 1;
                if spins.is_multiple_of(64) { sched::yield_now() } else { core::hint::spin_loop() }
            }
        }
    }

    /// Makes the readers of the parent disappear in a forked child.
    pub fn forget_readers(&self) {
        for reader in &self.reading {
            reader.store(0, SeqCst);
        }
    }

    /// Leaves a line for the supervisor.
    pub fn say(&self, text: &str) {
        self.shared().say(self.pid.load(Relaxed), text);
    }

    /// Ends the process: going on could show it wrong data.
    pub fn fail(&self, why: &str) -> ! {
        self.say(why);
        if self.spill.area().is_some_and(|area| area.server.load(Relaxed) == 0) {
            self.say_alone(why);
        }
        sys::abort()
    }

    /// Says it where the program says its troubles: nobody else is there to do it.
    #[cold]
    fn say_alone(&self, why: &str) {
        use core::fmt::Write;
        let (mut path, pid) = (sys::Text::new(), sys::getpid());
        let _ = write!(path, "/proc/{pid}/fd/2\0");
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(path.as_str().as_bytes()) else { return };
        // The runtime's threads have descriptors of their own. A pipe that nobody empties must not hold up the end.
        let Ok(to) = sys::open(path, sys::o::WRONLY | sys::o::APPEND | sys::o::NONBLOCK | sys::o::CLOEXEC)
        else {
            return;
        };
        let mut text = sys::Text::new();
        let _ = writeln!(text, "memfold: process {pid}: {why}");
        let _ = sys::write(to, text.as_str().as_bytes());
    }

    /// As `fail`, for a page.
    #[cold]
    pub fn fail_at(&self, why: &str, page: usize, state: State) -> ! {
        use core::fmt::Write;
        let mut text = sys::Text::new();
        let _ = write!(text, "{why}: page {page:#x}, {state:?}");
        self.fail(text.as_str())
    }

    /// Ends the process because a block is damaged.
    #[cold]
    pub fn fail_corrupt(&self) -> ! {
        self.fail(
            "a compressed block is damaged (its checksum does not match): the process is ended, so that it can't \
             go on with wrong data. The cause is faulty memory, a stray write of the program, or a bug of memfold.",
        )
    }

    /// Whether more may come back than was asked for: threads have waited too long, and room is not what is missing.
    pub fn is_in_a_hurry(&self) -> bool {
        self.patience_ns.load(Relaxed) < 0 && self.debt.load(Relaxed) < -self.margin.load(Relaxed)
    }

    /// Whether much more must be made free than what faults wait for.
    pub fn is_far_over(&self) -> bool {
        self.debt.load(Relaxed) > 2 * self.margin.load(Relaxed)
    }

    /// Whether a fork is under way or about to be: nobody waits for room then.
    pub fn forks(&self) -> bool {
        self.pause.load(Relaxed) != 0 || self.about_to_fork.load(Relaxed) != 0
    }

    /// Moves the debt and wakes who waits for its change.
    pub fn change_debt(&self, bytes: i64) {
        let before = self.debt.fetch_add(bytes, AcqRel);
        let after = before + bytes;
        let margin = self.margin.load(Relaxed);
        // One compressor begins, the others help later.
        if before <= 0 && after > 0 || before <= margin / 2 && after > margin / 2 {
            self.work.ring();
        }
        if before > margin && after <= margin {
            self.room.ring();
        }
    }
}

/// How the store moves a blob: by one exchange of the entry that names it.
pub struct Entries;

impl Owners for Entries {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        let address = (owner as usize).wrapping_mul(PAGE);
        match RUNTIME.table.entry(address) {
            Some(entry) if !RUNTIME.spill.keeps_still(owner) => {
                entry.replace(State::Stored(from), State::Stored(to))
                    || RUNTIME.relocate_kept(address, from, to)
            }
            _ => false,
        }
    }
}
