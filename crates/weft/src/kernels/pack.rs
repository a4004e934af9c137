//! Packing literals: the sixteen common ones take half a byte.

use super::half::Half;
use super::kernel;
use super::steps::*;
use super::wide::Wide;
use crate::format::{SAMPLES, class};
use crate::reference::is_worth;
use crate::scratch::Rows;

/// Packed literals.
pub(super) struct Packed {
    table: [u8; 16],
    pub(super) common: usize,
}

/// Pass 6: which literals are common; `None` if packing them is not worth it.
#[kernel]
pub(super) fn pack(rows: &mut Rows, literals: usize) -> Option<Packed> {
    if literals <= 96 {
        return None;
    }
    let table = table(&rows.literals[..literals]);
    let mut common = 0;
    for at in (0..literals).step_by(32) {
        // SAFETY: within the rows and their slack.
        unsafe {
            let bytes = Wide::load(rows.literals.as_ptr().add(at));
            let classes = classes(bytes);
            let mut is_common = bytes.equal(literals_of(&table, classes)).signs();
            if literals - at < 32 {
                is_common &= (1 << (literals - at)) - 1;
            }
            classes.store(rows.common.as_mut_ptr().add(at));
            rows.bits.as_mut_ptr().add(at / 8).cast::<u32>().write_unaligned(is_common);
            common += is_common.count_ones() as usize;
        }
    }
    is_worth(literals, common).then_some(Packed { table, common })
}

/// The most frequent literal of each class, from a sample.
#[kernel]
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
    let mut best = Half::zeros();
    let mut table = Half::zeros();
    let classes = Half::new(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    for high in 0..16u8 {
        // The low half of the literal of each class.
        let low = classes.xor(Half::all(class(high << 4)));
        // SAFETY: sixteen counts of each kind.
        let count = unsafe {
            let row = usize::from(high) * 16;
            Half::load(counts.0[0].as_ptr().add(row)).add(Half::load(counts.0[1].as_ptr().add(row)))
        };
        let count = count.shuffle(low);
        let most = best.max(count);
        let literal = low.or(Half::all(high << 4));
        table = literal.blend(table, most.equal(best));
        best = most;
    }
    let mut result = [0; 16];
    // SAFETY: sixteen bytes.
    unsafe { table.store(result.as_mut_ptr()) };
    result
}

/// Writes packed literals.
///
/// # Safety
/// There is room for all of them.
#[kernel]
pub(super) unsafe fn write_packed(rows: &mut Rows, literals: usize, packed: &Packed, to: *mut u8) -> *mut u8 {
    let (mut common, mut others) = (0, 0);
    for at in (0..literals).step_by(8) {
        // The last bits are zero, so bytes after the last literal count as not common, and are not written.
        let is_common = rows.bits[at / 8];
        // SAFETY: within the rows and their slack. Common classes are packed in place, never ahead of their
        // source.
        unsafe {
            let rest = gather(Half::load8(rows.literals.as_ptr().add(at)), !is_common);
            rest.store8(rows.others.as_mut_ptr().add(others));
            let classes = gather(Half::load8(rows.common.as_ptr().add(at)), is_common);
            classes.store8(rows.common.as_mut_ptr().add(common));
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
