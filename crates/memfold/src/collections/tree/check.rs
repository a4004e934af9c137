//! The invariants of a tree.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::{Edge, NodeId, Tree};
use crate::collections::links::bits;
use crate::heap::{Error, Handle, Plain};
use crate::room::push;

impl<T: Plain + Copy> Tree<'_, T> {
    /// Checks every node; returns the first contradiction. The check takes 16 bytes for each entry of a file
    /// that has several; without memory for them it fails.
    pub fn check(&self) -> Result<(), String> {
        if self.broken {
            return Err("an operation broke off, and could not be undone".into());
        }
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let mut count = 0u64;
        self.check_children(None)?;
        for edge in self.edges(None) {
            let Edge::Enter(node) = edge.map_err(|error| format!("behind entry {count}: {error}"))? else {
                continue;
            };
            self.check_children(Some(node))?;
            let links = self.links_of(node.0).map_err(|error| format!("entry {count}: {error}"))?;
            self.entry(node).map_err(|error| format!("entry {count}: {error}"))?;
            if let Some(same) = Handle::from_bits(links.same) {
                push(&mut from, node.0).and_then(|()| push(&mut to, same)).map_err(no_memory)?;
            }
            count += 1;
        }
        if count != self.len {
            return Err(format!("{count} entries, not {}", self.len));
        }
        check_rings(from, to)
    }

    /// Checks the links between an entry and its children.
    fn check_children(&self, of: Option<NodeId>) -> Result<(), String> {
        let of_error = |error: Error| format!("below {of:?}: {error}");
        let first = self.first_child(of).map_err(of_error)?;
        let (mut before, mut back) = (None, None);
        for child in self.children(of) {
            let child = child.map_err(of_error)?;
            let links = self.links_of(child.0).map_err(of_error)?;
            let leads_back = if first == Some(child) {
                back = Some(links.previous);
                true
            } else {
                links.previous == bits(before)
            };
            if !leads_back || links.parent != bits(of.map(|of| of.0)) {
                return Err(format!("{child:?} below {of:?} does not lead back"));
            }
            before = Some(child.0);
        }
        if back != before.map(Handle::to_bits) {
            return Err(format!("the first below {of:?} does not lead to the last"));
        }
        Ok(())
    }
}

/// Checks rings: each entry links to another one of the tree, and exactly one links to it.
fn check_rings(mut from: Vec<Handle>, mut to: Vec<Handle>) -> Result<(), String> {
    let is_alone = from.iter().zip(&to).any(|(node, same)| node == same);
    from.sort_unstable();
    to.sort_unstable();
    if from != to || is_alone {
        return Err("the entries of one file are in no ring".into());
    }
    Ok(())
}

/// The result of a check that has no memory.
fn no_memory(error: Error) -> String {
    format!("the tree can't be looked at: {error}")
}
