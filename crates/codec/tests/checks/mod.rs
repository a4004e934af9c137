//! Checks that must hold for any bytes. The fuzz targets (`fuzz/fuzz_targets/`) run them on generated inputs,
//! and `corpus.rs` runs them on saved ones.
//!
//! A check parses its input from the front: some bytes that say what to do, then a block or a compressed
//! form. Codecs and steps are named by the numbers that formats store, so that a saved input keeps its
//! meaning when more of them exist, and a new codec is checked without changes here.
//!
//! Input and output of codecs lie next to inaccessible pages, which also catches errors of the C libraries.
#![allow(dead_code, reason = "each fuzz target runs one of the checks")]

mod auto;
#[path = "../common/mod.rs"]
mod common;
mod decode;
#[path = "../common/guard.rs"]
mod guard;
mod mutate;
mod name;
mod pipeline;
mod round_trip;
mod stride;

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use guard::{Against, Guarded};
use memfold_codec::cpu::{self, Path};
use memfold_codec::{Codec, CodecId, Compressed, MAX_BLOCK, Scratch, ScratchBuf, all};

/// A check of any bytes; it panics if something does not hold.
pub type Check = fn(&[u8]);

/// The checks by the names of their fuzz targets.
pub const ALL: [(&str, Check); 7] = [
    ("codec_auto", auto::check),
    ("codec_decode", decode::check),
    ("codec_mutate", mutate::check),
    ("codec_name", name::check),
    ("codec_pipeline", pipeline::check),
    ("codec_round_trip", round_trip::check),
    ("codec_stride", stride::check),
];

/// Runs the check with that name.
pub fn run(name: &str, data: &[u8]) {
    let (_, check) = ALL.iter().find(|(other, _)| *other == name).expect("a check has that name");
    check(data);
}

/// Slow codecs, and pipelines, get blocks no longer than this.
const SHORT: usize = 1 << 14;

/// Enough scratch for every codec with [`SHORT`] blocks, and for the fast ones with blocks of any length.
const SCRATCH: usize = 64 << 20;

/// Room for forms, and for blocks of wrong lengths.
const LONGEST: usize = 2 * MAX_BLOCK + 4096;

/// State that persists from input to input, as in a program: contexts that codecs keep must not change their
/// results.
struct Memory {
    compress: Scratch<'static>,
    decompress: Scratch<'static>,
    src: Guarded,
    dst: Guarded,
    again: Guarded,
}

/// One check runs at a time, since [`cpu::force`] sets the path of the whole process.
fn with_memory(check: impl FnOnce(&mut Memory)) {
    static TURN: Mutex<()> = Mutex::new(());
    thread_local! {
        static MEMORY: RefCell<Memory> = RefCell::new(Memory {
            compress: ScratchBuf::with_size(SCRATCH).leak(),
            decompress: ScratchBuf::with_size(SCRATCH).leak(),
            src: Guarded::new(LONGEST),
            dst: Guarded::new(LONGEST),
            again: Guarded::new(LONGEST),
        });
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    #[cfg(feature = "dict")]
    load_dictionary();
    MEMORY.with_borrow_mut(check);
    let _ = cpu::force(None);
}

/// Loads one dictionary, so that forms that name its version are decoded and not just refused.
#[cfg(feature = "dict")]
fn load_dictionary() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let dictionary = include_bytes!("../golden/version-1.dictionary");
        assert!(memfold_codec::dict::load(1, dictionary), "the golden dictionary is one");
    });
}

impl Memory {
    /// The form of a block, made in a `dst` of exactly the required length.
    fn form(&mut self, codec: &dyn Codec, block: &[u8]) -> Vec<u8> {
        let src = self.src.copy(block, Against::End);
        let dst = self.dst.slice(codec.bound(src.len()), Against::End);
        match codec.compress(src, dst, usize::MAX, &mut self.compress) {
            Compressed::Fits(size) => dst[..size].to_vec(),
            Compressed::Incompressible => panic!("{codec:?} knows no threshold and still does not fit"),
        }
    }

    /// The block of a form, or `None` if it is refused. The result must be the same on both paths and for any
    /// previous content of the output.
    fn block(&mut self, codec: &dyn Codec, form: &[u8], len: usize, paths: [Path; 2]) -> Option<Vec<u8>> {
        let [one, other] = [(paths[0], Against::Start, 0x00), (paths[1], Against::End, 0xFF)].map(
            |(path, against, before)| {
                take(path);
                let src = self.src.copy(form, against);
                let dst = self.again.slice(len, against);
                dst.fill(before);
                codec.decompress(src, dst, &mut self.decompress).ok().map(|()| dst.to_vec())
            },
        );
        assert!(one == other, "{codec:?}: {paths:?} differ, or bytes are left unwritten");
        one
    }
}

/// Two of the paths that this processor has.
fn paths(choice: u8) -> [Path; 2] {
    let there = Path::ALL.iter().filter(|path| **path <= cpu::best()).count();
    [choice, choice / 16].map(|choice| Path::ALL[usize::from(choice) % there])
}

fn take(path: Path) {
    cpu::force(Some(path)).expect("one that the processor has");
}

/// One of the codecs with this number. Pipelines and `auto` are left out, since they have their own checks.
fn codec(number: u8, level: u8) -> Option<&'static dyn Codec> {
    let id = CodecId(number % 32);
    let levels = || all().filter(move |codec| codec.id() == id && id != CodecId::AUTO);
    levels().nth(usize::from(level) % levels().count().max(1))
}

/// The most bytes of a block that this codec is given.
fn most(codec: &dyn Codec) -> usize {
    // Codecs that need much memory take much time.
    if codec.compress_scratch_up_to(SHORT) > 1 << 19 { SHORT } else { MAX_BLOCK }
}

/// A block made by repeating a few bytes; if `how` says so, a growing number is added to each word.
fn grown(bytes: &[u8], how: u8, most: usize) -> Option<Vec<u8>> {
    let times = 1 + usize::from(how & 0x3F) * if how & 0x40 == 0 { 1 } else { 16 };
    let mut block = (bytes.len() * times <= most).then(|| bytes.repeat(times))?;
    if how & 0x80 != 0 {
        for (i, word) in block.chunks_exact_mut(8).enumerate() {
            word[0] = word[0].wrapping_add(i as u8);
            word[1] = word[1].wrapping_add((i >> 8) as u8);
        }
    }
    Some(block)
}

/// Changes bytes of a form: each three bytes of `damages` are a place and a value.
fn damage(form: &mut [u8], damages: &[u8]) {
    for damage in damages.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([damage[0], damage[1]]));
        if let Some(byte) = place.checked_rem(form.len()).and_then(|place| form.get_mut(place)) {
            *byte ^= damage[2];
        }
    }
}
