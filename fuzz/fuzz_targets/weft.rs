//! The codec `weft` alone: all implementations against the reference, for units, for their forms with a few bytes
//! changed, and for bytes that were never a form.
//!
//! ```text
//!   length | effort and kind | edits, 3 bytes each: place, byte | data
//! ```
#![no_main]

use std::cell::RefCell;

use memfold_weft::{Effort, Path, Scratch, bound, compress, decompress, reference};

/// Mostly pages: longer units take longer, and have little that is new.
fn length(byte: u8) -> usize {
    match byte {
        0 => 65_536,
        1..4 => 16_384,
        4..16 => 8192,
        16..24 => usize::from(byte) * 211,
        _ => 4096,
    }
}

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch::new()));
}

fn paths() -> Vec<Path> {
    let mut paths = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: fuzzing is done on processors that have both.
        paths.extend(unsafe { [Path::sse(), Path::avx2()] });
        assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1"));
    }
    paths.push(Path::best());
    paths
}

/// All implementations restore the same, or refuse.
fn restore(form: &[u8], len: usize, scratch: &mut Scratch) -> Option<Vec<u8>> {
    let mut unit = vec![0; len];
    let result = reference::decompress(form, &mut unit, scratch);
    for path in paths() {
        let mut again = vec![0; len];
        // In a buffer of its own, whose end the sanitizer knows.
        let form: Box<[u8]> = form.into();
        assert_eq!(decompress(path, &form, &mut again, scratch), result, "{path:?}");
        assert!(result.is_err() || again == unit, "{path:?}");
    }
    result.is_ok().then_some(unit)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| SCRATCH.with_borrow_mut(|scratch| check(data, scratch)));

fn check(data: &[u8], scratch: &mut Scratch) {
    let Some((&[length, kind, edits], data)) = data.split_first_chunk::<3>() else { return };
    let len = self::length(length);
    if kind & 4 != 0 {
        restore(data, len, scratch);
        return;
    }
    let Some((edits, data)) = data.split_at_checked(usize::from(edits % 8) * 3) else { return };
    // Data that are too short repeat, as records do.
    let unit: Vec<u8> =
        if data.is_empty() { vec![0; len] } else { data.iter().copied().cycle().take(len).collect() };
    let effort = Effort::ALL[usize::from(kind & 3)];
    let mut form = vec![0; bound(len)];
    let size = reference::compress(&unit, &mut form, effort, scratch).expect("there is room for it");
    for path in paths() {
        let mut other = vec![0; bound(len)];
        assert_eq!(compress(path, &unit, &mut other, effort, scratch), Some(size), "{path:?}");
        assert!(other[..size] == form[..size], "{path:?}");
    }
    form.truncate(size);
    assert!(restore(&form, len, scratch).as_deref() == Some(&unit[..]));
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % size;
        form[at] = edit[2];
    }
    if !edits.is_empty() {
        restore(&form, len, scratch);
    }
}
