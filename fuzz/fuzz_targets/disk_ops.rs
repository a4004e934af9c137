//! Requests to a RAM disk, compared with an array that is changed in the same way.
//!
//! ```text
//!   kind, 1 byte | step | step | ──
//!   step         what, 1 byte | offset, 2 bytes | length, 2 bytes | content, 1 byte
//!   offset       in units of 64 bytes; length in bytes, or in pages
//! ```
//!
//! A request that is refused at the limit leaves each page either as it was or as requested.
#![no_main]

#[path = "heap/input.rs"]
mod input;

use std::time::Duration;

use input::Input;
use libfuzzer_sys::fuzz_target;
use memfold_disk::{BackingFile, Disk, Error, Options, PAGE};

/// Several leaves, and a part of a page. If all of it is noise, it does not fit into the limit.
const SIZE: usize = 2600 * PAGE + 700;
const LIMIT: u64 = 8 << 20;
/// Steps of one run.
const STEPS: usize = 400;

/// What is written: noise, a few letters, a repeated byte, zeros, or a copy from elsewhere.
fn content(kind: u8, seed: u64, array: &[u8], bytes: &mut [u8]) {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    match kind % 6 {
        0 => bytes.iter_mut().for_each(|byte| *byte = next() as u8),
        1 | 2 => bytes.iter_mut().for_each(|byte| *byte = next() as u8 % 20),
        3 => bytes.fill(kind),
        4 => bytes.fill(0),
        _ => {
            let from = (seed as usize % 1000) * PAGE;
            let len = bytes.len().min(array.len() - from);
            bytes[..len].copy_from_slice(&array[from..from + len]);
        }
    }
}

/// Checks that each page of a refused request is as it was or as requested, and updates the array.
fn take_what_is_there(disk: &Disk, array: &mut [u8], offset: usize, wanted: &[u8]) {
    let end = offset + wanted.len();
    for first in (offset / PAGE * PAGE..end).step_by(PAGE) {
        let part = first.max(offset)..(first + PAGE).min(end);
        let mut there = vec![0; part.len()];
        disk.read(part.start as u64, &mut there).unwrap();
        let wanted = &wanted[part.start - offset..part.end - offset];
        assert!(there == wanted || there == array[part.clone()], "page {first}");
        array[part].copy_from_slice(&there);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let kind = input.byte();
    let codec = |name| memfold_codec::codec(name).unwrap();
    let mut options = Options::new(SIZE as u64);
    (options.fast, options.dense) = (codec("lz4"), (kind & 1 == 0).then(|| codec("zstd:1")));
    options.block_pages = [2, 4, 8][usize::from(kind >> 1) % 3];
    options.limit = LIMIT;
    options.share = kind & 8 != 0;
    options.resident = Some(if kind & 16 != 0 { 1 << 20 } else { 0 });
    options.cold = Duration::ZERO;
    let place = std::env::temp_dir().join(format!("memfold-fuzz-{}", std::process::id()));
    if kind & 32 != 0 {
        options.backing = Some(BackingFile { path: place, size: Some(1 << 20) });
    }
    let disk = Disk::new(options).unwrap();
    let mut array = vec![0; SIZE];
    for step in 0..STEPS as u64 {
        if input.0.is_empty() {
            break;
        }
        let (what, offset, len, kind) = (input.byte(), input.short(), input.short(), input.byte());
        let offset = (usize::from(offset) * 64 * if what & 64 != 0 { 64 } else { 1 }) % SIZE;
        let len = if what & 128 != 0 { usize::from(len % 400) * PAGE } else { usize::from(len % 9000) };
        let len = len.min(SIZE - offset);
        let range = offset..offset + len;
        match what % 10 {
            0..4 => {
                let mut bytes = vec![0; len];
                content(kind, step << 8 | u64::from(kind), &array, &mut bytes);
                match disk.write(offset as u64, &bytes) {
                    Ok(()) => array[range].copy_from_slice(&bytes),
                    Err(Error::Full) => take_what_is_there(&disk, &mut array, offset, &bytes),
                    Err(error) => panic!("{error}"),
                }
            }
            4 | 5 => {
                let done = match what % 10 {
                    4 => disk.trim(offset as u64, len as u64),
                    _ => disk.zero(offset as u64, len as u64),
                };
                match done {
                    Ok(()) => array[range].fill(0),
                    Err(Error::Full) => take_what_is_there(&disk, &mut array, offset, &vec![0; len]),
                    Err(error) => panic!("{error}"),
                }
            }
            6 | 7 => {
                let mut bytes = vec![0xa5; len];
                disk.read(offset as u64, &mut bytes).unwrap();
                assert!(bytes == array[range]);
            }
            8 => {
                let mut at = offset as u64;
                while let Some(extent) = disk.extent(at, (offset + len) as u64) {
                    let bytes = &array[at as usize..][..extent.len as usize];
                    assert!(!extent.is_hole || bytes.iter().all(|&byte| byte == 0));
                    at += extent.len;
                }
                assert_eq!(at, (offset + len) as u64);
            }
            _ => disk.condense().unwrap(),
        }
    }
    let mut bytes = vec![0xa5; SIZE];
    disk.read(0, &mut bytes).unwrap();
    assert!(bytes == array);
    assert!(disk.stats().peak_memory_bytes <= LIMIT);
    disk.trim(0, SIZE as u64).unwrap();
    let stats = disk.stats();
    assert!(stats.logical_bytes == 0 && stats.payload_bytes == 0 && stats.blobs == 0, "{stats:?}");
});
