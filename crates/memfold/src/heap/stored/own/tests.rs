//! Codecs that behave, and codecs that lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::vec::Vec;

use memfold_codec::{Codec, CodecId, Compressed, Malformed, Scratch, codec};

use crate::heap::{Error, Handle, Heap, Limit, Options};
use crate::random::Random;

/// How a codec misbehaves.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Nothing,
    ClaimsTooMuch,
    WritesLess,
    PanicsCompressing,
    PanicsDecompressing,
    Refuses,
    ForgetsAByte,
    FindsNothing,
}

/// zstd, until it is told to misbehave.
struct Liar {
    fault: Fault,
    on: AtomicBool,
    calls: AtomicUsize,
}

impl Liar {
    fn is(&self, fault: Fault) -> bool {
        self.calls.fetch_add(1, Relaxed);
        self.fault == fault && self.on.load(Relaxed)
    }
}

fn inner() -> &'static dyn Codec {
    codec("zstd:1").unwrap()
}

impl Codec for Liar {
    fn name(&self) -> &str {
        "liar"
    }

    // The number of another codec: nobody may rely on it.
    fn id(&self) -> CodecId {
        CodecId::LZ4
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
        assert!(!self.is(Fault::PanicsCompressing), "as the test wants it");
        let room = dst.len();
        let made = inner().compress(src, dst, threshold, scratch);
        match made {
            _ if self.is(Fault::ClaimsTooMuch) => Compressed::Fits(room + 1),
            _ if self.is(Fault::FindsNothing) => Compressed::Incompressible,
            Compressed::Fits(len) if self.is(Fault::WritesLess) => {
                dst[len / 2..len].fill(0xaa);
                Compressed::Fits(len)
            }
            made => made,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        assert!(!self.is(Fault::PanicsDecompressing), "as the test wants it");
        if self.is(Fault::Refuses) {
            return Err(Malformed);
        }
        inner().decompress(src, dst, scratch)?;
        if self.is(Fault::ForgetsAByte) {
            dst[dst.len() / 2] ^= 1;
        }
        Ok(())
    }
}

fn heap(fault: Fault) -> (Heap, Arc<Liar>) {
    let liar = Arc::new(Liar { fault, on: AtomicBool::new(false), calls: AtomicUsize::new(0) });
    let options = Options::new().block_size(4096).limit(Limit::Blocks(3)).own_codec(liar.clone());
    (Heap::new(options).unwrap(), liar)
}

fn fill(heap: &Heap, random: &mut Random, nodes: usize) -> Vec<(Handle, Vec<u8>)> {
    let session = &mut heap.session().unwrap();
    let node = |_| {
        let bytes = random.bytes(100);
        (session.put_bytes(&bytes).unwrap(), bytes)
    };
    (0..nodes).map(node).collect()
}

#[test]
fn a_codec_of_ones_own_does_what_it_should() {
    let (mut heap, liar) = heap(Fault::Nothing);
    let nodes = fill(&heap, &mut Random(1), 2000);
    let session = heap.session().unwrap();
    for (handle, bytes) in &nodes {
        assert_eq!(session.read(*handle).as_ref(), Ok(bytes));
    }
    assert!(heap.stats().payload_bytes < 2000 * 100 / 2, "{:?}", heap.stats());
    assert!(liar.calls.load(Relaxed) > 100);
    drop(session);
    heap.check().unwrap();
    drop(heap);
    assert_eq!(Arc::strong_count(&liar), 1, "the heap has let go of the codec");
}

#[test]
fn the_last_codec_that_is_given_counts() {
    let (_, liar) = heap(Fault::Nothing);
    let heap = Heap::new(Options::new().limit(Limit::Share).own_codec(liar.clone()).codec("lz4")).unwrap();
    fill(&heap, &mut Random(1), 20_000);
    assert!(heap.stats().compressions > 0);
    assert_eq!((liar.calls.load(Relaxed), Arc::strong_count(&liar)), (0, 1));
}

#[test]
fn incompressible_blocks_are_kept_uncompressed() {
    for fault in [Fault::ClaimsTooMuch, Fault::PanicsCompressing, Fault::FindsNothing] {
        let (mut heap, liar) = heap(fault);
        liar.on.store(true, Relaxed);
        let nodes = fill(&heap, &mut Random(2), 500);
        let session = heap.session().unwrap();
        for (handle, bytes) in &nodes {
            assert_eq!(session.read(*handle).as_ref(), Ok(bytes), "{fault:?}");
        }
        drop(session);
        heap.check().unwrap();
    }
}

#[test]
fn wrong_bytes_are_never_returned() {
    for fault in [Fault::WritesLess, Fault::PanicsDecompressing, Fault::Refuses, Fault::ForgetsAByte] {
        let (heap, liar) = heap(fault);
        let mut random = Random(3);
        let before = fill(&heap, &mut random, 500);
        liar.on.store(true, Relaxed);
        let during = fill(&heap, &mut random, 500);
        let session = heap.session().unwrap();
        let mut damaged = 0;
        for (handle, bytes) in before.iter().chain(&during) {
            match session.read(*handle) {
                Ok(read) => assert_eq!(&read, bytes, "{fault:?}"),
                Err(error) => {
                    assert_eq!(error, Error::Damaged, "{fault:?}");
                    damaged += 1;
                }
            }
        }
        assert!(damaged > 100, "{fault:?}: {damaged}");
        // The heap stays usable: new nodes work as before, and nodes that could not be read can be read
        // again.
        liar.on.store(false, Relaxed);
        let after = fill(&heap, &mut random, 500);
        for (handle, bytes) in &after {
            assert_eq!(session.read(*handle).as_ref(), Ok(bytes), "{fault:?}");
        }
        for (handle, bytes) in before.iter().chain(&during) {
            let read = session.read(*handle);
            let lost = fault == Fault::WritesLess && read == Err(Error::Damaged);
            assert!(lost || read.as_ref() == Ok(bytes), "{fault:?}: {read:?}");
        }
    }
}
