//! Verifies that a block's image agrees with its record, before anything of an image from a file is used.
//!
//! The maker of the file may have forged the image. So everything is checked that addresses memory or could
//! make two nodes overlap. After that the image is as safe as one of our own:
//! - Headers lead from the first node's place to the end, so extents are adjacent and no two nodes overlap.
//! - A node starts exactly where a start says so; or where a live bit does, at a place where a node can be.
//! - The counts of live nodes, their bytes and free bytes are as recorded; free bytes are zero or will be
//!   zeroed.
//!
//! Checks may have any value: they only tell handles apart.

use std::sync::atomic::Ordering::*;

use crate::heap::block::layout::image::{Damaged, Image};
use crate::heap::block::layout::mixed::{self, Mixed};
use crate::heap::block::marks::Marks;
use crate::heap::block::table::Block;
use crate::heap::core::{Core, Shape};

/// Bits of a word of starts.
const WORD: usize = 64;

impl Core {
    /// See the module. The image has its starts, made or loaded.
    pub fn verify(&self, block: &Block, shape: Shape, image: Image, marks: Marks) -> Result<(), Damaged> {
        let live = block.live.load(Relaxed) as usize;
        let good = match shape {
            Shape::Mixed(mixed) => {
                check_starts(image, mixed, marks)?;
                let noted = (live, block.bytes.load(Relaxed) as usize, block.free.load(Relaxed) as usize);
                Mixed::new(image, mixed).check()? == noted
            }
            Shape::Equal(equal) => equal.block(image).check()? == live,
        };
        if good { Ok(()) } else { Err(Damaged) }
    }

    /// Retires a block that was found damaged, so that no node is put into it; the caller holds its lock.
    pub fn refuse(&self, number: u32, block: &Block) {
        block.retired.store(true, Relaxed);
        self.relist(number, block, None);
    }
}

/// Checks that starts are exactly where the nodes of a block of different sizes begin.
pub fn check_starts(image: Image, mixed: mixed::Shape, marks: Marks) -> Result<(), Damaged> {
    let words = mixed.total_units().div_ceil(WORD);
    let is = |word: usize, bits: u64| {
        let there = marks.starts().get64(word * 8)?;
        if there == bits { Ok(()) } else { Err(Damaged) }
    };
    let (mut word, mut bits) = (0, 0);
    for extent in Mixed::new(image, mixed).extents() {
        let extent = extent?;
        if extent.node.is_none() {
            continue;
        }
        let unit = usize::from(mixed.unit(extent.place));
        while word < unit / WORD {
            is(word, bits)?;
            (word, bits) = (word + 1, 0);
        }
        bits |= 1 << (unit % WORD);
    }
    while word < words {
        is(word, bits)?;
        (word, bits) = (word + 1, 0);
    }
    Ok(())
}
