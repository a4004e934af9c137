//! Dictionaries of a workload: adopted when they pay on fresh blocks, dropped when they do not, and readable
//! as long as blocks refer to them.
#![cfg(feature = "dict")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{Random, compress, decompress};
use memfold_codec::dict::{self, Dictionaries, Step, version_of};
use memfold_codec::{Codec, CodecId, Malformed, ScratchBuf, codec, decoder};
use proptest::prelude::*;

/// Records of a kind: all of one kind share a part that differs between kinds.
fn record(kind: u64, random: &mut Random, len: usize) -> Vec<u8> {
    let words: Vec<String> =
        (0..60).map(|i| format!("{:x}-", Random(kind * 1000 + i).next() >> 20)).collect();
    let mut out = Vec::new();
    while out.len() < len {
        out.extend(words[random.below(60)].bytes());
    }
    out.truncate(len);
    out
}

struct Workload {
    set: Dictionaries,
    scratch: ScratchBuf,
    random: Random,
    forms: Vec<(Vec<u8>, Vec<u8>)>,
    kept: u64,
}

impl Workload {
    fn new(level: i32) -> Self {
        let set = Dictionaries::new(level).unwrap();
        let scratch =
            ScratchBuf::with_size(set.compress_scratch_up_to(1 << 16).max(set.decompress_scratch(1)));
        assert_eq!(set.maintain(0), Step::Waiting);
        Workload { set, scratch, random: Random(level as u64), forms: Vec::new(), kept: 0 }
    }

    fn blocks(&mut self, kind: u64) {
        for _ in 0..256 {
            let block = record(kind, &mut self.random, 1024);
            self.put(block);
        }
    }

    /// Compresses a round of blocks, and returns the step that follows.
    fn round(&mut self, kind: u64) -> Step {
        self.blocks(kind);
        self.set.maintain(self.kept)
    }

    fn put(&mut self, block: Vec<u8>) -> usize {
        let form = compress(&self.set, &block, usize::MAX, &mut self.scratch.scratch()).unwrap();
        let size = form.len();
        self.kept += block.len() as u64;
        self.forms.push((block, form));
        size
    }

    fn check(&mut self) {
        let any = decoder(CodecId::ZSTD_DICT).unwrap();
        let mut scratch = self.scratch.scratch();
        for (block, form) in &self.forms {
            assert!(decompress(any, form, block.len(), &mut scratch).as_ref() == Ok(block));
        }
    }

    fn adopt(&mut self, kind: u64) -> u32 {
        for _ in 0..100 {
            if let Step::Adopted(version) = self.round(kind) {
                assert_eq!(self.set.current(), Some(version));
                return version;
            }
        }
        panic!("a dictionary for such blocks pays");
    }
}

#[test]
fn a_dictionary_that_pays_is_adopted_and_old_versions_stay_readable() {
    let mut workload = Workload::new(3);
    let plain = workload.put(record(1, &mut Random(5), 1024));
    let first = workload.adopt(1);
    let with = workload.put(record(1, &mut Random(5), 1024));
    assert!(with * 4 < plain * 3, "{with} {plain}");
    assert_eq!(version_of(&workload.forms.last().unwrap().1), Some(first));

    // The data change: the dictionary is dropped, and another one adopted.
    let mut dropped = false;
    let mut second = None;
    for _ in 0..100 {
        match workload.round(2) {
            Step::Dropped(version) => {
                assert_eq!((version, workload.set.current()), (first, None));
                dropped = true;
            }
            Step::Adopted(version) => {
                second = Some(version);
                if dropped || version != first {
                    break;
                }
            }
            _ => {}
        }
    }
    let second = second.expect("the new data have a dictionary");
    assert!(second > first);
    let now = workload.put(record(2, &mut Random(5), 1024));
    assert!(now * 4 < plain * 3, "{now} {plain}");
    // When the first kind comes back, so does its dictionary.
    let back = (0..20).any(|_| matches!(workload.round(1), Step::Adopted(version) if version == first));
    assert!(back, "{:?}", workload.set.current());
    let again = (0..20).any(|_| matches!(workload.round(2), Step::Adopted(version) if version == second));
    assert!(again, "{:?}", workload.set.current());
    workload.check();

    // The current version cannot be released; an older one can, once its blocks are gone.
    assert!(!workload.set.release(second), "current");
    let known = |set: &Dictionaries, version| set.versions().iter().any(|there| there.number == version);
    assert!(known(&workload.set, first));
    let before = workload.set.memory();
    assert!(workload.set.release(first) && !known(&workload.set, first) && !workload.set.release(first));
    assert!(workload.set.memory() < before);
    let mut scratch = workload.scratch.scratch();
    let mut refused = 0;
    for (block, form) in &workload.forms {
        let again = decompress(&workload.set, form, block.len(), &mut scratch);
        match version_of(form) {
            Some(version) if version == first => {
                assert_eq!(again, Err(Malformed));
                refused += 1;
            }
            _ => assert!(again.as_ref() == Ok(block)),
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_dictionary_that_does_not_pay_is_not_adopted() {
    // Noise has nothing in common.
    let mut workload = Workload::new(1);
    for _ in 0..6 {
        for _ in 0..256 {
            let block = common::block("noise", 1024, workload.random.next());
            workload.put(block);
        }
        let step = workload.set.maintain(1 << 40);
        assert!(matches!(step, Step::Kept | Step::Waiting), "{step:?}");
    }
    // A dictionary that saves much of each block does not pay if there are only a few blocks.
    let mut workload = Workload::new(1);
    for _ in 0..6 {
        workload.blocks(1);
        let step = workload.set.maintain(1 << 10);
        assert!(matches!(step, Step::Kept | Step::Waiting), "{step:?}");
    }
    assert_eq!((workload.set.current(), workload.set.versions().len()), (None, 0));
    workload.check();
}

#[test]
fn memory_is_bounded_and_counted() {
    let mut workload = Workload::new(1);
    let mut most = 0;
    for round in 0..40 {
        workload.round(round / 4);
        most = most.max(workload.set.memory());
        assert!(workload.set.versions().len() <= dict::MOST_VERSIONS);
    }
    let versions: usize = workload.set.versions().iter().map(|there| there.memory).sum();
    assert!(versions > 0 && versions < most);
    // Samples, pool, candidates and tables: as docs/codecs.md says.
    assert!(most - versions < (2 << 20) + (1 << 19), "{most} {versions}");
    workload.check();
    workload.set.release_all();
    assert!(workload.set.versions().is_empty() && workload.set.current().is_none());
}

#[test]
fn dictionaries_change_while_threads_compress() {
    let mut workload = Workload::new(1);
    workload.adopt(1);
    let (set, stop) = (&workload.set, AtomicBool::new(false));
    let versions = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut memory = ScratchBuf::for_codecs([set as &dyn Codec], 1024);
                    let mut scratch = memory.scratch();
                    let (mut random, mut kept, mut seen) = (Random(thread), Vec::new(), Vec::new());
                    for i in 0_u64.. {
                        let block = record(1 + i / 3000, &mut random, 1024);
                        let form = compress(set, &block, usize::MAX, &mut scratch).unwrap();
                        let version = version_of(&form).unwrap();
                        if !seen.contains(&version) {
                            seen.push(version);
                        }
                        kept.push((block, form));
                        let (block, form) = &kept[random.below(kept.len())];
                        assert!(decompress(set, form, 1024, &mut scratch).as_ref() == Ok(block));
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        kept.truncate(5000);
                    }
                    for (block, form) in &kept {
                        assert!(decompress(set, form, 1024, &mut scratch).as_ref() == Ok(block));
                    }
                    seen
                })
            })
            .collect();
        let start = std::time::Instant::now();
        let mut changes = 0;
        while changes < 3 && start.elapsed().as_secs() < 20 {
            if !matches!(set.maintain(1 << 30), Step::Waiting | Step::Kept) {
                changes += 1;
            }
            // Releasing a version that does not exist is always allowed.
            assert!(!set.release(u32::MAX - 1));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(changes >= 3, "{changes}");
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect::<std::collections::BTreeSet<_>>()
    });
    assert!(versions.len() > 1, "{versions:?}");
    workload.check();
    workload.set.release_all();
}

#[test]
fn without_rounds_it_is_zstd_and_a_byte() {
    let set = codec("zstd-dict:5").unwrap();
    assert_eq!((set.name(), set.id()), ("zstd-dict:5", CodecId::ZSTD_DICT));
    let plain = codec("zstd:5").unwrap();
    let mut memory = ScratchBuf::for_codecs([set, plain], 4096);
    let mut scratch = memory.scratch();
    for kind in common::KINDS {
        let block = common::block(kind, 4096, 3);
        let form = compress(set, &block, usize::MAX, &mut scratch).unwrap();
        let other = compress(plain, &block, usize::MAX, &mut scratch).unwrap();
        assert!(form[0] == 0 && form[1..] == other);
    }
}

#[test]
fn dictionaries_go_to_other_processes() {
    let mut workload = Workload::new(1);
    let version = workload.adopt(3);
    let bytes = dict::dictionary(version).unwrap();
    assert!(bytes.len() <= 64 << 10);
    // Loading the same dictionary again is not a conflict; another one is; other bytes are refused.
    assert!(dict::load(version, &bytes));
    let other = workload.adopt(4);
    assert!(!dict::load(version, &dict::dictionary(other).unwrap()));
    assert!(!dict::load(0, &bytes) && !dict::load(1 << 20, b"no dictionary") && !dict::load(1 << 20, &[]));
    assert!(!dict::load(1 << 20, &bytes[..20]));
    assert!(dict::dictionary(1 << 20).is_none());
    // A released version never stands for another dictionary: a form that refers to it may still exist.
    let theirs = dict::dictionary(other).unwrap();
    let form = workload.forms.iter().find(|(_, form)| version_of(form) == Some(version)).unwrap().clone();
    assert!(workload.set.release(version));
    assert!(!dict::load(version, &theirs) && !dict::load(version, &bytes));
    let mut memory = ScratchBuf::with_size(workload.set.decompress_scratch(form.0.len()));
    assert_eq!(decompress(&workload.set, &form.1, form.0.len(), &mut memory.scratch()), Err(Malformed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_an_error_or_a_block(src in prop::collection::vec(any::<u8>(), 0..300), len in 0_usize..5000, flips in prop::collection::vec((0_usize..2000, any::<u8>()), 0..4)) {
        use std::sync::OnceLock;
        static SET: OnceLock<(u32, Vec<u8>)> = OnceLock::new();
        let (version, form) = SET.get_or_init(|| {
            let mut workload = Workload::new(1);
            let version = workload.adopt(9);
            workload.put(record(9, &mut Random(1), 4096));
            (version, workload.forms.pop().unwrap().1)
        });
        let set = codec("zstd-dict:1").unwrap();
        let mut memory = ScratchBuf::with_size(set.decompress_scratch(5000));
        let mut scratch = memory.scratch();
        // Arbitrary bytes, alone and after an existing version.
        let _ = decompress(set, &src, len, &mut scratch);
        let tag = &form[..if *version < 128 { 1 } else { 2 }];
        let _ = decompress(set, &[tag, &src].concat(), len, &mut scratch);
        // A form that is damaged, truncated, or read with another length.
        let mut damaged = form.clone();
        for (at, byte) in flips {
            let at = at % damaged.len();
            damaged[at] ^= byte;
        }
        let _ = decompress(set, &damaged, 4096, &mut scratch);
        prop_assert!(decompress(set, &form[..form.len() - 1 - len % form.len()], 4096, &mut scratch).is_err());
        if len != 4096 {
            prop_assert!(decompress(set, form, len, &mut scratch).is_err());
        }
        prop_assert!(decompress(set, form, 4096, &mut scratch).is_ok());
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn every_level_and_length_fits_its_scratch_and_threshold() {
        for level in [-50, -7, -1, 1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 15, 16, 18, 19, 22] {
            let mut workload = Workload::new(level);
            let version = workload.adopt(7);
            for len in [1, 2, 100, 511, 512, 1024, 4095, 4096, 4097, 16384, 40_000, 131_072, 300_000, 524_288]
            {
                if level > 12 && len > 140_000 {
                    continue;
                }
                let block = record(7, &mut workload.random, len);
                let mut scratch = ScratchBuf::with_size(workload.set.compress_scratch(len));
                let mut scratch = scratch.scratch();
                let form = compress(&workload.set, &block, usize::MAX, &mut scratch).unwrap();
                assert_eq!(version_of(&form), Some(version), "{level} {len}");
                assert!(form.len() <= workload.set.bound(len));
                for _ in 0..if len < 5000 { 300 } else { 3 } {
                    let same = compress(&workload.set, &block, form.len(), &mut scratch);
                    assert!(same.as_ref() == Some(&form), "{level} {len}");
                }
                assert!(compress(&workload.set, &block, form.len() - 1, &mut scratch).is_none());
                let again = decompress(&workload.set, &form, len, &mut workload.scratch.scratch());
                assert!(again.as_ref() == Ok(&block), "{level} {len}");
            }
            workload.set.release_all();
        }
    }
}
