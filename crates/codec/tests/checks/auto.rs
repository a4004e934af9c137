//! `auto` over time: blocks of all kinds and lengths, with any threshold, while its list and its acceptance
//! threshold change. An independent decoder reads every form at once and again at the end; then it reads each
//! form with damage.
//!
//! ```text
//! | chooser | paths | operation ...
//!
//! operation   00 | list                          its own chooser only
//!             01 | acceptance, 2 bytes
//!             02 | growth | bytes n | n bytes              a block
//!             03 and more | length, 2 bytes | threshold | seed     a block of one of ten kinds
//! ```

use memfold_codec::{Auto, Chain, Codec, CodecId, Compressed, ScratchBuf, decoder};

use super::common::{KINDS, block};
use super::{Against, Memory, SHORT, damage, grown, paths, take, with_memory};

/// Custom lists; some have chains that no preset has.
const LISTS: [&[&str]; 8] = [
    &["lz4"],
    &["stride:2", "zstd:1", "delta:8x6+shuffle:8+zstd:1"],
    &["copy"],
    &["bwt+mtf+range", "lagdelta:8+shuffle:8+zerosup", "wkdm", "pbpm", "bewalgo2", "842"],
    &["jbe+jbe+jbe+jbe+jbe+jbe+jbe", "xor:2x3+bitshuffle:2+huffman"],
    &["range", "huffman", "rle", "bitshuffle:8+zerosup", "lzrw1a+range", "lz4hc:9+huffman"],
    &["stride:3+range", "stride:1", "lz4", "lagdelta:4+lz4", "shuffle:4+lz4", "delta:1x1+stride:1"],
    &["zstd:-5", "zstd:9", "lagdelta:2+zstd:3", "bewalgo+zstd:1"],
];

fn list(which: u8) -> Vec<Chain> {
    LISTS[usize::from(which) % LISTS.len()].iter().map(|name| name.parse().expect("a chain")).collect()
}

/// The chooser, and how many blocks it gets.
fn chooser(which: u8) -> (Option<&'static Auto>, usize) {
    match which % 16 {
        0..4 => (Auto::of_name("auto:fast"), 40),
        4..8 => (Auto::of_name("auto"), 30),
        8 => (Auto::of_name("auto:dense"), 12),
        9 => (Auto::of_name("auto:max"), 3),
        _ => (None, 30),
    }
}

/// Performs the next operation and returns the rest of `data`.
fn step<'d>(auto: &Auto, own: bool, data: &'d [u8], blocks: &mut Vec<(Vec<u8>, usize)>) -> Option<&'d [u8]> {
    match data {
        [0, which, rest @ ..] => {
            if own {
                auto.set_list(&list(*which)).expect("few chains");
            }
            Some(rest)
        }
        [1, low, high, rest @ ..] => {
            if own {
                auto.set_threshold(u16::from_le_bytes([*low, *high]) % 5000);
            }
            Some(rest)
        }
        [2, growth, count, rest @ ..] => {
            let (bytes, rest) = rest.split_at_checked(usize::from(*count))?;
            let block = grown(bytes, *growth, SHORT)?;
            blocks.push((block, usize::MAX));
            Some(rest)
        }
        [kind, low, high, threshold, seed, rest @ ..] => {
            let len = usize::from(u16::from_le_bytes([*low, *high])) % SHORT;
            let threshold = (len + 2) * usize::from(*threshold) / 200;
            blocks.push((block(KINDS[usize::from(*kind) % KINDS.len()], len, u64::from(*seed)), threshold));
            Some(rest)
        }
        _ => None,
    }
}

impl Memory {
    fn read(&mut self, form: &[u8], len: usize, choice: u8) -> Option<Vec<u8>> {
        self.block(decoder(CodecId::AUTO).expect("there is one"), form, len, paths(choice))
    }
}

pub fn check(data: &[u8]) {
    let [which, path, rest @ ..] = data else { return };
    let mut rest = rest;
    let (preset, patience) = chooser(*which);
    let mine = Auto::new(&list(*which >> 4)).expect("few chains");
    let auto = preset.unwrap_or(&mine);
    // A fresh scratch, large enough for every later list: all learning is from this input alone.
    let lists = (0..LISTS.len()).map(|which| Auto::new(&list(which as u8)).expect("few chains"));
    let size = lists.map(|other| other.compress_scratch(SHORT)).max().unwrap_or(0);
    let mut learned = ScratchBuf::with_size(size.max(auto.compress_scratch(SHORT)));
    let mut scratch = learned.scratch();
    with_memory(|memory| {
        let (mut blocks, mut made, mut tried) = (Vec::new(), Vec::new(), 0);
        while tried < patience {
            let Some(left) = step(auto, preset.is_none(), rest, &mut blocks) else { break };
            rest = left;
            let Some((block, threshold)) = blocks.pop() else { continue };
            tried += 1;
            let bound = auto.bound(block.len());
            take(paths(*path)[0]);
            let src = memory.src.copy(&block, Against::End);
            let dst = memory.dst.slice(threshold.min(bound), Against::End);
            match auto.compress(src, dst, threshold, &mut scratch) {
                Compressed::Fits(size) => {
                    assert!(size <= threshold, "{auto:?} passes the threshold");
                    let form = dst[..size].to_vec();
                    let again = memory.read(&form, block.len(), *path);
                    assert!(again.as_deref() == Some(&block), "{auto:?} changed the block");
                    made.push((block, form));
                }
                Compressed::Incompressible => {
                    assert!(threshold < bound, "{auto:?} does not fit into its bound");
                }
            }
        }
        for (i, (block, form)) in made.iter_mut().enumerate() {
            let again = memory.read(form, block.len(), path.rotate_left(4));
            assert!(again.as_deref() == Some(&block[..]), "{auto:?}: a block cannot be read any more");
            damage(form, &[*path, i as u8, *which]);
            memory.read(form, block.len(), *path);
        }
    });
}
