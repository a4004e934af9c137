//! The most frequent symbols and literals of a segment.

use super::Effort;
use super::format::{COMMON, ESCAPE};
use super::kernels::Kernels;

/// Up to fifteen symbols.
pub(super) struct Table {
    list: [u16; ESCAPE as usize],
    len: usize,
}

impl Table {
    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[u16] {
        &self.list[..self.len]
    }
}

/// The symbols of `row`, all below 512, that occur twice or more, at most fifteen, the most frequent first.
#[inline(always)]
pub(super) fn most_frequent(row: &[u16]) -> Table {
    let mut counts = [0_u16; 512];
    // Symbols in the order of their second occurrence.
    let (mut twice, mut found) = ([0_u16; 513], 0);
    for &symbol in row {
        let symbol = symbol & 511;
        let count = &mut counts[usize::from(symbol)];
        twice[found] = symbol;
        found += usize::from(*count == 1);
        *count += 1;
    }
    let mut best = [0_u32; ESCAPE as usize];
    let mut len = 0;
    for &symbol in &twice[..found] {
        let key = u32::from(counts[usize::from(symbol)]) << 16 | u32::from(!symbol);
        if key <= best[best.len() - 1] {
            continue;
        }
        let mut to = len.min(best.len() - 1);
        len = (len + 1).min(best.len());
        while to > 0 && best[to - 1] < key {
            best[to] = best[to - 1];
            to -= 1;
        }
        best[to] = key;
    }
    Table { list: best.map(|key| !(key as u16)), len }
}

/// The sixteen most frequent of `literals`, if short codes for them seem to pay as much as the effort
/// demands.
#[inline(always)]
pub(super) fn common(kernels: impl Kernels, literals: &[u8], effort: &Effort) -> Option<[u8; COMMON]> {
    let every = effort.count_every;
    if literals.len() < 64 {
        return None;
    }
    // Two rows of counters: in a run of equal literals, consecutive increments then do not wait for each
    // other.
    let mut rows = [[0_u16; 256]; 2];
    let mut counted = 0;
    for pair in literals.chunks_exact(2 * every) {
        rows[0][usize::from(pair[0])] += 1;
        rows[1][usize::from(pair[every])] += 1;
        counted += 2;
    }
    let counts: [u16; 256] = core::array::from_fn(|i| rows[0][i] + rows[1][i]);
    let best = kernels.common(&counts, counted);
    let covered: usize = best.iter().map(|&literal| usize::from(counts[usize::from(literal)])).sum();
    // Each common literal saves half a byte; the cost is one bit for each literal, and the table.
    let saved = literals.len() * covered / counted / 2;
    (saved > literals.len() / effort.packing_saves + COMMON).then_some(best)
}
