//! Sums over entries, added up along the parents.
//!
//! A file counts once for each entry above it, however many of its own entries are below that one. So, in the
//! order of a walk, an entry counts for those of its ancestors that have no earlier entry of the same file
//! below them. These are the ones below the deepest common ancestor of the entry and the file's most recent
//! entry.

use std::collections::HashMap;
use std::vec::Vec;

use super::{DATA, Edge, NodeId, SAME, Tree};
use crate::heap::{Error, Handle, Plain};
use crate::room::room;

/// An entry whose sum is being computed.
struct Open<V> {
    node: Handle,
    own: Option<V>,
    /// Sums over entries below: those that count for all ancestors, too, and those that were already added to
    /// the ancestors for which they count.
    below: Option<V>,
    linked: Option<V>,
}

/// Files of which an entry has been visited.
#[derive(Default)]
struct Came {
    /// The file of each entry that has others.
    files: HashMap<Handle, usize>,
    /// The most recent entry of each file.
    last: Vec<Option<Handle>>,
}

impl<T: Plain + Copy> Tree<'_, T> {
    /// Changes the data of those of an entry's ancestors, from its parent up, that have no other entry of the
    /// same file below them. So a program that adds entries one by one, links them and adds up their sizes
    /// counts each file once for each entry above it.
    ///
    /// If it fails, or `change` panics, nothing is changed.
    pub fn add_up(&mut self, node: NodeId, mut change: impl FnMut(&mut T)) -> Result<(), Error> {
        self.sound()?;
        let mut above = self.ancestors(node).collect::<Result<Vec<_>, _>>()?;
        if self.link_of(node.0, SAME)? != 0 {
            above.truncate(self.above_alone(node, &above)?);
        }
        // Their old and new data: `change` is called before anything changes.
        let mut data = room(above.len())?;
        for node in &above {
            let old = self.get(*node)?;
            let mut new = old;
            change(&mut new);
            data.push((old, new));
        }
        for (number, (node, (_, new))) in above.iter().zip(&data).enumerate() {
            if let Err(error) = self.set(*node, new) {
                let done = above.iter().zip(&data).take(number);
                self.broken |= !done.into_iter().all(|(node, (old, _))| self.set(*node, old).is_ok());
                return Err(error);
            }
        }
        Ok(())
    }

    /// How many of an entry's ancestors have no other entry of the same file below them.
    fn above_alone(&self, node: NodeId, above: &[NodeId]) -> Result<usize, Error> {
        let places: HashMap<NodeId, usize> = above.iter().enumerate().map(|(at, node)| (*node, at)).collect();
        let mut alone = above.len();
        for other in self.same(node) {
            for ancestor in self.up_from(other?) {
                if let Some(at) = places.get(&ancestor?) {
                    alone = alone.min(*at);
                    break;
                }
            }
        }
        Ok(alone)
    }

    /// An entry and its ancestors.
    fn up_from(&self, node: NodeId) -> impl Iterator<Item = Result<NodeId, Error>> {
        std::iter::once(Ok(node)).chain(self.ancestors(node))
    }

    /// Gives each entry, below one or in the whole tree, the sum of itself and everything below it: `own`
    /// returns an entry's own value, `put` stores its sum. A file of several entries counts once for each
    /// entry above it; entries above the start of the sum are not changed.
    ///
    /// This is one walk, which keeps a sum for each level, and some bytes for each entry of a file that has
    /// several. If it fails, or a closure panics, some entries have their sums and others don't.
    pub fn sum_up<V: Copy>(
        &mut self,
        top: Option<NodeId>,
        mut own: impl FnMut(&T) -> V,
        mut add: impl FnMut(V, V) -> V,
        mut put: impl FnMut(&mut T, V),
    ) -> Result<(), Error> {
        let (mut open, mut came): (Vec<Open<V>>, Came) = Default::default();
        let mut both = |a: Option<V>, b: Option<V>| match (a, b) {
            (Some(a), Some(b)) => Some(add(a, b)),
            (a, b) => a.or(b),
        };
        let session = self.session;
        for edge in self.edges(top) {
            match edge? {
                Edge::Enter(NodeId(node)) => {
                    let (same, value) = (self.link_of(node, SAME)?, own(&self.get(NodeId(node))?));
                    let mut own = Some(value);
                    if same != 0 {
                        let from = self.counts_from(node, &open, &mut came)?;
                        open[from..].iter_mut().for_each(|above| above.linked = both(above.linked, own));
                        own = None;
                    }
                    open.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
                    // A value that was added to the ancestors already still counts for the entry itself.
                    let linked = if own.is_none() { Some(value) } else { None };
                    open.push(Open { node, own, below: None, linked });
                }
                Edge::Leave(NodeId(node)) => {
                    let done = open.pop().filter(|open| open.node == node).ok_or(Error::Damaged)?;
                    let up = both(done.own, done.below);
                    if let Some(above) = open.last_mut() {
                        above.below = both(above.below, up);
                    }
                    if let Some(sum) = both(up, done.linked) {
                        put_data(session, node, |data| put(data, sum))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The topmost of the ancestors for which an entry counts.
    fn counts_from<V>(&self, node: Handle, above: &[Open<V>], came: &mut Came) -> Result<usize, Error> {
        let file = match came.files.get(&node) {
            Some(file) => *file,
            None => {
                let file = came.last.len();
                came.last.push(None);
                came.files.insert(node, file);
                for other in self.same(NodeId(node)) {
                    came.files.insert(other?.0, file);
                }
                file
            }
        };
        let Some(last) = came.last[file].replace(node) else { return Ok(0) };
        let places: HashMap<Handle, usize> =
            above.iter().enumerate().map(|(at, open)| (open.node, at)).collect();
        for ancestor in self.up_from(NodeId(last)) {
            if let Some(at) = places.get(&ancestor?.0) {
                return Ok(at + 1);
            }
        }
        Ok(0)
    }
}

/// Changes the data of an entry; it is written only if it differs.
fn put_data<T: Plain + Copy>(
    session: &crate::heap::Session<'_>,
    node: Handle,
    put: impl FnOnce(&mut T),
) -> Result<(), Error> {
    let old: T = session.get_at(node, DATA)?;
    let mut new = old;
    put(&mut new);
    if new.as_bytes() == old.as_bytes() {
        return Ok(());
    }
    session.change_in_place(node, |bytes| {
        let part = bytes.get_mut(DATA..DATA + size_of::<T>()).ok_or(Error::Damaged)?;
        part.copy_from_slice(new.as_bytes());
        Ok(())
    })?
}
