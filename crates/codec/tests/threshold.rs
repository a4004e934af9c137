//! `compress` returns `Fits` exactly if the result is not larger than the threshold, even with the shortest
//! allowed `dst`, and the result is the same for every threshold that it meets.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{KINDS, block, compress, some_codecs};
use memfold_codec::{Codec, Compressed, Scratch, ScratchBuf, codec};

const LEVELS: [&str; 9] =
    ["zstd:-20", "zstd:-3", "zstd:1", "zstd:5", "lz4hc:9", "lz4hc:12", "deflate:6", "deflate:12", "xz:0"];

#[track_caller]
fn check(codec: &dyn Codec, src: &[u8], full: &[u8], threshold: usize, scratch: &mut Scratch<'_>) {
    let result = compress(codec, src, threshold, scratch);
    let wanted = (full.len() <= threshold).then_some(full);
    assert!(
        result.as_deref() == wanted,
        "{} with threshold {threshold}: {} bytes become {}, but the answer is {:?}",
        codec.name(),
        src.len(),
        full.len(),
        result.map(|r| r.len()),
    );
}

fn with_all(len: usize, mut thresholds: impl FnMut(usize, usize) -> Vec<usize>) {
    for codec in some_codecs(&LEVELS) {
        if len > 17_000 && (codec.name().contains('+') || codec.compress_scratch(len) > 2 << 20) {
            continue;
        }
        let mut memory = ScratchBuf::for_codecs([codec], len);
        let mut scratch = memory.scratch();
        for kind in KINDS {
            let src = block(kind, len, len as u64 + 11);
            let full = compress(codec, &src, usize::MAX, &mut scratch).unwrap();
            for threshold in thresholds(full.len(), codec.bound(len)) {
                check(codec, &src, &full, threshold, &mut scratch);
            }
        }
    }
}

#[test]
fn every_threshold_for_a_page() {
    let lz4 = codec("lz4").unwrap();
    let mut memory = ScratchBuf::for_codecs([lz4], 4096);
    let mut scratch = memory.scratch();
    for kind in KINDS {
        let src = block(kind, 4096, 5);
        let full = compress(lz4, &src, usize::MAX, &mut scratch).unwrap();
        for threshold in 0..=lz4.bound(4096) + 2 {
            check(lz4, &src, &full, threshold, &mut scratch);
        }
    }
}

#[test]
fn a_roomy_dst_changes_nothing() {
    for codec in some_codecs(&LEVELS) {
        let mut memory = ScratchBuf::for_codecs([codec], 4096);
        let mut scratch = memory.scratch();
        for kind in KINDS {
            let src = block(kind, 4096, 23);
            let full = compress(codec, &src, usize::MAX, &mut scratch).unwrap();
            let mut dst = vec![0; 2 * codec.bound(4096)];
            let fits = codec.compress(&src, &mut dst, full.len(), &mut scratch);
            assert_eq!(fits, Compressed::Fits(full.len()));
            assert!(dst[..full.len()] == full);
            let fits = codec.compress(&src, &mut dst, full.len() - 1, &mut scratch);
            assert_eq!(fits, Compressed::Incompressible);
        }
    }
}

/// Continuing would report compressible blocks as incompressible, or write past the end of `dst`.
#[test]
fn a_dst_below_the_contract_panics() {
    let autos = ["auto:fast", "auto", "auto:dense", "auto:max"].map(|name| codec(name).unwrap());
    for codec in some_codecs(&LEVELS).into_iter().chain(autos) {
        for len in [1, 100, 4096] {
            let src = block("records", len, 9);
            let mut memory = ScratchBuf::for_codecs([codec], len);
            for threshold in [1, len / 2 + 1, len + 1, usize::MAX] {
                let room = threshold.min(codec.bound(len));
                for short in [0, 1, room / 2, room - 1].into_iter().filter(|&short| short < room) {
                    let mut buffer = vec![0xC5; 2 * room];
                    let (dst, behind) = buffer.split_at_mut(short);
                    let mut scratch = memory.scratch();
                    let work = AssertUnwindSafe(|| codec.compress(&src, dst, threshold, &mut scratch));
                    let name = codec.name();
                    assert!(catch_unwind(work).is_err(), "{name}: {short} bytes instead of {room}");
                    assert!(behind.iter().all(|&byte| byte == 0xC5), "{name} wrote behind {short} bytes");
                }
            }
        }
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn every_threshold_for_short_blocks() {
        for len in [1, 2, 5, 12, 13, 14, 20, 64, 100, 255, 271, 300] {
            with_all(len, |_, bound| (0..=bound + 2).collect());
        }
    }

    #[test]
    fn around_the_boundaries() {
        for len in [301, 1000, 4095, 4096, 4097, 16384, 65536, 65547, 200_000] {
            with_all(len, |size, bound| {
                let near = [size - 1, size, size + 1, size + 7, bound - 1, bound, bound + 1];
                let far = [0, 1, size / 2, len - 1, len, len * 3264 / 4096, usize::MAX];
                near.into_iter().chain(far).collect()
            });
        }
    }
}
