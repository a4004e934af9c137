//! Whether a block's image is what the block's numbers say: before anything of an image that came from a file is used.
//!
//! Whoever made the file may have made the image, so all is looked at by which memory is found, or by which two nodes could lie one over the other. After that the image
//! is as good as one of our own:
//! - Headers lead from the first node's place to the end, so extents lie side by side and each node in its own.
//! - A node starts just where a start says so, or a live bit does and a node can be.
//! - Live nodes, their bytes and free bytes are as many as were noted; what is free is zero or will be wiped.
//!
//! Checks may be anything: they only tell handles apart.

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

    /// No node is put into a block that was found damaged; for who has its lock.
    pub fn refuse(&self, number: u32, block: &Block) {
        block.retired.store(true, Relaxed);
        self.relist(number, block, None);
    }
}

/// Whether starts are where the nodes of a block of different sizes begin, and nowhere else.
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
