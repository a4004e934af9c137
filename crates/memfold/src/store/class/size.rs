//! Size classes: how long the slot for a blob of a given size is.
//!
//! Slots grow in steps of 16 bytes up to 8 KiB (classes 0 to 511), above that
//! in 128 steps for each doubling, so that rounding costs at most 1/128 of a
//! large blob:
//!
//! ```text
//!   class    0    1  ..   511 |  512   513  ..   639 |   640 .. | 1919
//!   slot    16   32  ..  8192 | 8256  8320  .. 16384 | 16512 .. | 16 MiB
//!   step        16            |        64            |   128 .. | 64 KiB
//! ```
//!
//! Each class has unused memory: the rest of its last page, a reserve, the headers of a group. While there
//! are few blobs, this exceeds what longer slots would waste. So only one class in every **grain** of classes
//! is used then, and all of them when there are many blobs. A grain is at most 16 classes, or 8 above 8 KiB.
//! With `n` blobs and one class in `g`, the waste is about `8 n g` bytes and the slack some kilobytes for
//! each of `512 / g` classes; the sum is least where `g * g * n` is [`WORTH`].

/// Slots are longer than their blobs by less than this; the header records by how much.
pub(in crate::store) const PAD_LIMIT: usize = 1 << 16;

/// Steps of 16 bytes up to this size of a slot.
const FINE_LIMIT: usize = 8192;
const FINE_CLASSES: usize = FINE_LIMIT / 16;
/// Steps in each doubling above that size.
const STEPS: usize = 128;
/// Doublings above that size: up to 16 MiB.
const DOUBLINGS: usize = 11;

pub(in crate::store) const CLASSES: usize = FINE_CLASSES + STEPS * DOUBLINGS;
/// The most bytes that one blob's payload may have.
pub const MAX_PAYLOAD: usize = FINE_LIMIT << DOUBLINGS;

/// The smallest class whose slots hold `payload` bytes.
pub(in crate::store) fn class_of(payload: usize) -> Option<usize> {
    if payload > MAX_PAYLOAD {
        return None;
    }
    let last = payload.saturating_sub(1);
    if last < FINE_LIMIT {
        return Some(last / 16);
    }
    let octave = last.ilog2() as usize - FINE_LIMIT.ilog2() as usize;
    let step_shift = octave + FINE_LIMIT.ilog2() as usize - STEPS.ilog2() as usize;
    Some(FINE_CLASSES + octave * STEPS + (last >> step_shift) - STEPS)
}

/// See the module; measured with blobs of 1 to 8 KiB.
const WORTH: usize = 1 << 18;
/// At least one in this many classes is used.
pub(in crate::store) const MOST_GRAIN: usize = 16;
const MOST_GRAIN_ABOVE: usize = 8;

/// The class for a blob of `payload` bytes when there are `blobs` blobs.
pub(in crate::store) fn class_among(payload: usize, blobs: usize) -> Option<usize> {
    let exact = class_of(payload)?;
    // A slot exceeds its blob by at most an eighth, and by no more than a header can record.
    let most = match exact.checked_sub(FINE_CLASSES) {
        None => (payload / 128).min(MOST_GRAIN),
        Some(above) => MOST_GRAIN_ABOVE.min(PAD_LIMIT / step_bytes(above / STEPS)),
    };
    let best = (WORTH / blobs.max(1)).isqrt().min(most).max(1);
    Some(exact | ((best + 1).next_power_of_two() / 2 - 1))
}

/// Bytes of a slot of `class`.
pub(in crate::store) const fn slot_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        return (class + 1) * 16;
    }
    let octave = (class - FINE_CLASSES) / STEPS;
    (FINE_LIMIT << octave) + ((class - FINE_CLASSES) % STEPS + 1) * step_bytes(octave)
}

/// By how much slots grow from one class to the next, `octave` doublings above the fine ones.
const fn step_bytes(octave: usize) -> usize {
    (FINE_LIMIT << octave) / STEPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_slot_that_holds_it() {
        let mut payload = 0;
        while payload <= MAX_PAYLOAD {
            let class = class_of(payload).unwrap();
            assert!(class < CLASSES && slot_bytes(class) >= payload, "{payload}");
            assert!(class == 0 || slot_bytes(class - 1) < payload, "{payload}");
            let waste = slot_bytes(class) - payload;
            assert!(waste <= 16 || waste * 128 <= slot_bytes(class), "{payload}: {waste}");
            payload += 1 + payload / 4099;
        }
        assert_eq!(slot_bytes(CLASSES - 1), MAX_PAYLOAD);
        assert_eq!(class_of(MAX_PAYLOAD), Some(CLASSES - 1));
        assert_eq!(class_of(MAX_PAYLOAD + 1), None);
    }

    #[test]
    fn few_blobs_share_classes() {
        for blobs in [0, 1, 100, 1000, 20_000, 1 << 18, 10_000_000] {
            let mut classes = std::collections::BTreeSet::new();
            for payload in (0..=MAX_PAYLOAD).step_by(61) {
                let (exact, class) = (class_of(payload).unwrap(), class_among(payload, blobs).unwrap());
                assert!(class >= exact && class < CLASSES && (blobs < 1 << 18 || class == exact));
                let waste = slot_bytes(class) - payload;
                assert!(waste <= 16 || waste * 7 <= payload, "{payload} of {blobs}: {waste}");
                assert!(waste < PAD_LIMIT, "{payload} of {blobs}: {waste}");
                classes.insert(class);
            }
            assert!(blobs > 1000 || classes.len() < CLASSES / 4, "{blobs}: {}", classes.len());
        }
    }

    #[test]
    fn slots_grow_and_are_aligned() {
        for class in 0..CLASSES {
            assert_eq!(slot_bytes(class) % 16, 0);
            assert!(class == 0 || slot_bytes(class) > slot_bytes(class - 1));
            assert_eq!(class_of(slot_bytes(class)), Some(class));
        }
    }
}
