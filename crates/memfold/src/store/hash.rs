//! The checksum over a payload: it has to notice damage, at the speed of
//! memory, without tables and on any CPU. It never leaves the process.
//!
//! Sixteen bytes at a time are multiplied into one of four lanes, 64 x 64 ->
//! 128 bits with the halves folded together (as wyhash and rapidhash do):
//! one multiplication for sixteen bytes, four of them under way at once.

const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0x8cb9_2ba7_2f3d_8dd7, 0xaef1_7502_108e_f2d9];

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// 64 well mixed bits that depend on every bit of `payload` and its length.
pub(super) fn hash(payload: &[u8]) -> u64 {
    let mut lanes = KEYS;
    let mut blocks = payload.chunks_exact(64);
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
    let low = fold(lanes[0] ^ KEYS[1], lanes[1] ^ payload.len() as u64);
    let high = fold(lanes[2] ^ KEYS[3], lanes[3] ^ KEYS[2]);
    fold(low ^ KEYS[0], high ^ KEYS[2])
}

/// Mixes two words into 32 bits.
pub(super) fn mix(a: u64, b: u64) -> u32 {
    let mixed = fold(a ^ KEYS[0], b ^ KEYS[1]);
    (mixed ^ (mixed >> 32)) as u32
}
