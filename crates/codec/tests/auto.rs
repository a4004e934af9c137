//! `auto` learns, so its output may differ from call to call. Every form must decode to its block: after the
//! list has changed, in other threads, with any threshold and any scratch.

mod common;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::{KINDS, PIPELINES, Random, block, compress, decompress};
use memfold_codec::{
    Auto, Chain, Codec, CodecId, Compressed, ListError, MAX_BLOCK, MOST_ENTRIES, ScratchBuf, auto_table,
    codec, decoder,
};

const PRESETS: [&str; 4] = ["auto:fast", "auto", "auto:dense", "auto:max"];

fn chains(names: &[&str]) -> Vec<Chain> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Blocks of all kinds and one length, in mixed order.
fn blocks(len: usize, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(7);
    (0..count).map(|i| block(KINDS[random.below(KINDS.len())], len, i as u64)).collect()
}

/// Decodes a form knowing only the number of the codec.
fn again(form: &[u8], len: usize) -> Vec<u8> {
    let any = decoder(CodecId::AUTO).unwrap();
    let mut memory = ScratchBuf::with_size(any.decompress_scratch(len));
    decompress(any, form, len, &mut memory.scratch()).unwrap()
}

#[test]
fn every_preset_gives_back_every_kind_of_block() {
    for name in PRESETS {
        let auto = codec(name).unwrap();
        // One scratch for all lengths: what is learned for one length does not apply to another.
        let lens = [1, 2, 7, 8, 63, 143, 144, 145, 1000, 2047, 2048, 4095, 4096, 4097, 16384];
        let mut memory = ScratchBuf::for_codecs([auto], 16384);
        let mut scratch = memory.scratch();
        let decode = decoder(CodecId::AUTO).unwrap();
        let mut decode_memory = ScratchBuf::with_size(decode.decompress_scratch(16384));
        let mut decode_scratch = decode_memory.scratch();
        for round in 0..4 {
            for len in lens {
                for kind in KINDS {
                    let src = block(kind, len, round * 1000 + len as u64);
                    let form =
                        compress(auto, &src, usize::MAX, &mut scratch).expect("no threshold, so it fits");
                    let back = decompress(decode, &form, len, &mut decode_scratch);
                    assert!(back.as_deref() == Ok(&src[..]), "{name} {kind} {len}");
                }
            }
        }
    }
}

#[test]
fn large_blocks_too() {
    for name in ["auto:fast", "auto"] {
        let auto = codec(name).unwrap();
        for len in [65_536, MAX_BLOCK] {
            let mut memory = ScratchBuf::for_codecs([auto], len);
            for kind in ["records", "floats", "noise", "text"] {
                let src = block(kind, len, 3);
                let form = compress(auto, &src, usize::MAX, &mut memory.scratch()).unwrap();
                assert!(again(&form, len) == src, "{name} {kind} {len}");
            }
        }
    }
}

/// Learning must not make the results worse.
#[test]
fn choices_are_close_to_the_best() {
    let names = ["lz4", "zstd:1", "stride:2", "delta:8x2+shuffle:8+zstd:1", "delta:8x1+bitshuffle:8+lz4"];
    let auto = Auto::new(&chains(&names)).unwrap();
    let mut memory = ScratchBuf::for_codecs([&auto as &dyn Codec], 4096);
    let mut scratch = memory.scratch();
    let all = blocks(4096, 400);
    for src in &all {
        let _ = compress(&auto, src, 4096, &mut scratch);
    }
    let single = |name: &str| -> usize {
        let codec = codec(name).unwrap();
        let mut memory = ScratchBuf::for_codecs([codec], 4096);
        let size =
            |src: &Vec<u8>| compress(codec, src, 4096, &mut memory.scratch()).map_or(4096, |form| form.len());
        all.iter().map(size).sum()
    };
    let best = names.iter().map(|name| single(name)).min().unwrap();
    let chosen: usize =
        all.iter().map(|src| compress(&auto, src, 4096, &mut scratch).map_or(4096, |form| form.len())).sum();
    assert!(chosen * 100 < best * 95, "{chosen} bytes, but one codec for all comes to {best}");
}

#[test]
fn no_threshold_is_passed() {
    for name in PRESETS {
        let auto = codec(name).unwrap();
        let mut memory = ScratchBuf::for_codecs([auto], 4096);
        let mut scratch = memory.scratch();
        let mut random = Random(5);
        for (i, src) in blocks(4096, 150).iter().enumerate() {
            let len = 1 + random.below(4096);
            let threshold = [0, 1, 2, len / 8, len / 2, len - 1, len, len + 1, 5000][i % 9];
            // `compress` checks that nothing is written beyond the threshold.
            if let Some(form) = compress(auto, &src[..len], threshold, &mut scratch) {
                assert!(form.len() <= threshold && again(&form, len) == src[..len]);
            } else {
                assert!(threshold <= len, "{name}: {len} bytes fit into {threshold}");
            }
        }
    }
}

#[test]
fn blocks_of_old_lists_stay_readable() {
    let auto = Auto::new(&chains(&["lz4"])).unwrap();
    let lists: Vec<Vec<Chain>> = PIPELINES.chunks(3).map(chains).collect();
    let mut forms = Vec::new();
    for list in lists.iter().chain([&chains(&["zstd:3", "stride:1"])]) {
        auto.set_list(list).unwrap();
        assert_eq!(auto.list().collect::<Vec<_>>(), *list);
        let mut memory = ScratchBuf::for_codecs([&auto as &dyn Codec], 4096);
        let mut scratch = memory.scratch();
        for src in blocks(4096, 30) {
            let form = compress(&auto, &src, 4097, &mut scratch).unwrap();
            forms.push((form, src));
        }
    }
    let used: std::collections::BTreeSet<u8> = forms.iter().map(|(form, _)| form[0]).collect();
    assert!(used.len() > 6, "the lists have to differ in what they make: {used:?}");
    auto.set_list(&chains(&["copy"])).unwrap();
    for (form, src) in forms {
        assert!(again(&form, src.len()) == src);
    }
}

#[test]
fn a_list_that_outgrows_the_scratch_is_used_as_far_as_it_goes() {
    let auto = Auto::new(&chains(&["stride:1", "lz4"])).unwrap();
    let mut memory = ScratchBuf::with_size(auto.compress_scratch(4096));
    let mut scratch = memory.scratch();
    auto.set_list(&chains(&["stride:1", "zstd:19", "bwt+mtf+range"])).unwrap();
    assert!(auto.compress_scratch(4096) > scratch.len());
    for src in blocks(4096, 50) {
        let form = compress(&auto, &src, 4097, &mut scratch).unwrap();
        assert!(again(&form, 4096) == src);
    }
}

#[test]
fn lists_and_thresholds_change_while_others_compress() {
    let auto = Auto::new(&chains(&["lz4"])).unwrap();
    let largest =
        chains(&["lz4", "zstd:1", "delta:8x6+shuffle:8+zstd:1", "lagdelta:4+huffman", "stride:3+range"]);
    auto.set_list(&largest).unwrap();
    let size = auto.compress_scratch(4096);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let compressors: Vec<_> = (0..3)
            .map(|n| {
                let (auto, done) = (&auto, &done);
                scope.spawn(move || {
                    let mut memory = ScratchBuf::with_size(size);
                    let mut scratch = memory.scratch();
                    let mut forms = Vec::new();
                    let all = blocks(4096, 60);
                    for round in 0.. {
                        if done.load(Relaxed) && round > 3 {
                            break;
                        }
                        for src in &all {
                            let form = compress(auto, src, 4097, &mut scratch).unwrap();
                            if round % 3 == n {
                                forms.push((form, src.clone()));
                                forms.truncate(2000);
                            } else {
                                assert!(again(&form, 4096) == *src);
                            }
                        }
                    }
                    forms
                })
            })
            .collect();
        let mut random = Random(3);
        for i in 0..300 {
            let from = random.below(largest.len());
            match auto.set_list(&largest[from..]) {
                Ok(()) | Err(ListError::Busy) => {}
                Err(error) => panic!("{error}"),
            }
            auto.set_threshold(random.below(4096) as u16);
            if i % 10 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, Relaxed);
        for compressor in compressors {
            for (form, src) in compressor.join().unwrap() {
                assert!(again(&form, 4096) == src);
            }
        }
    });
}

#[test]
fn lists_have_limits() {
    assert_eq!(Auto::new(&[]).unwrap_err(), ListError::Empty);
    let one = chains(&["lz4"])[0];
    let auto = Auto::new(&[one; MOST_ENTRIES]).unwrap();
    assert_eq!(auto.set_list(&[one; MOST_ENTRIES + 1]), Err(ListError::TooLong));
    assert_eq!(auto.list().count(), MOST_ENTRIES);
    let mut memory = ScratchBuf::for_codecs([&auto as &dyn Codec], 4096);
    let src = block("text", 4096, 1);
    let form = compress(&auto, &src, 4096, &mut memory.scratch()).unwrap();
    assert!(again(&form, 4096) == src);
}

#[test]
fn lists_of_ones_own_have_names() {
    let name = "auto=lz4/stride:2/delta:8x2+shuffle:8+zstd:1";
    let own = codec(name).unwrap();
    assert_eq!((own.name(), own.id()), (name, CodecId::AUTO));
    assert!(std::ptr::addr_eq(own, codec(name).unwrap()), "the same name, the same chooser");
    let mut memory = ScratchBuf::for_codecs([own], 4096);
    let mut scratch = memory.scratch();
    for src in blocks(4096, 60) {
        let form = compress(own, &src, 4097, &mut scratch).unwrap();
        assert!(again(&form, 4096) == src);
    }
}

#[test]
fn the_longest_list_has_a_name() {
    let entries: Vec<String> =
        (0..MOST_ENTRIES).map(|i| format!("delta:8x{}+shuffle:8+zstd:{}", 1 + i % 6, 1 + i % 19)).collect();
    let own = codec(&format!("auto={}", entries.join("/"))).unwrap();
    let mut memory = ScratchBuf::for_codecs([own], 4096);
    let src = block("floats", 4096, 4);
    let form = compress(own, &src, 4096, &mut memory.scratch()).unwrap();
    assert!(again(&form, 4096) == src);
    assert!(codec(&format!("auto={}/lz4", entries.join("/"))).is_err());
}

/// A reader of the list gets one that was set, without remains of a longer one.
#[test]
fn a_list_that_is_asked_for_has_no_end_of_another() {
    let long = chains(&["huffman"; MOST_ENTRIES]);
    let short = chains(&["lz4", "copy"]);
    let auto = Auto::new(&long).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50_000 {
                auto.set_list(&short).unwrap();
                auto.set_list(&long).unwrap();
            }
            done.store(true, Relaxed);
        });
        while !done.load(Relaxed) {
            let list: Vec<Chain> = auto.list().collect();
            assert!(list.len() == long.len() || list.len() == short.len(), "{}", list.len());
            assert!(list[0] == long[0] || list.len() == short.len(), "the end of the long list is there");
        }
    });
}

#[test]
fn the_table_only_grows() {
    let before: Vec<Chain> = auto_table().collect();
    let new = chains(&["xor:2x3+jbe2", "xor:2x4+jbe2"]);
    let _auto = Auto::new(&new).unwrap();
    let after: Vec<Chain> = auto_table().collect();
    assert_eq!(after[..before.len()], before);
    assert!(new.iter().all(|chain| after.contains(chain)));
}

#[test]
fn foreign_bytes_are_refused() {
    let any = decoder(CodecId::AUTO).unwrap();
    let mut memory = ScratchBuf::with_size(any.decompress_scratch(4096));
    let mut scratch = memory.scratch();
    let mut refused = |form: &[u8], len: usize| decompress(any, form, len, &mut scratch).is_err();
    let last = auto_table().count();
    assert!(last < 240 + 1024);
    for form in [&[][..], &[0], &[0xFF], &[0xFF, 0xFF], &[0xF8, 0, 1], &[239, 1, 2, 3]] {
        assert!(refused(form, 4), "{form:?}");
    }
    let auto = codec("auto").unwrap();
    let mut memory = ScratchBuf::for_codecs([auto], 4096);
    for kind in KINDS {
        let src = block(kind, 4096, 8);
        let form = compress(auto, &src, 4097, &mut memory.scratch()).unwrap();
        for len in (0..form.len()).step_by(13) {
            assert!(refused(&form[..len], 4096) || form[..len].len() == 1 + 4096, "{kind} {len}");
        }
        assert!(refused(&form, 4095) && refused(&[], 4096) && refused(&form, 0));
    }
}

/// With a threshold that every result meets, only the first candidate is tried, so the first one in the list
/// is chosen.
#[test]
fn a_result_that_meets_the_threshold_ends_the_search() {
    let src = block("records", 4096, 4);
    let tags = |threshold: u16| {
        let auto = Auto::new(&chains(&["zerosup", "zstd:1"])).unwrap();
        auto.set_threshold(threshold);
        let mut memory = ScratchBuf::for_codecs([&auto as &dyn Codec], 4096);
        let mut scratch = memory.scratch();
        // Nothing is known about the first block, so without a threshold each candidate is tried once.
        let form = compress(&auto, &src, 4096, &mut scratch).unwrap();
        form.len()
    };
    let mut sizes = [4096, 0].map(tags);
    let zerosup = codec("zerosup").unwrap();
    let mut memory = ScratchBuf::for_codecs([zerosup], 4096);
    let alone = compress(zerosup, &src, 4096, &mut memory.scratch()).unwrap().len();
    // A pipeline of one step names that step in one byte; so does a place.
    assert_eq!(sizes[0], alone, "{sizes:?}");
    sizes.sort();
    assert!(sizes[1] >= sizes[0]);
}

/// If no block of a class compressed, nothing is tried; so noise costs next to nothing.
#[test]
fn blocks_that_never_fit_are_not_tried() {
    let noise: Vec<Vec<u8>> = (0..2000).map(|seed| block("noise", 4096, seed)).collect();
    let mut dst = vec![0; 4096];
    // The median of the last blocks' times does not depend on what else the machine does.
    let mut time = |name: &str| {
        let codec = codec(name).unwrap();
        let mut memory = ScratchBuf::for_codecs([codec], 4096);
        let mut scratch = memory.scratch();
        let mut time = |src: &Vec<u8>| {
            let start = Instant::now();
            assert_eq!(codec.compress(src, &mut dst, 3264, &mut scratch), Compressed::Incompressible);
            start.elapsed()
        };
        let mut times: Vec<Duration> = noise.iter().map(&mut time).collect();
        times[1000..].sort();
        times[1500]
    };
    let (alone, chosen) = (time("zstd:6"), time("auto:dense"));
    assert!(chosen < alone / 4, "zstd:6 {alone:?}, auto:dense {chosen:?}");
}
