//! Small steps that both directions use.

use super::half::Half;
use super::kernel;
use super::wide::Wide;
use crate::format::{FROM_ZERO, HIGHS, MASKS};

/// Controls of `pshufb`, by mask: `spread` moves packed bytes to the places of the set bits and zeroes the
/// others; `gather` packs the bytes at the places of the set bits.
struct Controls {
    spread: [u64; 256],
    gather: [u64; 256],
    /// The same for the upper half of a register.
    spread_high: [u64; 256],
    gather_high: [u64; 256],
}

static CONTROLS: Controls = {
    let mut made =
        Controls { spread: [0; 256], gather: [0; 256], spread_high: [0; 256], gather_high: [0; 256] };
    let mut mask = 0;
    while mask < 256 {
        let (mut spread, mut gather) = ([0x80u8; 8], [0xffu8; 8]);
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if mask >> place & 1 != 0 {
                spread[place] = count as u8;
                gather[count] = place as u8;
                count += 1;
            }
            place += 1;
        }
        made.spread[mask] = u64::from_le_bytes(spread);
        made.gather[mask] = u64::from_le_bytes(gather);
        // Places from 8 on, where there is one; negative bytes stay so.
        const EIGHT: u64 = 0x0808_0808_0808_0808;
        made.spread_high[mask] = made.spread[mask] | EIGHT;
        made.gather_high[mask] = made.gather[mask] | EIGHT;
        mask += 1;
    }
    made
};

/// The masks of 32 codes.
#[inline]
#[kernel]
pub fn masks_of(codes: Wide) -> Wide {
    Wide::twice(&MASKS).shuffle(codes)
}

/// 0xff for those of 32 codes that start from zero, else 0.
#[inline]
#[kernel]
pub fn from_zero(codes: Wide) -> Wide {
    const TABLE: [u8; 16] = {
        let mut table = [0; 16];
        let mut code = 0;
        while code < 16 {
            table[code] = if FROM_ZERO >> code & 1 != 0 { 0xff } else { 0 };
            code += 1;
        }
        table
    };
    Wide::twice(&TABLE).shuffle(codes)
}

/// The classes of 32 literals.
#[inline]
#[kernel]
pub fn classes(literals: Wide) -> Wide {
    let highs = Wide::twice(&HIGHS).shuffle(literals.shr16::<4>().and(Wide::all(15)));
    literals.xor(highs).and(Wide::all(15))
}

/// The common literals of 32 classes.
#[inline]
#[kernel]
pub fn literals_of(table: &[u8; 16], classes: Wide) -> Wide {
    Wide::twice(table).shuffle(classes)
}

/// How many bits of each byte are set.
#[inline]
#[kernel]
pub fn ones(bytes: Wide) -> Wide {
    const TABLE: [u8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];
    let table = Wide::twice(&TABLE);
    let low = bytes.and(Wide::all(15));
    let high = bytes.shr16::<4>().and(Wide::all(15));
    table.shuffle(low).add(table.shuffle(high))
}

/// The sum of four lanes of 64 bits.
#[inline]
#[kernel]
pub fn sum(lanes: Wide) -> usize {
    let [one, other] = lanes.low().add64(lanes.high()).words();
    (one + other) as usize
}

/// # Safety
/// Eight bytes can be read from `from`.
#[inline(always)]
pub unsafe fn word(from: *const u8) -> u64 {
    // SAFETY: the caller upholds the contract.
    unsafe { from.cast::<u64>().read_unaligned() }
}

/// # Safety
/// Eight bytes can be written to `to`.
#[inline(always)]
pub unsafe fn set_word(to: *mut u8, word: u64) {
    // SAFETY: the caller upholds the contract.
    unsafe { to.cast::<u64>().write_unaligned(word) }
}

/// Packs the bytes of the low half at the places of the set bits of `mask`.
#[inline]
#[kernel]
pub fn gather(bytes: Half, mask: u8) -> Half {
    // SAFETY: the table has an entry for each mask.
    bytes.shuffle(unsafe { Half::load8(CONTROLS.gather.as_ptr().add(mask.into()).cast()) })
}

/// Spreads packed bytes to the places of the set bits of `mask`; other places become zero.
#[inline]
#[kernel]
pub fn spread(bytes: Half, mask: u8) -> Half {
    bytes.shuffle(spread_control(mask))
}

/// The control by which `pshufb` spreads; its bytes are negative where the result is zero.
#[inline]
#[kernel]
pub fn spread_control(mask: u8) -> Half {
    // SAFETY: the table has an entry for each mask.
    unsafe { Half::load8(CONTROLS.spread.as_ptr().add(mask.into()).cast()) }
}

/// Byte k: the sum of the bytes 0 to k of `counts`, which is below 256.
#[inline(always)]
pub fn sums(counts: u64) -> u64 {
    counts.wrapping_mul(0x0101_0101_0101_0101)
}

/// Of a line and the 64 bytes at `other`, a bit for each byte: whether they are equal.
///
/// # Safety
/// 64 bytes can be read from `other`.
#[inline]
#[kernel]
pub unsafe fn equal(line: (Wide, Wide), other: *const u8) -> u64 {
    // SAFETY: the caller upholds the contract.
    let other = unsafe { (Wide::load(other), Wide::load(other.add(32))) };
    u64::from(line.0.equal(other.0).signs()) | u64::from(line.1.equal(other.1).signs()) << 32
}

/// Packs `count` values below 16, two in a byte.
///
/// # Safety
/// `values` has at least `SLACK` bytes more than `count`, and `to` as many more than half of it.
#[inline]
#[kernel]
pub unsafe fn pack_halves(values: *mut u8, count: usize, to: *mut u8) {
    // SAFETY: within the slack.
    unsafe { values.add(count).write(0) };
    for at in (0..count).step_by(32) {
        // SAFETY: the caller upholds the contract.
        unsafe { Wide::load(values.add(at)).pack_pairs().store(to.add(at / 2)) };
    }
}

/// Unpacks 32 values below 16.
///
/// # Safety
/// 16 bytes can be read from `from`.
#[inline]
#[kernel]
pub unsafe fn unpack_halves(from: *const u8) -> Wide {
    // SAFETY: the caller upholds the contract.
    let wide = Wide::widen16(unsafe { Half::load(from) });
    wide.or(wide.shl16::<4>()).and(Wide::all(15))
}

/// Appends `count` bytes and returns the place behind them.
///
/// # Safety
/// They can be read from `from`, and written to `to`.
#[inline(always)]
pub unsafe fn put(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller upholds the contract.
    unsafe {
        to.copy_from_nonoverlapping(from, count);
        to.add(count)
    }
}

/// The masks of 32 words: those of their codes, or the next ones at `own`.
///
/// # Safety
/// Eight bytes can be read behind those.
#[inline]
#[kernel]
pub unsafe fn own_masks(code: Wide, own: &mut *const u8) -> Wide {
    let has_own = Wide::all(2).greater(code).signs();
    let mut four = [Half::zeros(); 4];
    for (number, eight) in four.iter_mut().enumerate() {
        let has_own = (has_own >> (8 * number)) as u8;
        // SAFETY: the caller upholds the contract.
        unsafe {
            *eight = spread(Half::load8(*own), has_own);
            *own = own.add(has_own.count_ones() as usize);
        }
    }
    let [one, two, three, last] = four;
    masks_of(code).or(Wide::join(one.zip64(two), three.zip64(last)))
}

/// As `gather`, for two words.
#[inline]
#[kernel]
pub fn gather_two(words: Half, low: u8, high: u8) -> Half {
    // SAFETY: the table has an entry for each mask.
    let controls = unsafe {
        let low = Half::load8(CONTROLS.gather.as_ptr().add(low.into()).cast());
        low.zip64(Half::load8(CONTROLS.gather_high.as_ptr().add(high.into()).cast()))
    };
    words.shuffle(controls)
}

/// As `spread`, for two words.
#[inline]
#[kernel]
pub fn spread_two(bytes: Half, low: u8, high: u8) -> Half {
    // SAFETY: as above.
    let controls = unsafe {
        let low = Half::load8(CONTROLS.spread.as_ptr().add(low.into()).cast());
        low.zip64(Half::load8(CONTROLS.spread_high.as_ptr().add(high.into()).cast()))
    };
    bytes.shuffle(controls)
}
