//! The checksum of a payload: it has to detect damage, at the speed of memory, without tables and on any CPU.
//! Outside the process it appears only in saved blocks that a user-supplied codec made, so it must not
//! change.
//!
//! Sixteen bytes at a time are multiplied into one of four lanes, 64 x 64 -> 128 bits with the halves folded
//! together (as wyhash and rapidhash do): one multiplication for sixteen bytes, four of them in flight. Eight
//! lanes were no faster.

const LANES: usize = 4;
/// Odd numbers without a pattern.
const KEYS: [u64; LANES] =
    [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0x8cb9_2ba7_2f3d_8dd7, 0xaef1_7502_108e_f2d9];

const LAST: [u64; LANES] =
    [0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3, 0x4d5a_2da5_1de1_aa47];

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// 64 well mixed bits that depend on every bit of `payload` and its length.
pub(crate) fn hash(payload: &[u8]) -> u64 {
    // If lane i began with `KEYS[i]`, exchanging the two words of a pair would go unnoticed.
    let [a, b, c, d] = KEYS;
    let mut lanes = [b, c, d, a];
    let mut blocks = payload.chunks_exact(16 * LANES);
    for block in &mut blocks {
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = fold(word(block, i * 16) ^ KEYS[i], word(block, i * 16 + 8) ^ *lane);
        }
    }
    let mut pairs = blocks.remainder().chunks_exact(16);
    for (pair, (lane, key)) in (&mut pairs).zip(lanes.iter_mut().zip(KEYS)) {
        *lane = fold(word(pair, 0) ^ key, word(pair, 8) ^ *lane);
    }
    let rest = pairs.remainder();
    if !rest.is_empty() {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        lanes[3] = fold(word(&last, 0) ^ KEYS[3], word(&last, 8) ^ lanes[3]);
    }
    // A product with zero would hide the other factor, so no factor here is zero if lanes have not been used.
    let low = fold(lanes[0] ^ LAST[0], lanes[1] ^ LAST[1] ^ payload.len() as u64);
    let high = fold(lanes[2] ^ LAST[2], lanes[3] ^ LAST[3]);
    fold(low ^ LAST[1], high ^ LAST[2])
}

/// Mixes two words into 32 bits.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u32 {
    let mixed = fold(a ^ KEYS[0], b ^ KEYS[1]);
    (mixed ^ (mixed >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::vec::Vec;

    use super::super::tests::payload;
    use super::hash;

    #[test]
    fn all_bits_count_and_half_of_the_hash_changes() {
        for len in [1, 8, 15, 16, 31, 100, 128, 129, 300, 1000] {
            let bytes = payload(len as u64, len);
            let whole = hash(&bytes);
            let (mut changed, mut flipped) = (0, bytes.clone());
            for bit in 0..len * 8 {
                flipped[bit / 8] ^= 1 << (bit % 8);
                changed += (hash(&flipped) ^ whole).count_ones();
                assert_ne!(hash(&flipped), whole, "bit {bit} of {len} bytes");
                flipped[bit / 8] ^= 1 << (bit % 8);
            }
            let mean = f64::from(changed) / (len * 8) as f64;
            assert!((29.0..35.0).contains(&mean), "{mean} bits change for {len} bytes");
        }
    }

    #[test]
    fn words_that_change_places_are_noticed() {
        let bytes = payload(1, 256);
        let words: Vec<&[u8]> = bytes.chunks(8).collect();
        for i in 0..words.len() {
            for j in 0..i {
                let mut exchanged = words.clone();
                exchanged.swap(i, j);
                assert_ne!(hash(&exchanged.concat()), hash(&bytes), "words {i} and {j}");
            }
        }
    }

    #[test]
    fn lengths_and_places_count() {
        // Zeros of all lengths, and one nonzero byte in all places: all hashes differ.
        let mut seen = HashSet::new();
        for len in 0..600 {
            assert!(seen.insert(hash(&std::vec![0; len])), "{len} zeros");
        }
        let mut bytes: Vec<u8> = std::vec![0; 600];
        for at in 0..600 {
            bytes[at] = 1;
            assert!(seen.insert(hash(&bytes)), "a one at {at}");
            bytes[at] = 0;
        }
    }
}
