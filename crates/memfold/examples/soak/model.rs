//! Models: the expected content of a session's nodes, by handle, and random operations on both.

use std::collections::{HashMap, HashSet};

use memfold::heap::{Error, Handle, Heap, Session};

use crate::random::Random;
use crate::shape::Shape;
use crate::{Counts, count, holds};

/// The most handles of freed nodes that are remembered.
const STALE: usize = 500;

/// See the module.
pub(crate) struct Model {
    nodes: HashMap<Handle, Vec<u8>>,
    /// The same handles, in an order that follows from the seed.
    order: Vec<Handle>,
    stale: Vec<Handle>,
    /// All handles that this model's session was ever given, in a paranoid heap.
    ever: HashSet<Handle>,
    bytes: usize,
    random: Random,
    number: u64,
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        Model {
            nodes: HashMap::new(),
            order: vec![],
            stale: vec![],
            ever: HashSet::new(),
            bytes: 0,
            random: Random(seed),
            number: 0,
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (Handle, &Vec<u8>)> {
        self.order.iter().map(|node| (*node, &self.nodes[node]))
    }

    pub(crate) fn give_node(&mut self, (node, bytes): (Handle, Vec<u8>)) {
        self.bytes += bytes.len();
        self.order.push(node);
        self.nodes.insert(node, bytes);
    }

    pub(crate) fn take_nodes(&mut self) -> Vec<(Handle, Vec<u8>)> {
        self.bytes = 0;
        let mut nodes = std::mem::take(&mut self.nodes);
        self.order.drain(..).map(|node| (node, nodes.remove(&node).expect("both have it"))).collect()
    }

    /// Removes the node at this place of the order.
    fn forget(&mut self, at: usize) -> Handle {
        let node = self.order.swap_remove(at);
        self.bytes -= self.nodes.remove(&node).map_or(0, |bytes| bytes.len());
        if self.stale.len() == STALE {
            let at = self.random.below(STALE);
            self.stale.swap_remove(at);
        }
        self.stale.push(node);
        node
    }

    /// Removes the nodes for which `is_gone` holds.
    pub(crate) fn forget_all(&mut self, mut is_gone: impl FnMut(Handle) -> bool) {
        for at in (0..self.order.len()).rev() {
            if is_gone(self.order[at]) {
                self.forget(at);
            }
        }
    }

    fn put(&mut self, node: Handle, bytes: Vec<u8>, shape: &Shape) -> Result<(), String> {
        holds(!self.nodes.contains_key(&node), || format!("{node:?} was given out twice"))?;
        // The check is partial: `ever` lacks the handles that other models' sessions were given.
        holds(!shape.paranoid || self.ever.insert(node), || format!("{node:?} is used again"))?;
        self.give_node((node, bytes));
        Ok(())
    }

    /// Does random operations in a session of the model's own.
    pub(crate) fn play(&mut self, heap: &Heap, shape: &Shape, counts: &Counts) -> Result<(), String> {
        let mut session = heap.session().map_err(|error| format!("session: {error}"))?;
        let mut grows = true;
        for step in 0..shape.steps {
            if step % 256 == 0 {
                grows = self.random.below(5) < 3;
            }
            let done = self.step(&mut session, shape, grows)?;
            if step % 16 == 0 {
                shape.is_within(&heap.stats(), counts)?;
            }
            count(&counts.operations, 1);
            count(&counts.refused, u64::from(!done));
        }
        Ok(())
    }

    /// Does one operation; false if it was refused for a permitted reason.
    fn step(&mut self, session: &mut Session<'_>, shape: &Shape, grows: bool) -> Result<bool, String> {
        let is_full = self.bytes > shape.most_bytes();
        let some = (!self.order.is_empty()).then(|| self.random.below(self.order.len()));
        let what = self.random.below(16);
        let Some(at) = some else { return self.alloc(session, shape, None) };
        let node = self.order[at];
        match what {
            0..=5 if grows && !is_full => {
                let near = self.random.one_in(4).then_some(node);
                self.alloc(session, shape, near)
            }
            0..=7 => {
                let done = refused(session.free(node), shape, "free")?;
                if done.is_some() {
                    self.forget(at);
                    let again = session.free(node);
                    // Another session may have been given the handle again. The block may need a frame, as
                    // for any operation.
                    let is_alone = shape.threads == 1 || shape.paranoid;
                    let is_refused = matches!(again, Err(Error::Stale | Error::Pinned | Error::Busy));
                    holds(!is_alone || is_refused, || format!("freed again: {again:?}"))?;
                }
                Ok(done.is_some())
            }
            8 if !is_full => self.resize(session, shape, at),
            9 | 10 => self.write(session, shape, node),
            11 => self.pin(session, shape, node),
            12 if !self.stale.is_empty() => {
                let old = self.random.below(self.stale.len());
                let read = session.read(self.stale[old]);
                let is_stale =
                    !shape.paranoid || matches!(read, Err(Error::Stale | Error::Pinned | Error::Busy));
                holds(is_stale, || format!("a stale handle: {read:?}"))?;
                Ok(true)
            }
            13 => {
                let bytes = &self.nodes[&node];
                let from = self.random.below(bytes.len());
                let mut part = vec![0; 1 + self.random.below(bytes.len() - from)];
                let Some(()) = refused(session.read_at(node, from, &mut part), shape, "read_at")? else {
                    return Ok(false);
                };
                holds(part == bytes[from..from + part.len()], || {
                    format!("{node:?}: a part of {} from {from} differs", part.len())
                })?;
                Ok(true)
            }
            _ => {
                let Some(read) = refused(session.read(node), shape, "read")? else { return Ok(false) };
                self.is(node, &read)?;
                Ok(true)
            }
        }
    }

    fn alloc(
        &mut self,
        session: &mut Session<'_>,
        shape: &Shape,
        near: Option<Handle>,
    ) -> Result<bool, String> {
        let len = shape.len(&mut self.random);
        let bytes = self.contents(len);
        if near.is_none() && self.random.one_in(2) {
            let Some(node) = refused(session.put_bytes(&bytes), shape, "put_bytes")? else {
                return Ok(false);
            };
            return self.put(node, bytes, shape).map(|()| true);
        }
        let made = match near {
            Some(near) => session.alloc_near(bytes.len(), near),
            None => session.alloc(bytes.len()),
        };
        let Some(node) = refused(made, shape, "alloc")? else { return Ok(false) };
        self.put(node, vec![0; bytes.len()], shape)?;
        if let Some(read) = refused(session.read(node), shape, "read of a new one")? {
            holds(read.iter().all(|byte| *byte == 0), || format!("the new node {node:?} is not zero"))?;
        }
        let old = self.nodes[&node].clone();
        let wrote = session.write(node).map(|mut guard| guard.copy_from_slice(&bytes));
        self.wrote(session, shape, node, wrote, (old, bytes))
    }

    /// Updates the model after a write, which may have failed, or been done in part.
    fn wrote(
        &mut self,
        session: &Session<'_>,
        shape: &Shape,
        node: Handle,
        wrote: Result<(), Error>,
        (old, new): (Vec<u8>, Vec<u8>),
    ) -> Result<bool, String> {
        let done = refused(wrote, shape, "write")?.is_some();
        let is_in_part = !done && wrote != Err(Error::Limit) && new.len() > shape.block;
        let now = match (done, is_in_part) {
            (true, _) => new,
            (_, false) => old,
            _ => loop {
                let Some(read) = refused(session.read(node), shape, "read")? else { continue };
                let known = read
                    .iter()
                    .zip(old.iter().zip(&new))
                    .all(|(byte, (old, new))| byte == old || byte == new);
                holds(known, || format!("{node:?} has bytes that were never written"))?;
                break read;
            },
        };
        self.nodes.insert(node, now);
        Ok(done)
    }

    fn write(&mut self, session: &mut Session<'_>, shape: &Shape, node: Handle) -> Result<bool, String> {
        let old = self.nodes[&node].clone();
        let mut new = old.clone();
        let from = self.random.below(new.len());
        let len = 1 + self.random.below(new.len() - from);
        let part = self.contents(len);
        new[from..from + len].copy_from_slice(&part);
        let wrote = if self.random.one_in(2) {
            session.write_at(node, from, &part)
        } else {
            session.write(node).map(|mut guard| guard[from..from + len].copy_from_slice(&part))
        };
        self.wrote(session, shape, node, wrote, (old, new))
    }

    fn resize(&mut self, session: &mut Session<'_>, shape: &Shape, at: usize) -> Result<bool, String> {
        let (old, len) = (self.order[at], shape.len(&mut self.random));
        let Some(new) = refused(session.resize(old, len), shape, "resize")? else { return Ok(false) };
        let mut bytes = self.nodes[&old].clone();
        bytes.resize(len, 0);
        if new == old {
            self.bytes = self.bytes - self.nodes[&old].len() + len;
            self.nodes.insert(old, bytes);
        } else {
            self.forget(at);
            self.put(new, bytes, shape)?;
        }
        if let Some(read) = refused(session.read(new), shape, "read")? {
            self.is(new, &read)?;
        }
        Ok(true)
    }

    fn pin(&mut self, session: &mut Session<'_>, shape: &Shape, node: Handle) -> Result<bool, String> {
        let Some(pin) = refused(session.pin(node), shape, "pin")? else { return Ok(false) };
        // SAFETY: only this session knows the node, and it does not write meanwhile.
        let bytes = unsafe { pin.bytes() };
        self.is(node, bytes)?;
        // Other blocks are restored and evicted while this one stays.
        for _ in 0..3 {
            let other = self.order[self.random.below(self.order.len())];
            if let Some(read) = refused(session.read(other), shape, "read")? {
                self.is(other, &read)?;
            }
        }
        self.is(node, bytes)?;
        Ok(true)
    }

    fn is(&self, node: Handle, read: &[u8]) -> Result<(), String> {
        let bytes = &self.nodes[&node];
        let differs = || {
            let at = read.iter().zip(bytes).position(|(read, byte)| read != byte);
            format!("{node:?} differs: {} bytes, not {}, first at {at:?}", read.len(), bytes.len())
        };
        holds(read == bytes, differs)
    }

    /// Bytes of all kinds: zeros, ascending numbers, noise, words, handles.
    fn contents(&mut self, len: usize) -> Vec<u8> {
        self.number += 1;
        let (first, words) = (self.random.next(), b"the quick brown fox jumps over the lazy dog; ");
        let step = 1 + first % 5;
        match self.random.below(6) {
            0 => vec![0; len],
            1 => (0..len).map(|at| (first + step * (at as u64 / 8)).to_le_bytes()[at % 8]).collect(),
            2 | 3 => (0..len.div_ceil(8)).flat_map(|_| self.random.next().to_le_bytes()).take(len).collect(),
            4 => words.iter().copied().cycle().skip(first as usize % 40).take(len).collect(),
            _ => {
                let link =
                    self.order.get(first as usize % self.order.len().max(1)).map_or(0, |node| node.to_bits());
                let numbers = [link, self.number, first % 100, 0];
                numbers.into_iter().flat_map(u64::to_le_bytes).cycle().take(len).collect()
            }
        }
    }

    /// Frees all nodes.
    pub(crate) fn end(&mut self, heap: &Heap) -> Result<(), String> {
        let session = heap.session().map_err(|error| format!("session: {error}"))?;
        self.order.iter().try_for_each(|node| session.free(*node)).map_err(|error| format!("free: {error}"))
    }
}

/// The result of an operation; `None` if it was refused for a permitted reason.
fn refused<T>(done: Result<T, Error>, shape: &Shape, what: &str) -> Result<Option<T>, String> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Error::Limit) if shape.has_limit() => Ok(None),
        Err(Error::Pinned) => Ok(None),
        Err(Error::Busy) if shape.threads > 1 => Ok(None),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Checks that the heap has exactly the models' nodes, with the expected contents.
pub(crate) fn compare_all(heap: &mut Heap, models: &[Model]) -> Result<(), String> {
    heap.check().map_err(|error| format!("check: {error}"))?;
    let stats = heap.stats();
    let nodes: usize = models.iter().map(|model| model.order.len()).sum();
    let bytes: usize = models.iter().map(|model| model.bytes).sum();
    holds((stats.nodes, stats.node_bytes) == (nodes as u64, bytes as u64), || {
        format!("{} nodes of {} bytes, not {nodes} of {bytes}", stats.nodes, stats.node_bytes)
    })?;
    let session = heap.session().map_err(|error| format!("session: {error}"))?;
    for model in models {
        for (node, _) in model.nodes() {
            let read = session.read(node).map_err(|error| format!("{node:?}: {error}"))?;
            model.is(node, &read)?;
        }
    }
    Ok(())
}
