//! The spilled blocks of one user: they are put, read and freed one by one, and stored on the tier in
//! batches.
//!
//! ```text
//!   put ──> filling batch ── full ──> on its way ── acknowledged ──> on the tier only ── unneeded ──> deleted
//!           \──────── read from memory ────────/                        │
//!               ^                       └── refused: blocks move on     │ little of it is needed
//!               └───────────────────────────────────────<───────────────┘
//!
//!   blocks    number -> batch, place, stamp: 16 bytes each
//!   batches   number on the tier, how much of it is needed, whose blocks it has
//! ```
//!
//! Invariants:
//! - A block is in memory until its batch is acknowledged. Blocks that a tier has refused stay in memory
//!   until the tier accepts them in a batch with another number.
//! - The memory is bounded: if too many batches are unacknowledged, no more blocks are accepted. A block
//!   longer than a batch gets its own batch, and is accepted only when no other such batch is on its way.
//! - A block that does not open, or was put for another owner, is never returned as data.
//! - A forked child has none of the blocks. It takes no lock, because a thread of its parent may have held
//!   the lock at the fork.

mod ahead;
mod moves;
mod state;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ahead::Ahead;
use state::{Entry, Kept, NONE, Stage, State};

use crate::batch::{BLOCK_HEAD, Batch, Sealer};
use crate::engine::{Engine, Health};
use crate::tiers::{BadTarget, Room, Target, Terms, Tier, Trouble, locked};

/// The most unacknowledged batches in memory, in addition to the one being filled.
const UNACKNOWLEDGED: usize = 4;
/// No thread waits longer than this for an acknowledgement.
const WAITS: Duration = Duration::from_secs(5);
/// The interval at which a waiting thread checks.
const TURN: Duration = Duration::from_millis(200);
/// Up to this many sparse batches are emptied for each batch that is sent.
const EMPTIED: usize = 2;
/// The longest block that is accepted.
const LONGEST: usize = 64 << 20;
/// The defaults: bytes of a batch, and how long a get waits.
const BATCH: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// The error in a forked child.
const FORKED: &str = "the spilled data belong to the process from which this one was forked";

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// A batch was acknowledged or refused.
    answered: Condvar,
}

/// See the module.
pub struct Spilled {
    engine: Engine,
    inner: Arc<Inner>,
    ahead: Mutex<Ahead>,
    sealer: Sealer,
    batch_bytes: usize,
}

/// A unique name for the data of this run on a server.
pub fn run_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{time:x}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed))
}

impl Spilled {
    /// Bytes that a block takes besides its payload.
    pub const OVERHEAD: usize = Batch::OVERHEAD;

    /// Opens a tier and encrypts with a random key, in batches of 256 KiB. A get waits up to a minute for an
    /// unresponsive tier.
    pub fn open(
        target: &Target,
        terms: Terms,
        told: impl Fn(&Health) + Send + Sync + 'static,
    ) -> Result<Self, BadTarget> {
        let cannot = |error: io::Error| BadTarget(format!("{target}: {error}"));
        let tier = target.open(&run_name(), terms)?;
        let sealer = Sealer::for_this_run().map_err(cannot)?;
        Self::new(tier, sealer, BATCH, PATIENCE, told).map_err(cannot)
    }

    /// Starts without blocks; fails if no more threads can be started. Batches have up to `batch_bytes`
    /// bytes. `told` is called with each change of the tier's health, also by threads that are putting or
    /// getting a block. So it must not put or get anything itself. A get waits up to `patience` for an
    /// unresponsive tier.
    pub fn new(
        tier: Box<dyn Tier>,
        sealer: Sealer,
        batch_bytes: usize,
        patience: Duration,
        told: impl Fn(&Health) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let engine = Engine::start(tier, patience, told)?;
        Ok(Spilled { engine, inner: Arc::default(), ahead: Mutex::default(), sealer, batch_bytes })
    }

    /// The most bytes of a batch; only a longer block gets a longer batch.
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Whether the tier currently accepts batches. If it is full, unneeded batches are deleted first.
    pub fn is_open(&self) -> bool {
        if self.engine.is_forked() {
            return false;
        }
        if self.engine.health() == Health::Full {
            self.engine.delete_now(Vec::new());
        }
        self.engine.health() == Health::Open && !locked(&self.inner.state).is_stalled
    }

    /// The health of the tier.
    pub fn health(&self) -> Health {
        match self.engine.is_forked() {
            true => Health::Unfit(FORKED.into()),
            false => self.engine.health(),
        }
    }

    /// The name of the tier for messages.
    pub fn name(&self) -> &str {
        self.engine.name()
    }

    /// How much the tier holds, and how much it may hold.
    pub fn room(&self) -> Room {
        if self.engine.is_forked() {
            return Room::default();
        }
        self.settle(&mut locked(&self.inner.state));
        self.engine.room()
    }

    /// Sealed bytes of needed blocks.
    pub fn needed_bytes(&self) -> u64 {
        if self.engine.is_forked() {
            return 0;
        }
        locked(&self.inner.state).needed_bytes
    }

    /// The memory of the tables, and of as many batches as there can be.
    pub fn memory_bytes(&self) -> u64 {
        if self.engine.is_forked() {
            return 0;
        }
        let state = locked(&self.inner.state);
        let lists: usize = state.batches.iter().flatten().map(|kept| kept.blocks.capacity() * 4).sum();
        let tables = state.blocks.capacity() * size_of::<Entry>()
            + (state.free_blocks.capacity() + state.free_batches.capacity()) * 4
            + state.batches.capacity() * size_of::<Option<Kept>>();
        (tables + lists + state.excess(self.batch_bytes)) as u64 + Self::fixed_bytes(self.batch_bytes)
    }

    /// The most memory that batches of that size take, including bytes read ahead. A longer block
    /// additionally takes its own length until it is acknowledged.
    pub fn fixed_bytes(batch_bytes: usize) -> u64 {
        ((UNACKNOWLEDGED + 2) * batch_bytes) as u64 + Ahead::MEMORY
    }

    /// Accepts a block, and returns its number, which is less than 2^32. A block of more than 64 MiB is
    /// refused.
    pub fn put(&self, owner: u64, tag: u8, payload: &[u8]) -> Result<u64, Trouble> {
        if payload.len() > LONGEST {
            return Err(Trouble::Full);
        }
        let is_long = payload.len() + Self::OVERHEAD > self.batch_bytes;
        self.not_forked()?;
        let _ = self.is_open();
        let mut state = locked(&self.inner.state);
        self.settle(&mut state);
        self.take_refused(&mut state);
        if let Some(why) = self.why_not().or(state.is_ended.then_some(Trouble::Full)) {
            return Err(why);
        }
        let mut sent = false;
        let (batch, offset, len) = loop {
            if let Some(sealed) = state.seal(&self.sealer, self.batch_bytes, owner, tag, payload) {
                break sealed;
            }
            state = self.send(state, is_long)?;
            sent = true;
        };
        state.stamp = state.stamp.wrapping_add(1);
        let entry = Entry { batch, offset, len, stamp: state.stamp };
        let number = match state.free_blocks.pop() {
            Some(number) => number,
            None if state.blocks.len() >= NONE as usize => return Err(Trouble::Full),
            None => {
                state.blocks.push(entry);
                state.blocks.len() as u32 - 1
            }
        };
        state.place(number, entry);
        if sent {
            self.empty_sparse(state);
        }
        Ok(u64::from(number))
    }

    /// A stamp that distinguishes the block from earlier ones with this number. `None` if there is no block.
    pub fn stamp(&self, number: u64) -> Option<u32> {
        self.not_forked().ok()?;
        locked(&self.inner.state).entry(number).map(|entry| entry.stamp)
    }

    /// Reads a block into `room`, which must be [`Spilled::OVERHEAD`] longer than the payload, and returns
    /// its tag and its payload.
    pub fn get<'r>(&self, number: u64, owner: u64, room: &'r mut [u8]) -> Result<(u8, &'r [u8]), Trouble> {
        self.not_forked()?;
        let (tag, len) = loop {
            let (entry, batch, end, memory) = {
                let state = locked(&self.inner.state);
                let (entry, kept) = state.find(number).ok_or(Trouble::Lost)?;
                (entry, kept.number, kept.bytes, (kept.stage != Stage::Away).then(|| kept.memory.clone()))
            };
            let into = room.get_mut(..entry.len as usize).ok_or(Trouble::Lost)?;
            let read = match memory {
                Some(memory) => {
                    let from = memory.get(entry.offset as usize..).and_then(|rest| rest.get(..into.len()));
                    from.map(|from| into.copy_from_slice(from)).ok_or(Trouble::Lost)
                }
                None => self.read(batch, entry.offset, into, end),
            };
            let opened = read.and_then(|()| {
                let opened = self.sealer.open_first(batch, entry.offset, into);
                opened.ok().filter(|(block, _)| block.owner == owner).ok_or(Trouble::Lost)
            });
            match opened {
                Ok((block, _)) => break (block.tag, block.payload.len()),
                Err(trouble) => {
                    // The block may have been moved or freed meanwhile.
                    let state = locked(&self.inner.state);
                    let now = state.find(number).map(|(entry, kept)| (entry, kept.number));
                    if now == Some((entry, batch)) {
                        return Err(trouble);
                    }
                }
            }
        };
        Ok((tag, &room[BLOCK_HEAD..BLOCK_HEAD + len]))
    }

    /// Reads a part of a batch of `end` bytes, and further bytes if they will probably be read next.
    fn read(&self, batch: u64, from: u32, into: &mut [u8], end: u32) -> Result<(), Trouble> {
        let plan = {
            let mut ahead = locked(&self.ahead);
            if ahead.take(batch, from, into) {
                return Ok(());
            }
            ahead.plan(batch, from, into.len(), end)
        };
        if plan.len > into.len() {
            let mut bytes = vec![0; plan.len];
            if self.engine.try_get(batch, from, &mut bytes).is_ok() {
                into.copy_from_slice(&bytes[..into.len()]);
                locked(&self.ahead).keep(&plan, from, bytes);
                return Ok(());
            }
        }
        self.engine.get(batch, from, into)
    }

    /// Drops all bytes read ahead, so that the next reads go to the tier.
    pub fn forget_ahead(&self) {
        if self.not_forked().is_ok() {
            *locked(&self.ahead) = Ahead::default();
        }
    }

    /// Frees a block. Returns the size of its payload; `None` if there is no such block.
    pub fn free(&self, number: u64) -> Option<usize> {
        self.not_forked().ok()?;
        let mut state = locked(&self.inner.state);
        let entry = state.entry(number)?;
        state.blocks[number as usize].batch = NONE;
        state.free_blocks.push(number as u32);
        state.leave(entry);
        self.settle(&mut state);
        Some(entry.len as usize - Self::OVERHEAD)
    }

    /// Deletes everything on the tier; after that, nothing can be read or put. For callers that cannot drop
    /// this before the process ends.
    pub fn end(&self) {
        if self.engine.is_forked() {
            return;
        }
        let begin = Instant::now();
        let mut state = locked(&self.inner.state);
        state.is_ended = true;
        // A batch on its way would arrive after its deletion.
        while state.batches.iter().flatten().any(|kept| kept.stage == Stage::InFlight)
            && let Some(left) = WAITS.checked_sub(begin.elapsed())
        {
            let waited = self.inner.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        let late = state.batches.iter().flatten().filter(|kept| kept.stage == Stage::InFlight).count();
        let all = state.take_all();
        drop(state);
        self.engine.leave(all, late);
    }

    /// An error in a forked child: it would seal blocks under numbers that its parent also uses.
    fn not_forked(&self) -> Result<(), Trouble> {
        if self.engine.is_forked() { Err(Trouble::Unfit(FORKED.into())) } else { Ok(()) }
    }

    /// The reason why no blocks are currently accepted.
    fn why_not(&self) -> Option<Trouble> {
        match self.engine.health() {
            Health::Open => None,
            Health::Full => Some(Trouble::Full),
            Health::Away(why) => Some(Trouble::Away(why)),
            Health::Unfit(why) => Some(Trouble::Unfit(why)),
        }
    }

    /// Sends the batch that is being filled; waits if too many are on their way. If the next block is longer
    /// than a batch (`is_long`), it then waits until no other such batch is on its way.
    fn send<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        is_long: bool,
    ) -> Result<MutexGuard<'a, State>, Trouble> {
        let filled = state.filled();
        let mut state = self.wait_while(state, |state| state.unacknowledged >= UNACKNOWLEDGED)?;
        // Another waiting thread may have sent it; then the new batch being filled has room.
        if state.filled() == filled {
            self.send_now(&mut state);
        }
        if is_long {
            let is_filled = |state: &State| state.filled().is_some();
            return self.wait_while(state, |state| !is_filled(state) && state.excess(self.batch_bytes) > 0);
        }
        Ok(state)
    }

    /// Waits for the tier's answers while `is_so` holds.
    fn wait_while<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        is_so: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>, Trouble> {
        let mut left = WAITS;
        while is_so(&state) {
            if let Some(why) = self.why_not() {
                return Err(why);
            }
            // Only the first threads wait for a tier that hangs; later ones fail at once until it answers.
            state.is_stalled |= left.is_zero();
            if state.is_stalled {
                return Err(Trouble::Full);
            }
            let begin = Instant::now();
            let waited = self.inner.answered.wait_timeout(state, TURN);
            // Time during which the process is stopped does not count as waiting.
            left = left.saturating_sub(begin.elapsed().min(TURN));
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            self.take_refused(&mut state);
        }
        Ok(state)
    }

    fn send_now(&self, state: &mut State) {
        let Some(index) = state.filling.take() else { return };
        let Some(kept) = state.batches[index as usize].as_mut() else { return };
        let Stage::Filling(used) = kept.stage else { return };
        Arc::make_mut(&mut kept.memory).truncate(used);
        (kept.stage, kept.bytes) = (Stage::InFlight, used as u32);
        let (number, memory, inner) = (kept.number, kept.memory.clone(), self.inner.clone());
        state.unacknowledged += 1;
        self.engine.put(number, memory, move |result| {
            locked(&inner.state).note_answer(index, number, result.is_ok());
            inner.answered.notify_all();
        });
    }

    /// Passes the unneeded batches on for deletion.
    fn settle(&self, state: &mut State) {
        state.deletes.drain(..).for_each(|number| self.engine.delete(number));
    }
}

impl Drop for Spilled {
    /// Leaves nothing on the tier, if it answers. Batches on their way arrive before they are deleted.
    fn drop(&mut self) {
        if self.engine.is_forked() {
            return;
        }
        self.engine.end_threads();
        locked(&self.inner.state).take_all().into_iter().for_each(|number| self.engine.delete(number));
        self.engine.end_and_tell();
    }
}

#[cfg(test)]
mod tests;
