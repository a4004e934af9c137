//! Compressing with a library that requires room for the worst case.

use crate::Compressed;

/// Compresses with a library that requires room for the worst case: into `dst` if it has that (`room` is not
/// less than `bound`), otherwise into `staging`, and from there. `work` returns the size, or `None` if the
/// block is too large for it.
pub(crate) fn staged(
    dst: &mut [u8],
    staging: &mut [u8],
    (room, bound, threshold): (usize, usize, usize),
    work: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Compressed {
    let direct = room >= bound;
    let to = if direct { &mut dst[..bound] } else { &mut staging[..bound] };
    match work(to) {
        Some(size) if size <= threshold => {
            if !direct {
                dst[..size].copy_from_slice(&staging[..size]);
            }
            Compressed::Fits(size)
        }
        _ => Compressed::Incompressible,
    }
}
