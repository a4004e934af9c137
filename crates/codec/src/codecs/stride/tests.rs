//! All code paths produce the same bytes, and decode any input alike.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::{SETTINGS, Stride};
use crate::cpu::{self, Path};
use crate::{Codec, Compressed, MAX_BLOCK, Malformed, Scratch, ScratchBuf};

/// A small seeded generator (SplitMix64), so that failures are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The value that a field of this kind has in record number `record`.
fn field(kind: u64, record: u64, random: &mut Random) -> u64 {
    match kind % 8 {
        0 => 0,
        1 => 0x7F00_1234_0000 + (random.next() & 0xFFF8),
        2 => record,
        3 => random.next() & 3,
        4 => u64::from_le_bytes(*b"name of ") ^ (random.next() & 7),
        5 => random.next(),
        6 => (record as f64 * 0.1).to_bits(),
        _ => 0xFFFF_FFFF_0000_0000 | (random.next() & 0xFF),
    }
}

/// A block of records, some shifted, with zeros, noise and text among them.
fn structured(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut block = Vec::with_capacity(len + 8192);
    while block.len() < len {
        let kinds: Vec<u64> = (0..1 + random.below(12)).map(|_| random.next()).collect();
        let odd = [0, 0, 0, random.below(8)][random.below(4)];
        for record in 0..1 + random.below(60) as u64 {
            for &kind in &kinds {
                block.extend(field(kind, record, &mut random).to_le_bytes());
            }
            block.extend(&b"padding"[..odd.min(7)]);
        }
        match random.below(6) {
            0 => block.resize(block.len() + random.below(5000), 0),
            1 => block.extend((0..random.below(300)).map(|_| random.next() as u8)),
            2 => block.extend(b"{\"id\":17,\"city\":\"somewhere\"},".repeat(random.below(9))),
            _ => {}
        }
    }
    block.truncate(len);
    block
}

fn paths() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|&path| path <= cpu::best())
}

fn compress(codec: &Stride, path: Path, src: &[u8], scratch: &mut Scratch<'_>) -> Vec<u8> {
    // As in `decompress`.
    let size = codec.compress_scratch(src.len());
    // SAFETY: `take` returned that many bytes, and nothing else uses them.
    unsafe { scratch.take(size).write_bytes(0xA5, size) };
    let mut dst = vec![0xC5; codec.bound(src.len())];
    let Compressed::Fits(size) = codec.compress_on(path, src, &mut dst, scratch) else {
        panic!("{} does not fit into its own bound", codec.name());
    };
    dst.truncate(size);
    dst
}

fn decompress(
    codec: &Stride,
    path: Path,
    src: &[u8],
    len: usize,
    scratch: &mut Scratch<'_>,
) -> Result<Vec<u8>, Malformed> {
    // Nothing may depend on the previous content of the scratch.
    let size = codec.decompress_scratch(len);
    // SAFETY: `take` returned that many bytes, and nothing else uses them.
    unsafe { scratch.take(size).write_bytes(0xA5, size) };
    let mut dst = vec![0x5A; len];
    codec.decompress_on(path, src, &mut dst, scratch).map(|()| dst)
}

/// Checks that all settings and paths agree about `block`, and returns the forms.
#[track_caller]
fn agree(block: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for codec in &SETTINGS {
        let mut memory = ScratchBuf::for_codecs([codec as &dyn Codec], block.len());
        let mut scratch = memory.scratch();
        let form = compress(codec, Path::Scalar, block, &mut scratch);
        for path in paths() {
            let other = compress(codec, path, block, &mut scratch);
            assert!(other == form, "{} on {path:?} differs for {} bytes", codec.name(), block.len());
            let again = decompress(codec, path, &form, block.len(), &mut scratch);
            assert!(again.as_deref() == Ok(block), "{} on {path:?}, {} bytes", codec.name(), block.len());
        }
        forms.push(form);
    }
    forms
}

#[test]
fn paths_agree_at_every_short_length() {
    for len in 1..700 {
        agree(&structured(len, len as u64));
    }
}

#[test]
fn paths_agree_around_segments() {
    for len in [4032, 4064, 4088, 4095, 4096, 4097, 4127, 4128, 4160, 8191, 8192, 8200, 16384, 16385] {
        for seed in 0..20 {
            agree(&structured(len, seed));
        }
    }
}

#[test]
fn paths_agree_on_large_blocks() {
    for (seed, len) in
        [65535, 65536, 65537, 70_001, 131_072, MAX_BLOCK - 1, MAX_BLOCK].into_iter().enumerate()
    {
        agree(&structured(len, seed as u64));
    }
}

#[test]
fn records_shrink_and_noise_does_not_grow() {
    let mut random = Random(3);
    let noise: Vec<u8> = (0..4096).map(|_| random.next() as u8).collect();
    for form in agree(&noise) {
        assert_eq!(form.len(), 4097);
    }
    let mut records = Vec::new();
    for record in 0_u64..80 {
        for kind in [0, 1, 2, 3, 7, 0] {
            records.extend(field(kind, record, &mut random).to_le_bytes());
        }
        records.extend(b"odd");
    }
    for (form, codec) in agree(&records).iter().zip(&SETTINGS) {
        assert!(form.len() * 3 < records.len(), "{}: {}", codec.name(), form.len());
    }
}

/// For a damaged form, either all paths return an error or all decode it to the same bytes.
#[test]
fn paths_agree_on_damaged_forms() {
    let mut random = Random(8);
    for round in 0..300 {
        let len = [100, 4096, 4096, 4100, 5000][round % 5];
        let block = structured(len, round as u64);
        for (codec, form) in SETTINGS.iter().zip(agree(&block)) {
            let mut memory = ScratchBuf::for_codecs([codec as &dyn Codec], len);
            let mut scratch = memory.scratch();
            for _ in 0..40 {
                let mut damaged = form.clone();
                for _ in 0..=random.below(3) {
                    // Half of the time near the header, on which everything else depends.
                    let reach = if random.below(2) == 0 { damaged.len().min(40) } else { damaged.len() };
                    damaged[random.below(reach)] ^= 1 << random.below(8);
                }
                let wanted = decompress(codec, Path::Scalar, &damaged, len, &mut scratch);
                for path in paths() {
                    let came = decompress(codec, path, &damaged, len, &mut scratch);
                    assert!(came == wanted, "{} on {path:?} decodes another block", codec.name());
                }
            }
        }
    }
}

/// A form in which every granule, including the first, has its change bit set; this gives the longest
/// possible list of indices. All granules but the last are literals.
#[test]
fn the_last_of_all_changes_counts() {
    let mut form = vec![0x80 | 2 | 4 | 16, 2];
    form.extend(4064_u16.to_le_bytes());
    form.extend([0x20, 0x00, 0x04]); // 32 and 64
    let block: Vec<u8> = (0..127).chain([125]).flat_map(|granule| [granule + 1; 32]).collect();
    form.extend(&block[..4064]);
    form.extend([0xFF; 2 + 16]); // every granule changes,
    form.extend([0x00, 0x11].repeat(32)); // to 0, 1, 0, ..., 1
    form.extend([0xFF; 8 + 64]); // every word is a miss:
    form.extend([0x22; 252]); // code 2 (symbol 0x0FF) for all words but the last four,
    form.extend([0x02; 4]); // which have code 0 (symbol 0x100)
    let codec = &SETTINGS[0];
    let mut memory = ScratchBuf::for_codecs([codec as &dyn Codec], 4096);
    for path in paths() {
        let came = decompress(codec, path, &form, 4096, &mut memory.scratch());
        assert!(came.as_deref() == Ok(&block), "{path:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paths_agree_on_any_pieces(
        pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..80), 1_usize..60), 1..12),
    ) {
        let block: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
        agree(&block);
    }

    #[test]
    fn paths_agree_on_any_bytes(form in prop::collection::vec(any::<u8>(), 0..600), len in 1_usize..5000, coded in any::<bool>()) {
        let mut form = form;
        if coded && form.len() > 4 {
            // A header that will probably be accepted.
            form[0] = form[0] & 0x3C | 0x82;
            form[1] &= 15;
            form[3] &= 1;
        }
        let codec = &SETTINGS[0];
        let mut memory = ScratchBuf::for_codecs([codec as &dyn Codec], len);
        let mut scratch = memory.scratch();
        let wanted = decompress(codec, Path::Scalar, &form, len, &mut scratch);
        for path in paths() {
            prop_assert!(decompress(codec, path, &form, len, &mut scratch) == wanted);
        }
    }
}
