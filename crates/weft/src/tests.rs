//! Tests of all implementations.

use std::vec;
use std::vec::Vec;

use crate::format::PIECE;
use crate::{Effort, MOST_BYTES, Path, Scratch, bound, compress, decompress, reference};

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, most: usize) -> usize {
        self.next() as usize % most
    }
}

/// A unit as heaps have them: records of a few kinds, with noise, text and zeros in between.
fn heap_like(random: &mut Random, len: usize) -> Vec<u8> {
    let mut unit = vec![0u8; len];
    let mut at = 0;
    while at < len {
        let (size, kind) = (8 * (1 + random.below(12)), random.below(6));
        let base = random.next() << 20;
        for record in 0..1 + random.below(30) {
            for word in 0..size / 8 {
                let value = match (kind, (word + record / 9) % 4) {
                    (0, _) => 0,
                    (1, _) => random.next() << 31 | random.next(),
                    (2, _) => u64::from_le_bytes(*b"some tex"),
                    (_, 0) => base + (random.next() & 0xfff8),
                    (_, 1) => random.next() & 0xff,
                    (_, 2) => base,
                    _ => 0,
                };
                for (to, byte) in unit[at.min(len)..].iter_mut().zip(value.to_le_bytes()) {
                    *to = byte;
                }
                at += 8;
            }
        }
        at += random.below(3) * 4;
    }
    unit
}

/// All paths that this processor has.
pub(crate) fn paths() -> Vec<Path> {
    let mut paths = vec![Path::REFERENCE];
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every processor that these tests run on has them.
    paths.push(unsafe { Path::neon() });
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("sse4.1") && std::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has them.
        paths.push(unsafe { Path::sse() });
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("lzcnt")
    {
        // SAFETY: the processor has them.
        paths.push(unsafe { Path::avx2() });
    }
    paths
}

fn lengths() -> Vec<usize> {
    let whole = (0..5).map(|shift| PIECE << shift);
    let odd = [0, 1, 7, 8, 63, 64, 65, 100, 1024, 4088, 4095, 4097, 5000, 12_345, 65_535];
    whole.chain(odd).collect()
}

#[test]
fn what_was_compressed_is_restored() {
    let (mut random, mut scratch) = (Random(1), Scratch::new());
    for len in lengths() {
        for round in 0..20 {
            let unit = match round {
                0 => vec![0; len],
                1 => vec![0x5a; len],
                2 => (0..len).map(|_| random.next() as u8).collect(),
                // Pieces that are stored, between others.
                3 => {
                    let mut unit = heap_like(&mut random, len);
                    let pieces = unit.chunks_mut(PIECE).skip(1).step_by(2);
                    pieces.for_each(|piece| piece.fill_with(|| random.next() as u8));
                    unit
                }
                _ => heap_like(&mut random, len),
            };
            for effort in Effort::ALL {
                let mut to = vec![0; bound(len)];
                let size = reference::compress(&unit, &mut to, effort, &mut scratch).unwrap();
                let mut again = vec![0xff; len];
                reference::decompress(&to[..size], &mut again, &mut scratch).unwrap();
                assert!(again == unit, "{len} bytes, {effort:?}");
                for path in paths() {
                    let mut form = vec![0; bound(len)];
                    assert_eq!(
                        compress(path, &unit, &mut form, effort, &mut scratch),
                        Some(size),
                        "{path:?}"
                    );
                    assert!(form[..size] == to[..size], "{len} bytes, {effort:?}, {path:?}");
                    let mut again = vec![0xff; len];
                    decompress(path, &form[..size], &mut again, &mut scratch).unwrap();
                    assert!(again == unit, "{len} bytes, {effort:?}, {path:?}");
                }
                // Exactly so much room is enough.
                let mut exact = vec![0; size];
                assert_eq!(reference::compress(&unit, &mut exact, effort, &mut scratch), Some(size));
                assert_eq!(exact, to[..size]);
                if size > 0 {
                    let short = reference::compress(&unit, &mut exact[..size - 1], effort, &mut scratch);
                    // A piece may be stored instead, if that fits.
                    assert!(short.is_none_or(|short| short < size), "{len} bytes, {effort:?}");
                    for path in paths() {
                        let again = compress(path, &unit, &mut exact[..size - 1], effort, &mut scratch);
                        assert_eq!(again, short, "{len} bytes, {effort:?}, {path:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn damaged_input_is_refused_or_becomes_other_bytes() {
    let (mut random, mut scratch) = (Random(2), Scratch::new());
    // More for a soak, best with a sanitizer.
    let rounds = std::env::var("WEFT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3000);
    for round in 0..rounds {
        let len = match round % 50 {
            0 => MOST_BYTES,
            1..10 => 1 + random.below(PIECE),
            10..20 => 1 + random.below(4 * PIECE),
            20..30 => 4 * PIECE,
            _ => PIECE,
        };
        let unit = heap_like(&mut random, len);
        let mut form = vec![0; bound(len)];
        let size =
            reference::compress(&unit, &mut form, Effort::ALL[random.below(Effort::ALL.len())], &mut scratch)
                .unwrap();
        form.truncate(size);
        for _ in 0..1 + random.below(4) {
            let at = random.below(size);
            match random.below(3) {
                0 => form[at] ^= 1 << random.below(8),
                1 => form[at] = random.next() as u8,
                _ => form.truncate(at.max(1)),
            }
            if form.len() < size {
                break;
            }
        }
        let mut right = vec![0; len];
        let result = reference::decompress(&form, &mut right, &mut scratch);
        for path in paths() {
            let mut again = vec![0; len];
            // In a buffer of its own, whose end sanitizers know.
            let form = form.clone().into_boxed_slice();
            assert_eq!(decompress(path, &form, &mut again, &mut scratch), result, "{path:?}");
            assert!(result.is_err() || again == right, "{path:?}");
        }
    }
}

#[test]
fn what_follows_the_form_is_refused() {
    let mut scratch = Scratch::new();
    for (len, effort, path) in [PIECE, 1000, 5000]
        .into_iter()
        .flat_map(|len| Effort::ALL.map(|effort| (len, effort)))
        .flat_map(|(len, effort)| paths().into_iter().map(move |path| (len, effort, path)))
    {
        let unit = heap_like(&mut Random(3), len);
        let mut form = vec![0; bound(len) + 1];
        let size = compress(path, &unit, &mut form, effort, &mut scratch).unwrap();
        let mut again = vec![0; len];
        for wrong in [&form[..size + 1], &form[..size - 1], &[]] {
            let result = decompress(path, wrong, &mut again, &mut scratch);
            assert!(result.is_err(), "{} bytes instead of {size}, {effort:?}, {path:?}", wrong.len());
        }
    }
}

/// A page's form that claims to be that of a shorter unit: what lies behind its end means nothing, or the
/// form is refused, whatever the scratch was used for before.
#[test]
fn forms_may_describe_more_than_the_unit() {
    let (mut random, mut scratch) = (Random(4), Scratch::new());
    let mut restored = 0;
    for round in 0..300 {
        let page = heap_like(&mut random, PIECE);
        let mut form = vec![0; bound(PIECE)];
        let effort = Effort::ALL[round % 4];
        let size = reference::compress(&page, &mut form, effort, &mut scratch).unwrap();
        let len = 1 + random.below(PIECE - 1);
        let [low, high] = (len as u16).to_le_bytes();
        let mut short = vec![form[0] | 4, low, high];
        short.extend(&form[1..size]);
        let mut right = vec![0; len];
        let result = reference::decompress(&short, &mut right, &mut scratch);
        restored += usize::from(result.is_ok());
        assert!(result.is_err() || right == page[..len]);
        for path in paths() {
            let mut again = vec![0xff; len];
            assert_eq!(decompress(path, &short, &mut again, &mut scratch), result, "{path:?}");
            assert!(result.is_err() || again == right, "{path:?}");
        }
    }
    assert!(restored > 200, "{restored}");
}
