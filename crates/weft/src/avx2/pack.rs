//! Packing literals: the sixteen common ones take half a byte.

use core::arch::x86_64::*;

use super::vector::*;
use crate::format::{SAMPLES, class};
use crate::reference::is_worth;
use crate::scratch::Rows;

/// Packed literals.
pub(super) struct Packed {
    table: [u8; 16],
    pub(super) common: usize,
}

/// Pass 6: which literals are common; `None` if packing them is not worth it.
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
pub(super) fn pack(rows: &mut Rows, literals: usize) -> Option<Packed> {
    if literals <= 96 {
        return None;
    }
    let table = table(&rows.literals[..literals]);
    let mut common = 0;
    for at in (0..literals).step_by(32) {
        // SAFETY: within the rows and their slack.
        unsafe {
            let bytes = load(rows.literals.as_ptr().add(at));
            let classes = classes(bytes);
            let mut is_common =
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, literals_of(&table, classes))) as u32;
            if literals - at < 32 {
                is_common &= (1 << (literals - at)) - 1;
            }
            store(rows.common.as_mut_ptr().add(at), classes);
            rows.bits.as_mut_ptr().add(at / 8).cast::<u32>().write_unaligned(is_common);
            common += is_common.count_ones() as usize;
        }
    }
    is_worth(literals, common).then_some(Packed { table, common })
}

/// The most frequent literal of each class, from a sample.
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn table(literals: &[u8]) -> [u8; 16] {
    #[repr(align(32))]
    struct Counts([[u8; 256]; 2]);
    let mut counts = Counts([[0; 256]; 2]);
    let step = literals.len() / SAMPLES + 1;
    let mut at = 0;
    while at + step < literals.len() {
        counts.0[0][usize::from(literals[at])] += 1;
        counts.0[1][usize::from(literals[at + step])] += 1;
        at += 2 * step;
    }
    let mut best = _mm_setzero_si128();
    let mut table = _mm_setzero_si128();
    let classes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for high in 0..16u8 {
        // The low half of the literal of each class.
        let low = _mm_xor_si128(classes, _mm_set1_epi8(class(high << 4) as i8));
        // SAFETY: sixteen counts of each kind.
        let count = unsafe {
            let row = usize::from(high) * 16;
            _mm_add_epi8(
                _mm_load_si128(counts.0[0].as_ptr().add(row).cast()),
                _mm_load_si128(counts.0[1].as_ptr().add(row).cast()),
            )
        };
        let count = _mm_shuffle_epi8(count, low);
        let most = _mm_max_epu8(best, count);
        let literal = _mm_or_si128(low, _mm_set1_epi8((high << 4) as i8));
        table = _mm_blendv_epi8(literal, table, _mm_cmpeq_epi8(most, best));
        best = most;
    }
    let mut result = [0; 16];
    // SAFETY: sixteen bytes.
    unsafe { _mm_storeu_si128(result.as_mut_ptr().cast(), table) };
    result
}

/// Writes packed literals.
///
/// # Safety
/// There is room for all of them.
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
pub(super) unsafe fn write_packed(rows: &mut Rows, literals: usize, packed: &Packed, to: *mut u8) -> *mut u8 {
    let (mut common, mut others) = (0, 0);
    for at in (0..literals).step_by(8) {
        // The last bits are zero, so bytes after the last literal count as not common, and are not written.
        let is_common = rows.bits[at / 8];
        // SAFETY: within the rows and their slack. Common classes are packed in place, never ahead of their
        // source.
        unsafe {
            let rest = gather(load8(rows.literals.as_ptr().add(at)), !is_common);
            store8(rows.others.as_mut_ptr().add(others), rest);
            let classes = gather(load8(rows.common.as_ptr().add(at)), is_common);
            store8(rows.common.as_mut_ptr().add(common), classes);
        }
        common += is_common.count_ones() as usize;
        others += 8 - is_common.count_ones() as usize;
    }
    // SAFETY: the caller upholds the contract. The form's row has room for all classes.
    unsafe {
        pack_halves(rows.common.as_mut_ptr(), common, rows.form.as_mut_ptr());
        let to = put(to, packed.table.as_ptr(), 16);
        let to = put(to, rows.bits.as_ptr(), literals.div_ceil(8));
        let to = put(to, rows.form.as_ptr(), common.div_ceil(2));
        put(to, rows.others.as_ptr(), literals - common)
    }
}
