//! Blocks that are one 64-bit word repeated.
//!
//! Many pages of a program are zero or repeat another word. They need no codec and no space in a store. The
//! test must cost next to nothing on all other blocks, so it compares the first two words, then proceeds in
//! steps of four cache lines and stops after the first step that differs. A step is a loop without branches,
//! which compiles to vector instructions on every processor.

/// Bytes compared in one step.
const STEP: usize = 256;

/// The word that `block` repeats, if it does: the first eight bytes, read as little endian. If the length is
/// not a multiple of eight, the last word is truncated. A block of fewer than eight bytes is never
/// same-filled.
///
/// ```
/// # use memfold_codec::same_filled;
/// assert_eq!(same_filled(&[0; 4096]), Some(0));
/// assert_eq!(same_filled(b"abcdefghabcdefghabc"), Some(u64::from_le_bytes(*b"abcdefgh")));
/// assert_eq!(same_filled(b"abcdefghabcdefghabd"), None);
/// ```
#[inline]
pub fn same_filled(block: &[u8]) -> Option<u64> {
    let (first, rest) = block.split_first_chunk::<8>()?;
    // Nearly all blocks that are not same-filled differ here already.
    if let Some((second, _)) = rest.split_first_chunk::<8>()
        && first != second
    {
        return None;
    }
    repeats(block, u64::from_ne_bytes(*first)).then(|| u64::from_le_bytes(*first))
}

/// Whether `block` consists of `word`, in memory order, over and over.
fn repeats(block: &[u8], word: u64) -> bool {
    let bytes = word.to_ne_bytes();
    let mut steps = block.chunks_exact(STEP);
    for step in &mut steps {
        let mut different = 0;
        for other in step.chunks_exact(8) {
            different |= u64::from_ne_bytes(other.try_into().expect("eight bytes")) ^ word;
        }
        if different != 0 {
            return false;
        }
    }
    steps.remainder().chunks(8).all(|piece| piece == &bytes[..piece.len()])
}

/// Restores a same-filled block: the inverse of [`same_filled`].
#[inline]
pub fn fill(dst: &mut [u8], word: u64) {
    let bytes = word.to_le_bytes();
    if bytes == [bytes[0]; 8] {
        dst.fill(bytes[0]);
        return;
    }
    let mut words = dst.chunks_exact_mut(8);
    for to in &mut words {
        to.copy_from_slice(&bytes);
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&bytes[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const WORDS: [u64; 6] = [0, u64::MAX, 1, 1 << 63, 0x0123_4567_89AB_CDEF, 0x7F7F_7F7F_7F7F_7F7F];

    fn lengths() -> impl Iterator<Item = usize> {
        (8..600).chain([1023, 1024, 1025, 4095, 4096, 4097, 65536, 512 << 10])
    }

    /// A same-filled block by the module's definition, as plainly as possible.
    fn naive(word: u64, len: usize) -> Vec<u8> {
        word.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    #[test]
    fn filled_blocks_are_found_and_made_again() {
        for word in WORDS {
            for len in lengths() {
                let block = naive(word, len);
                assert_eq!(same_filled(&block), Some(word), "{word:#x} {len}");
                let mut made = std::vec![0xA5; len];
                fill(&mut made, word);
                assert!(made == block, "{word:#x} {len}");
            }
        }
    }

    #[test]
    fn a_single_different_byte_is_detected() {
        for word in WORDS {
            for len in [16, 17, 255, 256, 257, 300, 512, 513, 4096, 4099] {
                let mut block = naive(word, len);
                for at in 0..len {
                    for bit in [0x01, 0x80] {
                        block[at] ^= bit;
                        // If the first word was changed, the block could be same-filled with the changed word
                        // only if nothing else followed it, which is impossible from 16 bytes on.
                        assert_eq!(same_filled(&block), None, "{word:#x} {len} {at}");
                        block[at] ^= bit;
                    }
                }
            }
        }
    }

    #[test]
    fn less_than_a_word_is_not_same_filled() {
        for len in 0..8 {
            assert_eq!(same_filled(&[0; 8][..len]), None);
        }
        assert_eq!(same_filled(&[1, 2, 3, 4, 5, 6, 7, 8]), Some(0x0807_0605_0403_0201));
    }

    #[test]
    fn fill_takes_any_length() {
        for len in 0..40 {
            let mut made = std::vec![0xA5; len];
            fill(&mut made, 0x0123_4567_89AB_CDEF);
            assert_eq!(made, naive(0x0123_4567_89AB_CDEF, len));
        }
    }
}
