//! A directory's entries on their way into the heap: sorted by name, cut into parts, and stored.
//!
//! ```text
//!   contents ───> part                              64 entries or fewer
//!   contents ───> | part, 8 | part, 8 | .. |        more: a node that leads to all of them
//!                     └──> 64 entries, the last one has what is left
//! ```
//!
//! So the number of a **slot** leads to its entry. Entries keep their slots: a deleted entry leaves an empty
//! slot.
//!
//! Few entries are in plain memory, even for a huge directory: every [`RUN`] entries are sorted and moved to
//! the heap as a run, and at the end all runs are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memfold::heap::{Handle, Session};

use crate::Error;
use crate::entry::{Entry, Extended, Kind, Link, Target};
use crate::part::{MOST, Reader, Writer};

/// Entries that are sorted in plain memory,
const RUN: usize = 4096;
/// or as many as have this many bytes of names.
const RUN_BYTES: usize = 256 << 10;

/// Where a directory's entries are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// The number of slots, including empty ones.
    pub slots: u32,
    /// The part, or the node that leads to the parts.
    pub node: Option<Handle>,
}

impl Contents {
    /// The number of parts.
    pub fn parts(self) -> usize {
        (self.slots as usize).div_ceil(MOST)
    }

    /// A part's node.
    pub fn part(self, nodes: &Session<'_>, number: usize) -> Result<Handle, Error> {
        let node = self.node.filter(|_| number < self.parts()).ok_or(Error::Damaged)?;
        if self.parts() == 1 {
            return Ok(node);
        }
        Handle::from_bits(nodes.get_at(node, number * 8)?).ok_or(Error::Damaged)
    }

    /// Frees all nodes. If one cannot be freed, the others still are, and an error is returned.
    pub fn free(self, nodes: &mut Session<'_>) -> Result<(), Error> {
        let Some(node) = self.node else { return Ok(()) };
        let mut result = Ok(());
        if self.parts() > 1 {
            for number in 0..self.parts() {
                let freed = self.part(nodes, number).and_then(|part| Ok(nodes.free(part)?));
                result = result.and(freed);
            }
        }
        result.and(Ok(nodes.free(node)?))
    }
}

/// Frees unreferenced nodes after a failure. Errors are ignored, since that failure is reported.
fn free_all(nodes: &mut Session<'_>, handles: impl IntoIterator<Item = Handle>) {
    for handle in handles {
        let _ = nodes.free(handle);
    }
}

/// An entry in plain memory, without the fields that few entries have.
#[derive(Clone, Copy)]
struct Record {
    size: u64,
    blocks: u64,
    /// Where its name begins; it ends where the next one's does.
    name: u32,
    kind: Kind,
}

/// Entries in plain memory.
#[derive(Default)]
struct Batch {
    names: Vec<u8>,
    records: Vec<Record>,
    /// By record number, in order.
    links: Vec<(u32, Link)>,
    followed: Vec<(u32, Target)>,
    extended: Vec<(u32, Extended)>,
}

/// A record's value of a field that few records have.
fn found<T: Copy>(all: &[(u32, T)], number: usize) -> Option<T> {
    // Usually either all records have the field, or few.
    if let Some((other, value)) = all.get(number)
        && *other as usize == number
    {
        return Some(*value);
    }
    all.binary_search_by_key(&(number as u32), |(number, _)| *number).ok().map(|at| all[at].1)
}

impl Batch {
    fn clear(&mut self) {
        self.names.clear();
        self.records.clear();
        self.links.clear();
        self.followed.clear();
        self.extended.clear();
    }

    fn bytes(&self) -> usize {
        self.names.len()
            + size_of_val(&self.records[..])
            + size_of_val(&self.links[..])
            + size_of_val(&self.followed[..])
            + size_of_val(&self.extended[..])
    }

    fn push(&mut self, entry: &Entry<'_>) {
        let number = self.records.len() as u32;
        let Entry { kind, size, blocks, .. } = *entry;
        self.records.push(Record { size, blocks, name: self.names.len() as u32, kind });
        self.names.extend_from_slice(entry.name);
        self.links.extend(entry.link.map(|link| (number, link)));
        self.followed.extend(entry.followed.map(|target| (number, target)));
        self.extended.extend(entry.extended.map(|extended| (number, extended)));
    }

    fn name(&self, number: usize) -> &[u8] {
        let end = self.records.get(number + 1).map_or(self.names.len(), |next| next.name as usize);
        &self.names[self.records[number].name as usize..end]
    }

    fn get(&self, number: usize) -> Entry<'_> {
        let Record { kind, size, blocks, .. } = self.records[number];
        let (link, followed) = (found(&self.links, number), found(&self.followed, number));
        let extended = found(&self.extended, number);
        Entry { name: self.name(number), kind, size, blocks, link, followed, extended }
    }
}

/// The first eight bytes of a name, which decide most comparisons.
fn head(name: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = name.len().min(8);
    head[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(head)
}

/// Cuts sorted entries into parts.
#[derive(Default)]
struct Cutter {
    writer: Writer,
    bytes: Vec<u8>,
    parts: Vec<Handle>,
    slots: u32,
}

impl Cutter {
    fn begin(&mut self) {
        self.writer.begin();
        self.parts.clear();
        self.slots = 0;
    }

    fn add(&mut self, entry: &Entry<'_>, nodes: &mut Session<'_>) -> Result<(), Error> {
        self.writer.add(entry);
        self.slots = self.slots.checked_add(1).ok_or(Error::TooMany)?;
        if self.writer.is_full() { self.cut(nodes) } else { Ok(()) }
    }

    fn cut(&mut self, nodes: &mut Session<'_>) -> Result<(), Error> {
        self.bytes.clear();
        self.writer.end(&mut self.bytes);
        self.parts.push(nodes.put_bytes(&self.bytes)?);
        self.writer.begin();
        Ok(())
    }

    /// Completes the parts with the remaining entries.
    fn end(&mut self, nodes: &mut Session<'_>) -> Result<(), Error> {
        if self.writer.count() > 0 { self.cut(nodes) } else { Ok(()) }
    }

    fn contents(&mut self, nodes: &mut Session<'_>) -> Result<Contents, Error> {
        self.end(nodes)?;
        let node = match &self.parts[..] {
            [] => None,
            [part] => Some(*part),
            parts => {
                self.bytes.clear();
                parts.iter().for_each(|part| self.bytes.extend_from_slice(&part.to_bits().to_ne_bytes()));
                Some(nodes.put_bytes(&self.bytes)?)
            }
        };
        Ok(Contents { slots: self.slots, node })
    }
}

/// A run in the heap that is being read.
struct Run {
    /// Its parts, the next one last.
    parts: Vec<Handle>,
    batch: Batch,
    at: usize,
}

impl Run {
    fn new(mut parts: Vec<Handle>) -> Self {
        parts.reverse();
        Run { parts, batch: Batch::default(), at: 0 }
    }

    /// Makes the next entry available, if any is left; parts are freed as they are read.
    fn fill(&mut self, nodes: &mut Session<'_>) -> Result<bool, Error> {
        if self.at < self.batch.records.len() {
            return Ok(true);
        }
        let Some(part) = self.parts.last() else { return Ok(false) };
        let bytes = nodes.read(*part)?;
        nodes.free(*part)?;
        self.parts.pop();
        self.batch.clear();
        let mut entries = Reader::new(&bytes)?;
        while let Some(entry) = entries.read()? {
            self.batch.push(&entry);
        }
        self.at = 0;
        Ok(!self.batch.records.is_empty())
    }
}

/// Called for each entry once its slot is known; it gives a directory its number.
pub trait Place: FnMut(u32, &mut Entry<'_>) -> Result<(), Error> {}
impl<F: FnMut(u32, &mut Entry<'_>) -> Result<(), Error>> Place for F {}

/// Takes a directory's entries in any order. It can be reused for another directory.
#[derive(Default)]
pub struct Listing {
    batch: Batch,
    order: Vec<(u64, u32)>,
    cutter: Cutter,
    runs: Vec<Vec<Handle>>,
}

impl Listing {
    /// Adds an entry. No other entry may have the same name.
    pub fn add(&mut self, entry: &Entry<'_>, nodes: &mut Session<'_>) -> Result<(), Error> {
        self.batch.push(entry);
        let is_run = self.batch.records.len() == RUN || self.batch.names.len() >= RUN_BYTES;
        if is_run { self.spill(nodes) } else { Ok(()) }
    }

    /// Bytes of plain memory that entries currently take.
    pub fn own_bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// Moves entries to the heap.
    pub fn spill(&mut self, nodes: &mut Session<'_>) -> Result<(), Error> {
        self.cutter.begin();
        self.sort();
        let Listing { batch, order, cutter, .. } = self;
        let mut cut = || {
            order.iter().try_for_each(|(_, number)| cutter.add(&batch.get(*number as usize), nodes))?;
            cutter.end(nodes)
        };
        let result = cut();
        let parts = std::mem::take(&mut self.cutter.parts);
        match result {
            Ok(()) => self.runs.push(parts),
            Err(_) => free_all(nodes, parts),
        }
        self.batch = Batch::default();
        result
    }

    /// Drops all entries.
    pub fn discard(&mut self, nodes: &mut Session<'_>) {
        self.batch.clear();
        free_all(nodes, self.runs.drain(..).flatten());
    }

    /// Moves all entries to the heap and returns their runs, for [`wake`](Self::wake).
    pub fn sleep(&mut self, nodes: &mut Session<'_>) -> Result<Vec<Vec<Handle>>, Error> {
        if !self.batch.records.is_empty() {
            self.spill(nodes)?;
        }
        Ok(std::mem::take(&mut self.runs))
    }

    /// Restores a sleeping listing; more entries may be added.
    pub fn wake(runs: Vec<Vec<Handle>>) -> Self {
        Listing { runs, ..Listing::default() }
    }

    fn sort(&mut self) {
        self.order.clear();
        let batch = &self.batch;
        self.order.extend((0..batch.records.len()).map(|number| (head(batch.name(number)), number as u32)));
        self.order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| batch.name(a.1 as usize).cmp(batch.name(b.1 as usize)))
        });
    }

    /// Stores all entries in order. Afterwards the listing is empty, even if this fails.
    pub fn finish(&mut self, nodes: &mut Session<'_>, place: &mut impl Place) -> Result<Contents, Error> {
        let result = if self.runs.is_empty() { self.all(nodes, place) } else { self.merge(nodes, place) };
        if result.is_err() {
            free_all(nodes, self.cutter.parts.drain(..));
        }
        self.discard(nodes);
        result
    }

    fn all(&mut self, nodes: &mut Session<'_>, place: &mut impl Place) -> Result<Contents, Error> {
        self.cutter.begin();
        self.sort();
        for (_, number) in &self.order {
            let mut entry = self.batch.get(*number as usize);
            place(self.cutter.slots, &mut entry)?;
            self.cutter.add(&entry, nodes)?;
        }
        self.cutter.contents(nodes)
    }

    fn merge(&mut self, nodes: &mut Session<'_>, place: &mut impl Place) -> Result<Contents, Error> {
        if !self.batch.records.is_empty() {
            self.spill(nodes)?;
        }
        self.cutter.begin();
        let mut runs: Vec<Run> = self.runs.drain(..).map(Run::new).collect();
        let result = self.merge_runs(&mut runs, nodes, place);
        free_all(nodes, runs.into_iter().flat_map(|run| run.parts));
        result
    }

    fn merge_runs(
        &mut self,
        runs: &mut [Run],
        nodes: &mut Session<'_>,
        place: &mut impl Place,
    ) -> Result<Contents, Error> {
        let mut next = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            if run.fill(nodes)? {
                next.push(Reverse((run.batch.name(run.at).to_vec(), number)));
            }
        }
        while let Some(Reverse((mut name, number))) = next.pop() {
            let run = &mut runs[number];
            let mut entry = run.batch.get(run.at);
            place(self.cutter.slots, &mut entry)?;
            self.cutter.add(&entry, nodes)?;
            run.at += 1;
            if run.fill(nodes)? {
                name.clear();
                name.extend_from_slice(run.batch.name(run.at));
                next.push(Reverse((name, number)));
            }
        }
        self.cutter.contents(nodes)
    }
}
