//! What one user has spilled: blocks that are put, read and freed one by one, and stand on the tier in batches.
//!
//! ```text
//!   put ──> batch that is filled ── full ──> on its way ── acknowledged ──> on the tier alone ── nothing of it is needed ──> deleted
//!           \───────────── read from memory ─────────/                      │
//!                 ^                    └── refused: blocks move on          │ little of it is needed
//!                 └───────────────────────────────────────────────<─────────┘
//!
//!   blocks    number -> batch, place, stamp: 16 bytes each
//!   batches   number on the tier, how much of it is needed, whose blocks it has
//! ```
//!
//! Invariants:
//! - A block is in memory until its batch was acknowledged. What a tier has refused stays there, until it takes it under another number.
//! - What is in memory is bounded: so many batches, and then nothing more is taken. A block that is longer than a
//!   batch has one of its own, and is taken when no other such batch is on its way.
//! - What does not open, or was put for somebody else, is never data.
//! - A forked child has nothing of it, and takes no lock: its parent's threads may have held it.

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

/// Batches in memory at most that are not acknowledged, besides the one that is filled.
const UNACKNOWLEDGED: usize = 4;
/// Nobody waits longer than this for one of them.
const WAITS: Duration = Duration::from_secs(5);
/// And looks so often.
const TURN: Duration = Duration::from_millis(200);
/// Sparse batches that are emptied for one that is sent, at most.
const EMPTIED: usize = 2;
/// The longest block that is taken.
const LONGEST: usize = 64 << 20;
/// Bytes of a batch, and how long a get waits, unless others are asked for.
const BATCH: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// What a forked child is told.
const FORKED: &str = "this process was forked from the one that has spilled";
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

/// What nobody else calls what he puts on a server.
pub fn run_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{time:x}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed))
}

impl Spilled {
    /// Bytes that a block takes besides its payload.
    pub const OVERHEAD: usize = Batch::OVERHEAD;

    /// On a tier that is opened for it, encrypted with a key that nobody has, in batches of 256 KiB; a get waits for a tier that is away for a minute.
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

    /// Nothing yet; an error if there may be no more threads. Batches have up to so many bytes; `told` hears of each change of the tier's health, and must not put or get anything itself: it is called
    /// by who does. A get waits for a tier that is away until `patience` ends.
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

    /// Bytes of a batch, unless it is that of a longer block.
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Whether the tier takes batches now. What is not needed on a full one is deleted first.
    pub fn is_open(&self) -> bool {
        if self.engine.is_forked() {
            return false;
        }
        if self.engine.health() == Health::Full {
            self.engine.delete_now(Vec::new());
        }
        self.engine.health() == Health::Open && !locked(&self.inner.state).is_stalled
    }

    /// How the tier is.
    pub fn health(&self) -> Health {
        match self.engine.is_forked() {
            true => Health::Unfit(FORKED.into()),
            false => self.engine.health(),
        }
    }

    /// What people call the tier.
    pub fn name(&self) -> &str {
        self.engine.name()
    }

    /// What the tier holds.
    pub fn room(&self) -> Room {
        if self.engine.is_forked() {
            return Room::default();
        }
        self.settle(&mut locked(&self.inner.state));
        self.engine.room()
    }

    /// Sealed bytes of blocks that are needed.
    pub fn needed_bytes(&self) -> u64 {
        if self.engine.is_forked() {
            return 0;
        }
        locked(&self.inner.state).needed_bytes
    }

    /// Memory that this takes: tables, and batches as if there were as many as there may be.
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

    /// Memory that batches of that size take at most, and what is read ahead of them. A block that is longer takes
    /// its own length besides, until it was acknowledged.
    pub fn fixed_bytes(batch_bytes: usize) -> u64 {
        ((UNACKNOWLEDGED + 2) * batch_bytes) as u64 + Ahead::MEMORY
    }

    /// Takes a block, and returns its number, which is less than 2^32; one of more than 64 MiB finds no room. From
    /// now on it is kept, in memory or on the tier.
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

    /// Which of the blocks that had this number it is. `None` if there is none.
    pub fn stamp(&self, number: u64) -> Option<u32> {
        self.not_forked().ok()?;
        locked(&self.inner.state).entry(number).map(|entry| entry.stamp)
    }

    /// Reads a block: its tag and its payload, in `room`, which has to be as long as that and [`Spilled::OVERHEAD`].
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
                    // It may have moved meanwhile, or gone.
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

    /// Reads a part of a batch that has `end` bytes, and what follows if that is likely to be wanted next.
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

    /// Drops what was read ahead: the next reads ask the tier.
    pub fn forget_ahead(&self) {
        *locked(&self.ahead) = Ahead::default();
    }

    /// A block is not needed any more. Returns the bytes of its payload, if there was one.
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

    /// Deletes everything there is on the tier: nothing is read or put any more. For who can't drop it before the process ends.
    pub fn end(&self) {
        if self.engine.is_forked() {
            return;
        }
        let begin = Instant::now();
        let mut state = locked(&self.inner.state);
        state.is_ended = true;
        // What is on its way would arrive after it was deleted.
        while state.batches.iter().flatten().any(|kept| kept.stage == Stage::OnItsWay)
            && let Some(left) = WAITS.checked_sub(begin.elapsed())
        {
            let waited = self.inner.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        let late = state.batches.iter().flatten().filter(|kept| kept.stage == Stage::OnItsWay).count();
        let all = state.take_all();
        drop(state);
        self.engine.leave(all, late);
    }

    /// What is put is sealed under numbers that the parent uses as well.
    fn not_forked(&self) -> Result<(), Trouble> {
        if self.engine.is_forked() { Err(Trouble::Unfit(FORKED.into())) } else { Ok(()) }
    }

    /// Why nothing is taken now.
    fn why_not(&self) -> Option<Trouble> {
        match self.engine.health() {
            Health::Open => None,
            Health::Full => Some(Trouble::Full),
            Health::Away(why) => Some(Trouble::Away(why)),
            Health::Unfit(why) => Some(Trouble::Unfit(why)),
        }
    }

    /// Sends the batch that is filled; waits if too many are on their way. For a block that is longer than a batch
    /// it waits afterwards, too, until there is none of another such block.
    fn send<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        is_long: bool,
    ) -> Result<MutexGuard<'a, State>, Trouble> {
        let filled = state.filled();
        let mut state = self.wait_while(state, |state| state.unacknowledged >= UNACKNOWLEDGED)?;
        // Who has waited, too, may have sent it; what is filled now has room.
        if state.filled() == filled {
            self.send_now(&mut state);
        }
        if is_long {
            let is_filled = |state: &State| state.filled().is_some();
            return self.wait_while(state, |state| !is_filled(state) && state.excess(self.batch_bytes) > 0);
        }
        Ok(state)
    }

    /// Waits for answers of the tier while that is so.
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
            // One is enough to wait for a tier that hangs.
            state.is_stalled |= left.is_zero();
            if state.is_stalled {
                return Err(Trouble::Full);
            }
            let begin = Instant::now();
            let waited = self.inner.answered.wait_timeout(state, TURN);
            // While the process is stopped, nobody waits.
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
        (kept.stage, kept.bytes) = (Stage::OnItsWay, used as u32);
        let (number, memory, inner) = (kept.number, kept.memory.clone(), self.inner.clone());
        state.unacknowledged += 1;
        self.engine.put(number, memory, move |result| {
            locked(&inner.state).note_answer(index, number, result.is_ok());
            inner.answered.notify_all();
        });
    }

    /// Deletes what waits for it.
    fn settle(&self, state: &mut State) {
        state.deletes.drain(..).for_each(|number| self.engine.delete(number));
    }
}

impl Drop for Spilled {
    /// Leaves nothing on the tier, if it answers. What was on its way has arrived before it is deleted.
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
