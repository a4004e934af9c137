//! Constant tables: how bytes and 16-bit lanes are spread and gathered by a
//! mask, and how a short distance repeats.
//!
//! An entry is a control for a byte shuffle: an index, or [`NONE`] for a byte
//! that becomes zero, which is also how x86's `pshufb` reads it.

/// A control byte for "nothing comes here".
pub(super) const NONE: u8 = 0x80;

/// `SPREAD[m][j]`: which byte of a dense row goes to place `j`, if bit `j` of
/// `m` is set.
pub(super) static SPREAD: [[u8; 8]; 256] = {
    let mut table = [[NONE; 8]; 256];
    let mut m = 0;
    while m < 256 {
        let (mut j, mut rank) = (0, 0);
        while j < 8 {
            if m >> j & 1 == 1 {
                table[m][j] = rank;
                rank += 1;
            }
            j += 1;
        }
        m += 1;
    }
    table
};

/// `GATHER[m][r]`: the place of the `r`-th set bit of `m`.
pub(super) static GATHER: [[u8; 8]; 256] = {
    let mut table = [[NONE; 8]; 256];
    let mut m = 0;
    while m < 256 {
        let (mut j, mut rank) = (0, 0);
        while j < 8 {
            if m >> j & 1 == 1 {
                table[m][rank] = j;
                rank += 1;
            }
            j += 1;
        }
        m += 1;
    }
    table
};

/// [`SPREAD`] for four lanes of 16 bits.
pub(super) static SPREAD_LANES: [[u8; 8]; 16] = lanes(true);

/// [`GATHER`] for four lanes of 16 bits.
pub(super) static GATHER_LANES: [[u8; 8]; 16] = lanes(false);

const fn lanes(spread: bool) -> [[u8; 8]; 16] {
    let mut table = [[NONE; 8]; 16];
    let mut m = 0;
    while m < 16 {
        let (mut j, mut rank) = (0, 0);
        while j < 4 {
            if m >> j & 1 == 1 {
                let (to, from) = if spread { (j, rank) } else { (rank, j) };
                table[m][2 * to] = 2 * from as u8;
                table[m][2 * to + 1] = 2 * from as u8 + 1;
                rank += 1;
            }
            j += 1;
        }
        m += 1;
    }
    table
}

/// `PERIOD[d][j]` is `j % d`: where, from `d` bytes before a granule on, the
/// reference of its byte `j` lies. The last row serves all longer distances.
pub(super) static PERIOD: [[u8; 32]; 33] = {
    let mut table = [[0; 32]; 33];
    let mut d = 1;
    while d <= 32 {
        let mut j = 0;
        while j < 32 {
            table[d][j] = (j % d) as u8;
            j += 1;
        }
        d += 1;
    }
    table
};
