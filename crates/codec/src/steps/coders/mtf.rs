//! `mtf`: move to front. Each byte is replaced by its position in a list of all bytes, and moves to the front
//! of the list. So recent bytes become small numbers. The list begins as 0 to 255.

use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The transform `mtf`.
pub(crate) struct MoveToFront;

const fn list() -> [u8; 256] {
    let mut list = [0; 256];
    let mut i = 0;
    while i < 256 {
        list[i] = i as u8;
        i += 1;
    }
    list
}

impl Step for MoveToFront {
    fn name(&self) -> &'static str {
        "mtf"
    }

    fn keeps_length(&self) -> bool {
        true
    }

    fn bound(&self, len: usize) -> usize {
        len
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Option<usize> {
        let mut list = list();
        for (&byte, to) in src.iter().zip(dst.get_mut(..src.len())?) {
            // All bytes before it move back by one during the search.
            let mut moved = byte;
            let mut place = 0_u8;
            loop {
                let there = core::mem::replace(&mut list[usize::from(place)], moved);
                if there == byte {
                    break;
                }
                moved = there;
                place = place.wrapping_add(1);
            }
            *to = place;
        }
        Some(src.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if src.len() != dst.len() {
            return Err(Malformed);
        }
        let mut list = list();
        for (&place, to) in src.iter().zip(dst) {
            let place = usize::from(place);
            let byte = list[place];
            list.copy_within(..place, 1);
            list[0] = byte;
            *to = byte;
        }
        Ok(())
    }
}
