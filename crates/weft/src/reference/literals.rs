//! Packing literals: the sixteen common ones take half a byte.

use crate::format::{SAMPLES, class};

/// One in so many literals must be saved, or packing them is not worth the decoder's time.
const LEAST_SAVED: usize = 16;
/// Fewer literals are not packed.
const LEAST: usize = 96;

/// The literal of each class that is most frequent in a sample; among equals the lowest.
pub(super) fn table(literals: &[u8]) -> [u8; 16] {
    let step = literals.len() / SAMPLES + 1;
    let mut counts = [0u8; 256];
    // In pairs, so that a vector unit can count two at a time.
    for pair in literals.chunks_exact(2 * step).map(|pair| [pair[0], pair[step]]) {
        pair.into_iter().for_each(|literal| counts[usize::from(literal)] += 1);
    }
    let rest = literals.chunks_exact(2 * step).remainder();
    if let Some(&last) = rest.get(step) {
        counts[usize::from(rest[0])] += 1;
        counts[usize::from(last)] += 1;
    }
    let mut table = [0; 16];
    let mut most = [0; 16];
    for literal in 0..=255 {
        let of = usize::from(class(literal));
        if counts[usize::from(literal)] > most[of] {
            (table[of], most[of]) = (literal, counts[usize::from(literal)]);
        }
    }
    table
}

/// Whether a literal is the common one of its class.
pub(super) fn is_common(table: &[u8; 16], literal: u8) -> bool {
    table[usize::from(class(literal))] == literal
}

/// Whether packing is worth it, for this many literals and common ones.
pub(crate) fn is_worth(literals: usize, common: usize) -> bool {
    literals > LEAST && 17 + literals / 8 + literals / LEAST_SAVED < common / 2
}
