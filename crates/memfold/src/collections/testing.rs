//! Heaps for tests: with frames for three blocks, and with a codec that fails when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memfold_codec::{Codec, CodecId, Compressed, Malformed, Scratch, codec};

use crate::heap::{Error, Heap, HeapKind, Limit, Options, Session};
use crate::random::Random;

/// Options with frames for three blocks of 4 KiB.
pub fn options() -> Options {
    Options::new().limit(Limit::Blocks(3)).block_size(4 << 10)
}

/// Heaps of all kinds, which must give the same results; each with a number of rounds that it does quickly.
pub fn heaps() -> [(Heap, usize); 3] {
    [
        (Heap::new(options()).unwrap(), 60),
        (Heap::new(options().paranoid(true)).unwrap(), 3),
        (Heap::new(Options::new().kind(HeapKind::Plain)).unwrap(), 60),
    ]
}

/// Takes random steps. In each one an error is injected: into the first node operation (make, change or
/// free), then into the second and so on, and into every free after it, until the step succeeds. `look` sees
/// the state after each failure, with its number. Returns the number of failures.
pub fn steps_that_fail<S>(
    session: &Session<'_>,
    subject: &mut S,
    turns: usize,
    mut step: impl FnMut(&mut S, &mut Random) -> Result<(), Error>,
    mut look: impl FnMut(&mut S, u64),
) -> u64 {
    let (random, mut failed) = (&mut Random(turns as u64), 0);
    for _ in 0..turns {
        let (seed, mut before) = (random.0, 0);
        loop {
            random.0 = seed;
            let (done, _) = session.with_fault(before, || step(subject, random));
            let Err(error) = done else { break };
            assert_eq!(error, Error::Pinned);
            failed += 1;
            look(subject, failed);
            // Sorting does thousands of operations: not every one of them is made to fail.
            before += 1 + before / 8;
        }
    }
    failed
}

/// zstd that refuses to decompress when told to: the block can be read later.
pub struct Flaky {
    /// How many blocks are decompressed before some are refused, and how many are refused.
    before: AtomicU64,
    refused: AtomicU64,
}

impl Flaky {
    /// A heap with such a codec.
    pub fn heap() -> (Heap, Arc<Flaky>) {
        let flaky = Arc::new(Flaky { before: AtomicU64::new(0), refused: AtomicU64::new(0) });
        (Heap::new(options().own_codec(flaky.clone())).unwrap(), flaky)
    }

    /// The result of `operation` when `refused` blocks are refused after `before` blocks.
    pub fn with<R>(&self, before: u64, refused: u64, operation: impl FnOnce() -> R) -> R {
        self.before.store(before, Relaxed);
        self.refused.store(refused, Relaxed);
        let result = operation();
        self.refused.store(0, Relaxed);
        result
    }

    fn refuses(&self) -> bool {
        let (before, refused) = (self.before.load(Relaxed), self.refused.load(Relaxed));
        if before > 0 {
            self.before.store(before - 1, Relaxed);
        } else if refused > 0 {
            self.refused.store(refused - 1, Relaxed);
        }
        before == 0 && refused > 0
    }
}

fn inner() -> &'static dyn Codec {
    codec("zstd:1").unwrap()
}

impl Codec for Flaky {
    fn name(&self) -> &str {
        "flaky"
    }

    fn id(&self) -> CodecId {
        inner().id()
    }

    fn bound(&self, len: usize) -> usize {
        inner().bound(len)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        inner().compress_scratch(len)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        inner().decompress_scratch(len)
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        inner().compress(src, dst, threshold, scratch)
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if self.refuses() {
            return Err(Malformed);
        }
        inner().decompress(src, dst, scratch)
    }
}
