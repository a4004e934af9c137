//! Removing entries with everything below them.

use std::vec::Vec;

use super::{CHILD, Links, NodeId, SAME, Tree};
use crate::collections::links::Few;
use crate::heap::{Error, Handle, Plain};

impl<T: Plain + Copy> Tree<'_, T> {
    /// Removes an entry and everything below it, and returns the number of entries removed. Other entries of
    /// the same files stay.
    ///
    /// All of them are read before anything changes. If one can't be read again afterwards, that is an error:
    /// the entry is removed, but everything below the unreadable one stays in the heap. Nodes that can't be
    /// freed just now are freed later.
    pub fn remove(&mut self, node: NodeId) -> Result<u64, Error> {
        self.sound()?;
        let mut linked = Vec::new();
        let mut count = 0;
        for entry in self.walk(Some(node)) {
            let (entry, _) = entry?;
            count += 1;
            if self.link_of(entry.0, SAME)? != 0 {
                linked.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
                linked.push(entry);
            }
        }
        let (out, top) = self.way_out(node.0, self.links_of(node.0)?)?;
        let rings = self.out_of_rings(&linked)?;
        let done = out.change(self.session);
        if let Err(failure) = done {
            self.broken |= !rings.iter().rev().all(|links| links.undo(self.session));
            return self.noted(Err(failure)).map(|()| 0);
        }
        self.top = top;
        self.len -= count;
        let child = self.link_of(node.0, CHILD).map(Handle::from_bits);
        let below = child.and_then(|child| self.free_all(child));
        self.session.discard(node.0);
        below.map(|()| count)
    }

    /// Takes entries out of their rings: all or none.
    fn out_of_rings(&mut self, nodes: &[NodeId]) -> Result<Vec<Few>, Error> {
        let mut done: Vec<Few> = Vec::new();
        for node in nodes {
            let out = self.unlink_ring_changes(node.0).and_then(|links| {
                done.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
                Ok(links)
            });
            let failure = match out {
                Ok(None) => continue,
                Ok(Some(links)) => match links.change(self.session) {
                    Ok(()) => {
                        done.push(links);
                        continue;
                    }
                    Err(failure) => failure,
                },
                Err(error) => crate::collections::links::Failure { error, undone: true },
            };
            self.broken |= !failure.undone || !done.iter().rev().all(|links| links.undo(self.session));
            return Err(failure.error);
        }
        Ok(done)
    }

    /// Removes all entries. There are none afterwards, even after an error. If an entry can't be read, it is
    /// freed, now or later, but everything below it stays in the heap, and so do siblings that can be reached
    /// only through it.
    pub fn clear(&mut self) -> Result<(), Error> {
        let (top, broken) = (self.top.take(), std::mem::take(&mut self.broken));
        self.len = 0;
        let freed = self.free_all(top);
        if broken { Err(Error::Damaged) } else { freed }
    }

    /// Frees an entry, its next siblings, and everything below them, now or later. Nodes that can't be
    /// reached are left out; the result is then an error.
    fn free_all(&self, first: Option<Handle>) -> Result<(), Error> {
        let (mut left, mut result) = (Vec::new(), Ok(()));
        left.extend(first.map(Siblings::from_first));
        while let Some(Siblings { node, last, unread }) = left.pop() {
            // Never more than two for each level.
            if left.try_reserve(2).is_err() {
                result = result.and(Err(Error::OutOfMemory));
                continue;
            }
            let links = self.session.get_at::<Links>(node, 0);
            // Nothing is known of a node that does not belong to the tree.
            if !matches!(links, Err(Error::Stale | Error::Mismatch { .. })) {
                self.session.discard(node);
            }
            let (next, child) = match links {
                Ok(links) => {
                    let [child, next, previous] =
                        [links.child, links.next, links.previous].map(Handle::from_bits);
                    let next = match unread {
                        None => next.map(|node| Siblings { node, last: last.or(previous), unread }),
                        Some(_) => previous.map(|node| Siblings { node, last, unread }),
                    };
                    (next, child)
                }
                Err(error) => {
                    result = result.and(Err(error));
                    // The siblings after it are found from the last one, if that is known.
                    let last = last.filter(|_| unread.is_none());
                    (last.map(|last| Siblings { node: last, last: None, unread: Some(node) }), None)
                }
            };
            left.extend(next.filter(|next| next.unread != Some(next.node)));
            left.extend(child.map(Siblings::from_first));
        }
        result
    }
}

/// Siblings to be freed.
struct Siblings {
    node: Handle,
    /// The last of them, known once the first one has been read.
    last: Option<Handle>,
    /// They are visited backwards, up to this one.
    unread: Option<Handle>,
}

impl Siblings {
    fn from_first(node: Handle) -> Self {
        Siblings { node, last: None, unread: None }
    }
}

impl<T: Plain + Copy> Drop for Tree<'_, T> {
    fn drop(&mut self) {
        // A node that can't be read is damaged: the heap has reported that to the reader.
        let _ = self.clear();
    }
}
