//! Links between nodes: handles stored in nodes as eight bytes each, zero for none.
//!
//! Invariants: either all links of an operation are changed or none. A link is changed only if it has the
//! expected value, so a handle that has become another node's changes nothing.

use crate::heap::{Error, Handle, Session};

/// Bytes of a link.
pub const LINK: usize = size_of::<u64>();

/// A link to be changed.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The node that contains it.
    pub node: Handle,
    /// Its offset in the node.
    pub at: usize,
    /// Its expected value.
    pub from: u64,
    /// Its new value.
    pub to: u64,
}

/// A change of links that failed.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    /// The reason.
    pub error: Error,
    /// Whether all links are as they were; false if one was changed and could not be changed back afterwards.
    pub undone: bool,
}

/// The value of a link.
pub fn bits(link: Option<Handle>) -> u64 {
    link.map_or(0, Handle::to_bits)
}

/// Changes one link; [`Error::Stale`] if it does not have the expected value.
fn change(session: &Session<'_>, Link { node, at, from, to }: Link) -> Result<(), Error> {
    session
        .change_in_place(node, |bytes| {
            let Some(link) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else {
                return false;
            };
            let is_it = *link == from.to_ne_bytes();
            if is_it {
                *link = to.to_ne_bytes();
            }
            is_it
        })?
        .then_some(())
        .ok_or(Error::Stale)
}

/// Changes links number 0 to `count`, or none. If `link` returns none for a number, there is nothing to
/// change.
pub fn change_all(
    session: &Session<'_>,
    count: usize,
    link: impl Fn(usize) -> Option<Link>,
) -> Result<(), Failure> {
    for number in 0..count {
        if let Err(error) = link(number).map_or(Ok(()), |link| change(session, link)) {
            return Err(Failure { error, undone: undo(session, number, &link) });
        }
    }
    Ok(())
}

/// Changes links number 0 to `count` back; returns whether that succeeded for all.
pub fn undo(session: &Session<'_>, count: usize, link: impl Fn(usize) -> Option<Link>) -> bool {
    (0..count).rev().filter_map(link).all(|link| {
        let back = Link { from: link.to, to: link.from, ..link };
        change(session, back).is_ok()
    })
}

/// A few links that are changed together.
#[derive(Debug, Clone, Copy)]
pub struct Few {
    links: [Option<Link>; Few::MOST],
    count: usize,
}

impl Few {
    const MOST: usize = 8;

    /// No links yet.
    pub fn new() -> Self {
        Few { links: [None; Few::MOST], count: 0 }
    }

    /// Adds a link. There is room for eight, more than any operation needs.
    pub fn add(&mut self, node: Handle, at: usize, from: u64, to: u64) {
        debug_assert!(self.count < Few::MOST);
        if from != to
            && let Some(link) = self.links.get_mut(self.count)
        {
            *link = Some(Link { node, at, from, to });
            self.count += 1;
        }
    }

    fn links(&self) -> impl Fn(usize) -> Option<Link> + '_ {
        |number| self.links[number]
    }

    /// Changes all of them, or none.
    pub fn change(&self, session: &Session<'_>) -> Result<(), Failure> {
        change_all(session, self.count, self.links())
    }

    /// Changes all of them, and then calls `more`; if that fails, they are changed back.
    pub fn change_and(
        &self,
        session: &Session<'_>,
        more: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Failure> {
        self.change(session)?;
        more().map_err(|error| Failure { error, undone: self.undo(session) })
    }

    /// Changes all of them back; returns whether that succeeded.
    pub fn undo(&self, session: &Session<'_>) -> bool {
        undo(session, self.count, self.links())
    }
}
