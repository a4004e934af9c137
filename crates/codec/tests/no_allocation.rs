//! The C libraries contain calls to `malloc`. None of them may be reached: the runtime works where the
//! program's allocator must not be called.
//!
//! This file has its own `malloc`, so it holds one test and nothing else.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::c_void;

use common::{KINDS, PIPELINES, block};
use memfold_codec::{ScratchBuf, all, codec};

thread_local! {
    /// Calls by this thread. The test runner's thread allocates, too, whenever it gets to it.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn note_call() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: the signatures are those of malloc and its kin. These are the names under which glibc offers its
// allocator to programs that replace it.
unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    note_call();
    // SAFETY: passes the call on unchanged.
    unsafe { __libc_malloc(size) }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    note_call();
    // SAFETY: passes the call on unchanged.
    unsafe { __libc_calloc(count, size) }
}

/// # Safety
/// As for C's `free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(memory: *mut c_void) {
    note_call();
    // SAFETY: passes the call on unchanged.
    unsafe { __libc_free(memory) }
}

#[test]
fn no_codec_calls_the_allocator() {
    let mut calling = BTreeSet::new();
    for len in [1, 4096, 4097, 150_000] {
        // These codecs, which need a feature, do allocate.
        let allocates =
            |name: &str| name == "snappy" || name.starts_with("xz:") || name.starts_with("lz4hc:1");
        let slow = |scratch: usize| len > 100_000 && scratch > 4 << 20;
        let codecs = all().chain(PIPELINES.map(|name| codec(name).unwrap()));
        for codec in codecs.filter(|codec| !slow(codec.compress_scratch(len)) && !allocates(codec.name())) {
            let mut memory = ScratchBuf::for_codecs([codec], len);
            let mut scratch = memory.scratch();
            for kind in KINDS {
                let src = block(kind, len, 9);
                let (mut dst, mut again) = (vec![0; codec.bound(len)], vec![0; len]);
                let before = CALLS.get();
                let result = codec.compress(&src, &mut dst, len * 3 / 4, &mut scratch);
                if let memfold_codec::Compressed::Fits(size) = result {
                    codec.decompress(&dst[..size], &mut again, &mut scratch).unwrap();
                }
                // Bytes that are not a form.
                let _ = codec.decompress(&src, &mut again, &mut scratch);
                if CALLS.get() != before {
                    calling.insert(codec.name());
                }
            }
        }
    }
    #[cfg(feature = "dict")]
    no_dictionary_allocates_per_block();
    assert!(CALLS.get() > 0, "the test must see the calls it looks for");
    assert!(calling.is_empty(), "{calling:?}");
}

/// Training allocates; compressing blocks between rounds does not, whether they are collected or compressed
/// with a dictionary.
#[cfg(feature = "dict")]
fn no_dictionary_allocates_per_block() {
    use memfold_codec::dict::{Dictionaries, version_of};
    use memfold_codec::{Codec, Compressed};
    let set = Dictionaries::new(1).unwrap();
    let mut memory = ScratchBuf::for_codecs([&set as &dyn Codec], 1024);
    let mut scratch = memory.scratch();
    set.maintain(0);
    let mut with = 0;
    for round in 0..8 {
        let blocks: Vec<_> = (0..512).map(|i| block("text", 1024, round * 1000 + i)).collect();
        let (mut dst, mut again) = (vec![0; set.bound(1024)], vec![0; 1024]);
        let before = CALLS.get();
        for block in &blocks {
            let Compressed::Fits(size) = set.compress(block, &mut dst, usize::MAX, &mut scratch) else {
                panic!()
            };
            set.decompress(&dst[..size], &mut again, &mut scratch).unwrap();
            with += u32::from(version_of(&dst[..size]) != Some(0));
            assert!(again == *block);
        }
        assert_eq!(CALLS.get(), before, "round {round}");
        set.maintain(1 << 40);
    }
    assert!(with > 0, "no dictionary was used");
}
