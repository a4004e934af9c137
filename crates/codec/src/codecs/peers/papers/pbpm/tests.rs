//! Blocks worked out by hand, word by word and byte by byte.

use super::*;
use crate::{Codec, Compressed};
use std::vec;
use std::vec::Vec;

/// Nine words, one or two of each pattern, and a tail. The third byte of the
/// longer words, 0x34, belongs to set 6 with indices 12 and 13; 0x00 to set 2.
const WORDS: [u32; 9] = [
    0x0000_0000, // zzzz
    0x0000_002A, // zzzx             2A
    0x0033_0011, // zxzx             11 33
    0x1234_5678, // xxxx             78 56 34 12, becomes 12
    0x1234_5678, // mmmm  12
    0x1234_5699, // mmmx  12         99, becomes 13
    0x1234_AABB, // mmxx  13         BB AA, becomes 12
    0x1234_5678, // mmmx  13         78, since 12 was replaced; becomes 13
    0x0000_1234, // mmxx   4         34 12, of the zeros it starts with
];
const TAIL: [u8; 3] = [0xE1, 0xE2, 0xE3];

/// 00 11 11 01 | 10 11 11 11 | 11 and padding 01, packed down the columns.
const CODES: [u8; 4] = [0b01_11_10_00, 0b01_01_11_11, 0b01_01_11_11, 0b01_01_11_01];
/// 00 11 10 01 | 10 01
const SECOND: [u8; 4] = [0b10_00, 0b01_11, 0b10, 0b01];
/// 12 12 13 13 | 4
const INDICES: [u8; 4] = [0x4C, 0x0C, 0x0D, 0x0D];

fn check(codec: &dyn Codec, parts: &[&[u8]]) {
    let block: Vec<u8> = WORDS.iter().flat_map(|word| word.to_le_bytes()).chain(TAIL).collect();
    let wanted = parts.concat();
    let mut memory = crate::ScratchBuf::for_codecs([codec], block.len());
    let mut dst = vec![0; codec.bound(block.len())];
    let size = codec.compress(&block, &mut dst, usize::MAX, &mut memory.scratch());
    assert_eq!(size, Compressed::Fits(wanted.len()), "{codec:?}");
    assert_eq!(dst[..wanted.len()], wanted, "{codec:?}");
    let mut again = vec![0; block.len()];
    codec.decompress(&wanted, &mut again, &mut memory.scratch()).unwrap();
    assert_eq!(again, block, "{codec:?}");
}

#[test]
fn one_tape() {
    let data = [0x2A, 0x11, 0x33, 0x78, 0x56, 0x34, 0x12, 0x99, 0xBB, 0xAA, 0x78, 0x34, 0x12];
    check(&PBPM, &[&CODES, &SECOND, &data, &INDICES, &TAIL]);
}

#[test]
fn a_tape_for_each_size() {
    let four = [0x78, 0x56, 0x34, 0x12];
    let two = [0x11, 0x33, 0xBB, 0xAA, 0x34, 0x12];
    let one = [0x2A, 0x99, 0x78];
    check(&PBPM_TAPES, &[&CODES, &SECOND, &four, &INDICES, &two, &one, &TAIL]);
}

#[test]
fn a_tape_of_words() {
    let bytes = [0x2A, 0x99, 0x78, 0x00];
    let pairs = [[0x11, 0x33, 0xBB, 0xAA], [0x34, 0x12, 0x00, 0x00]];
    let word = [0x78, 0x56, 0x34, 0x12];
    check(&PBPM_WORD, &[&CODES, &SECOND, &bytes, &pairs[0], &word, &pairs[1], &INDICES, &TAIL]);
}

/// The sizes of Table I, in bits: how much one more word of a pattern adds.
#[test]
fn words_take_the_sizes_of_the_papers_table() {
    // 16 words of each fill whole groups of codes and indices.
    let unique = |i: u32| 0x8001_0000 + i * 0x0107_2903;
    let table: [(u32, [u32; 16]); 5] = [
        (2, [0; 16]),
        (12, core::array::from_fn(|i| i as u32 + 1)),
        (20, core::array::from_fn(|i| (i as u32 + 1) << 16 | 7)),
        (34, core::array::from_fn(|i| unique(i as u32))),
        (6, [unique(15); 16]),
    ];
    for (bits, words) in table {
        let before: Vec<u32> = (0..16).map(unique).collect();
        let size = |words: &[u32]| {
            let block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut memory = crate::ScratchBuf::for_codecs([&PBPM as &dyn Codec], block.len());
            let mut dst = vec![0; PBPM.bound(block.len())];
            match PBPM.compress(&block, &mut dst, usize::MAX, &mut memory.scratch()) {
                Compressed::Fits(size) => size as u32,
                Compressed::Incompressible => panic!("without a threshold"),
            }
        };
        let alone = if bits == 34 { 0 } else { size(&before) };
        let with = if bits == 34 { words.to_vec() } else { [&before[..], &words].concat() };
        assert_eq!(8 * (size(&with) - alone), 16 * bits, "{words:x?}");
    }
}
