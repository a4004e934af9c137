//! The memory in which encoders and decoders work.

use crate::dense;
use crate::format::{LINES, MOST_BYTES, MOST_WORDS, PIECE, WORDS};

/// Entries of the table of hashes in the largest units.
pub(crate) const MOST_HASHES: usize = 1 << 12;
/// Bytes that vector units may read or write beyond the end of a row.
pub(crate) const SLACK: usize = 64;

/// Working memory for one unit at a time, of any size; its content does not matter. It is large (214 KiB), so
/// keep one for each thread. Small units touch only the beginning of each row.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Scratch {
    pub(crate) working: Working,
    /// A copy of a unit whose last piece is short, because the kernels read and write whole pieces. Before
    /// compression that piece is filled up with zeros.
    pub(crate) filled_up: [u8; MOST_BYTES],
}

/// What the implementations use.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Working {
    /// Where each hash was seen last: the low 16 bits of the hash, and the number of the word.
    pub(crate) hashes: [u32; MOST_HASHES],
    /// The codes of all words so far, after as many that stand for the words before the unit.
    pub(crate) codes: [u8; 2 * MOST_WORDS],
    pub(crate) piece: Rows,
    pub(crate) dense: dense::Rows,
}

/// What belongs to one piece.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Rows {
    /// For each word: which bytes differ from zero, and which from the reference.
    pub not_zero: [u8; WORDS],
    pub not_reference: [u8; WORDS],
    /// For each word: the mask of its literals, and how many they are.
    pub masks: [u8; WORDS],
    pub counts: [u8; WORDS],
    /// The masks that are stored.
    pub own: [u8; WORDS + SLACK],
    /// The codes that are stored: one in a byte, then two.
    pub codes: [u8; WORDS + SLACK],
    pub halves: [u8; WORDS / 2 + SLACK],
    /// For each line: which codes are stored.
    pub flags: [u8; LINES],
    /// The distances that are stored.
    pub distances: [u8; 2 * LINES + SLACK],
    /// For each line: how far back its codes are predicted from, or its distance.
    pub back: [u16; LINES],
    /// For each line: its distance.
    pub chosen: [u16; LINES],
    /// For each line: distances to try.
    pub tries: [[u16; LINES]; 3],
    /// The hashes of eight lines and where they were seen last.
    pub now: [u32; LINES],
    pub last: [u32; LINES],
    /// The literals.
    pub literals: [u8; PIECE + SLACK],
    /// The classes of common literals, or these literals.
    pub common: [u8; PIECE + SLACK],
    /// The literals that are not common.
    pub others: [u8; PIECE + SLACK],
    /// For each literal, a bit: whether it is common.
    pub bits: [u8; PIECE / 8 + SLACK],
    /// Two classes in a byte; or the form of a piece, copied so that there is something behind it.
    pub form: [u8; MOST_FORM + SLACK],
}

/// The most bytes that the form of a piece has: head, bits, distances, flags, codes, masks, and literals that
/// are all packed in vain.
pub(crate) const MOST_FORM: usize = 1 + 16 + 2 * LINES + LINES + WORDS / 2 + WORDS + 16 + PIECE / 8 + PIECE;

impl Scratch {
    /// New working memory.
    pub const fn new() -> Self {
        Scratch { working: Working::new(), filled_up: [0; MOST_BYTES] }
    }
}

impl Working {
    const fn new() -> Self {
        Working {
            hashes: [0; MOST_HASHES],
            codes: [0; 2 * MOST_WORDS],
            piece: Rows {
                not_zero: [0; WORDS],
                not_reference: [0; WORDS],
                masks: [0; WORDS],
                counts: [0; WORDS],
                own: [0; WORDS + SLACK],
                codes: [0; WORDS + SLACK],
                halves: [0; WORDS / 2 + SLACK],
                flags: [0; LINES],
                distances: [0; 2 * LINES + SLACK],
                back: [0; LINES],
                chosen: [0; LINES],
                tries: [[0; LINES]; 3],
                now: [0; LINES],
                last: [0; LINES],
                literals: [0; PIECE + SLACK],
                common: [0; PIECE + SLACK],
                others: [0; PIECE + SLACK],
                bits: [0; PIECE / 8 + SLACK],
                form: [0; MOST_FORM + SLACK],
            },
            dense: dense::Rows::new(),
        }
    }
}

impl Scratch {
    /// Working memory in bytes that the caller has; `None` if they are too few or not aligned to 64.
    pub fn within(bytes: &mut [u8]) -> Option<&mut Scratch> {
        let place = bytes.as_mut_ptr().cast::<Scratch>();
        // SAFETY: initialised bytes, enough of them, aligned and borrowed for as long. A scratch consists of
        // numbers for which any content is valid.
        (bytes.len() >= size_of::<Scratch>() && place.is_aligned()).then(|| unsafe { &mut *place })
    }
}

impl Scratch {
    /// Runs `f` with the unit, its last piece filled up with zeros, and its length before that.
    pub(crate) fn filled_up<R>(&mut self, unit: &[u8], f: impl FnOnce(&[u8], usize, &mut Working) -> R) -> R {
        let (len, whole) = (unit.len(), unit.len().next_multiple_of(PIECE));
        if len == whole {
            return f(unit, len, &mut self.working);
        }
        self.filled_up[..len].copy_from_slice(unit);
        self.filled_up[len..whole].fill(0);
        f(&self.filled_up[..whole], len, &mut self.working)
    }

    /// Runs `f` with room for the unit, for its last piece as for a whole one, and with its length.
    pub(crate) fn with_room<E>(
        &mut self,
        unit: &mut [u8],
        f: impl FnOnce(&mut [u8], usize, &mut Working) -> Result<(), E>,
    ) -> Result<(), E> {
        let (len, whole) = (unit.len(), unit.len().next_multiple_of(PIECE));
        if len == whole {
            return f(unit, len, &mut self.working);
        }
        f(&mut self.filled_up[..whole], len, &mut self.working)?;
        unit.copy_from_slice(&self.filled_up[..len]);
        Ok(())
    }
}

#[cfg(feature = "training")]
impl Scratch {
    /// How often each symbol of each family occurred in pieces that [`reference`](crate::reference) compressed
    /// with [`Effort::Dense`](crate::Effort::Dense) since the last call.
    pub fn take_counts(&mut self) -> [[u32; 256]; 9] {
        core::mem::replace(&mut self.working.dense.counts, [[0; 256]; 9])
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
