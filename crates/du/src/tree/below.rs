//! Walks the directories of a subtree and reports each before and after its subdirectories; without
//! recursion, and with only a part of a wide directory in memory.

use super::Contents;
use crate::Error;
use crate::entry::Kind;
use crate::part::{MOST, Reader};
use crate::source::Source;

struct Level {
    number: u32,
    contents: Contents,
    part: usize,
    /// Directories of the parts read so far and their slots, the next one last.
    next: Vec<(u32, u32)>,
}

/// A step on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A directory, before its subdirectories.
    Into(u32),
    /// A directory, after its subdirectories.
    OutOf(u32),
}

/// A walk through a subtree. Directories that the walk has left may be removed before the next step.
pub struct Below {
    start: Option<u32>,
    levels: Vec<Level>,
    /// How many levels to enter below the first directory.
    depth: u32,
    bytes: Vec<u8>,
}

impl Below {
    /// Begins with the directory itself.
    pub fn new(directory: u32) -> Self {
        Below { start: Some(directory), levels: Vec::new(), depth: u32::MAX, bytes: Vec::new() }
    }

    /// Leaves out directories more than this many levels below the first one.
    pub fn down_to(self, depth: u32) -> Self {
        Below { depth, ..self }
    }

    /// The next step.
    pub fn step(&mut self, source: &dyn Source) -> Result<Option<Step>, Error> {
        if let Some(number) = self.start.take() {
            return self.enter(source, number).map(Some);
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        while level.next.is_empty() && level.part < level.contents.parts() {
            source.part(level.contents, level.part, &mut self.bytes)?;
            let (mut entries, mut slot) = (Reader::new(&self.bytes)?, (level.part * MOST) as u32);
            while let Some(entry) = entries.read()? {
                if let Kind::Directory(number) = entry.kind {
                    level.next.push((number, slot));
                }
                slot += 1;
            }
            level.next.reverse();
            level.part += 1;
        }
        let number = level.number;
        match level.next.pop() {
            // Numbers grow on the way in, and each occurs in one place, so the walk ends even in a forged
            // file.
            Some((next, slot)) if next <= number || !source.is_at(next, number, slot)? => Err(Error::Damaged),
            Some((next, _)) => self.enter(source, next).map(Some),
            None => {
                self.levels.pop();
                Ok(Some(Step::OutOf(number)))
            }
        }
    }

    fn enter(&mut self, source: &dyn Source, number: u32) -> Result<Step, Error> {
        let is_last = self.levels.len() as u64 >= self.depth.into();
        let contents = if is_last { Contents::default() } else { source.row(number)?.contents() };
        self.levels.push(Level { number, contents, part: 0, next: Vec::new() });
        Ok(Step::Into(number))
    }
}
