//! The C libraries contain calls of `malloc`. None of them is ever reached: the
//! runtime works where the program's allocator must not be called.
//!
//! This file has its own `malloc`, so it holds one test and nothing else.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod common;

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{KINDS, PIPELINES, block};
use memfold_codec::{ScratchBuf, all, codec};

static CALLS: AtomicUsize = AtomicUsize::new(0);

// The names under which glibc offers its allocator to those who replace it.
unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: passes on what it was asked.
    unsafe { __libc_malloc(size) }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: passes on what it was asked.
    unsafe { __libc_calloc(count, size) }
}

/// # Safety
/// As for C's `free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(memory: *mut c_void) {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: passes on what it was asked.
    unsafe { __libc_free(memory) }
}

#[test]
fn no_codec_calls_the_allocator() {
    let mut calling = BTreeSet::new();
    for len in [1, 4096, 4097, 150_000] {
        // These, for which one must ask, do allocate.
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
                let before = CALLS.load(Relaxed);
                let result = codec.compress(&src, &mut dst, len * 3 / 4, &mut scratch);
                if let memfold_codec::Compressed::Fits(size) = result {
                    codec.decompress(&dst[..size], &mut again, &mut scratch).unwrap();
                }
                // Once more with nothing to be right about.
                let _ = codec.decompress(&src, &mut again, &mut scratch);
                if CALLS.load(Relaxed) != before {
                    calling.insert(codec.name());
                }
            }
        }
    }
    assert!(CALLS.load(Relaxed) > 0, "the test must see the calls it looks for");
    assert!(calling.is_empty(), "{calling:?}");
}
