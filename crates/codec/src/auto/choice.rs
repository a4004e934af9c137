//! How a candidate is chosen for a block.
//!
//! For each candidate there is an expectation of the size: for those with an estimate, that times what it had to be
//! multiplied by of late; for the others the mean of late; both in the class of the block. The candidate
//! with the least expected size and price goes first, price being the time it takes at so many bytes for a microsecond.
//! The next one must promise to be smaller than what is there already by more than its own price; when none does, or
//! the result is as small as the threshold of acceptance, that is it. Where all blocks of a class came to nothing, none
//! promises anything, and nothing is tried.
//!
//! What is never tried is never learned about, so each candidate is tried in vain now and then: at once when it
//! is new, then after twice as many blocks of the class each time that it came to nothing.

use super::estimate::{self, Residuals};
use super::state::{Candidate, Entry, KEYS, View};

/// How hard to try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// What 16 nanoseconds may cost, in 4096ths of a page of 4096 bytes: of a byte, that is.
    pub price: u32,
    /// Residuals are estimated for one in so many blocks of a class; never for 0.
    pub estimate: u32,
    /// How unsure expectations are taken to be: so many 16ths of what sizes spread.
    pub doubt: u32,
    /// Two to the power of this is the most blocks of a class between trials in vain.
    pub patience: u8,
    /// The most trials in vain for a block.
    pub vain: u32,
}

/// A size in 4096ths of the block.
fn scaled(size: usize, len: usize) -> u32 {
    (size * 4096).div_ceil(len).min(60_000) as u32
}

/// What is there so far.
struct Best {
    /// Bytes of the form with its tag; one more than may be before there is any.
    size: usize,
    found: bool,
}

/// Compresses `src` into `dst`, which is as long as the form may be; how long it is, if any candidate made one.
pub(super) fn compress(
    effort: &Effort,
    acceptance: u32,
    src: &[u8],
    dst: &mut [u8],
    mut view: View<'_>,
) -> Option<usize> {
    let (len, count) = (src.len(), view.candidates.len());
    let class = estimate::look(src);
    view.visits[class] = view.visits[class].wrapping_add(1);
    let visit = view.visits[class];
    let mut estimates = [0; KEYS + 1];
    let estimated = effort.estimate > 0
        && class != estimate::NOISE
        && visit.is_multiple_of(effort.estimate)
        && estimate_all(src, view.keys, &mut estimates);

    let mut tried = [0_u64; 4];
    let mut best = Best { size: dst.len() + 1, found: false };
    // What the first trial came to against what was expected, in 256ths.
    let mut surprise = 256;
    let (mut trials, mut vain) = (0, 0);
    loop {
        let now = scaled(best.size - 1, len);
        let mut next = None;
        let mut least = now;
        for i in (0..count).filter(|i| tried[i / 64] >> (i % 64) & 1 == 0) {
            let candidate = &view.candidates[i];
            let estimate = if estimated { estimates[usize::from(candidate.key)] } else { 0 };
            let Some(expected) = expect(effort, &view, class, i, estimate, surprise) else { continue };
            let with_price = expected + (u32::from(candidate.cost) * effort.price >> 12);
            if with_price < least {
                (next, least) = (Some(i), with_price);
            }
        }
        let mut in_vain = false;
        if next.is_none() && vain < effort.vain {
            next = due(&view, class, visit, &tried);
            in_vain = true;
            vain += 1;
        }
        let Some(i) = next else { break };
        tried[i / 64] |= 1 << (i % 64);
        let size = attempt(&mut view, i, src, dst, &mut best);
        let result = match size {
            Some(size) => (scaled(size, len), true),
            None => (now, false),
        };
        let key = usize::from(view.candidates[i].key);
        let estimate = if estimated && key < KEYS { u32::from(estimates[key]) } else { 0 };
        if trials == 0 && result.1 {
            let entry = &view.entries[class * count + i];
            if entry.mean != Entry::UNSEEN && estimate == 0 {
                surprise = (128 + result.0 * 128 / u32::from(entry.mean.max(1))).clamp(160, 384);
            }
        }
        trials += 1;
        let all = estimate::CLASSES * count + i;
        learn(&mut view.entries[class * count + i], result, estimate);
        learn(&mut view.entries[all], result, estimate);
        let entry = &mut view.entries[class * count + i];
        let worth = result.1 && result.0 + (u32::from(view.candidates[i].cost) * effort.price >> 12) < now;
        entry.interval = match in_vain {
            true if worth => entry.interval / 2,
            true => (entry.interval + 1).min(effort.patience),
            false => entry.interval,
        };
        entry.due = (visit as u16).wrapping_add(1 << entry.interval);
        if best.found && scaled(best.size, len) <= acceptance {
            break;
        }
    }
    best.found.then_some(best.size)
}

fn estimate_all(src: &[u8], keys: &[u8], estimates: &mut [u16; KEYS + 1]) -> bool {
    let Some(mut residuals) = Residuals::new(src) else { return false };
    for (estimate, &key) in estimates.iter_mut().zip(keys) {
        *estimate = residuals.estimate(estimate::Key::from_number(key)).max(1);
    }
    !keys.is_empty()
}

/// The size that a candidate is expected to make; `None` if nothing is known.
#[inline]
fn expect(
    effort: &Effort,
    view: &View<'_>,
    class: usize,
    i: usize,
    estimate: u16,
    surprise: u32,
) -> Option<u32> {
    let count = view.candidates.len();
    let mut entry = &view.entries[class * count + i];
    if entry.mean == Entry::UNSEEN {
        entry = &view.entries[estimate::CLASSES * count + i];
        if entry.mean == Entry::UNSEEN || class == estimate::NOISE {
            return None;
        }
    }
    let expected = if estimate > 0 {
        u32::from(estimate) * u32::from(entry.factor) >> 10
    } else {
        u32::from(entry.mean) * surprise >> 8
    };
    let doubt = expected * u32::from(entry.spread) * effort.doubt >> 12;
    Some(expected.saturating_sub(doubt))
}

/// A candidate that it is time to try whatever is expected.
fn due(view: &View<'_>, class: usize, visit: u32, tried: &[u64; 4]) -> Option<usize> {
    let count = view.candidates.len();
    let entries = &view.entries[class * count..][..count];
    let late = |entry: &Entry| (visit as u16).wrapping_sub(entry.due).cast_signed();
    let open = |i: &usize| tried[i / 64] >> (i % 64) & 1 == 0 && late(&entries[*i]) >= 0;
    let open = (0..count).filter(open);
    open.min_by_key(|&i| if entries[i].mean == Entry::UNSEEN { 0 } else { 1 })
}

/// Has candidate `i` compress the block, if that comes to less than what is there. Its size, tag included.
fn attempt(view: &mut View<'_>, i: usize, src: &[u8], dst: &mut [u8], best: &mut Best) -> Option<usize> {
    view.serve(i);
    let Candidate { tag, tag_len, .. } = view.candidates[i];
    let tag = &tag[..usize::from(tag_len)];
    let chain = view.candidates[i].chain()?;
    let room = (best.size - 1).checked_sub(tag.len()).filter(|&room| room > 0)?;
    // The first form goes where it may stay, a better one comes there later.
    let to = if best.found { &mut view.form[..room] } else { &mut dst[tag.len()..][..room] };
    let size = chain.forward_with(src, to, view.buffers, view.each, view.scratches)?;
    if best.found {
        dst[tag.len()..][..size].copy_from_slice(&view.form[..size]);
    }
    dst[..tag.len()].copy_from_slice(tag);
    *best = Best { size: tag.len() + size, found: true };
    Some(best.size)
}

/// Remembers what came of a trial: a size, or at least how large it is.
fn learn(entry: &mut Entry, (size, exact): (u32, bool), estimate: u32) {
    // Of what was given up only so much is known; it was no better than what was there.
    let size = if exact { size } else { size + size / 16 };
    let mean = u32::from(entry.mean);
    if entry.mean == Entry::UNSEEN {
        entry.mean = size.min(60_000) as u16;
        if estimate > 0 {
            entry.factor = (size * 1024 / estimate).min(60_000) as u16;
        }
        return;
    }
    let toward = |old: u32, new: u32| (old * 3 + new) / 4;
    if exact || size > mean {
        let off = (mean.abs_diff(size) * 256 / mean.max(1)).min(255);
        entry.spread = toward(entry.spread.into(), off) as u8;
        entry.mean = toward(mean, size) as u16;
    }
    if estimate > 0 {
        let factor = (size * 1024 / estimate).min(60_000);
        if exact || factor > entry.factor.into() {
            entry.factor = toward(entry.factor.into(), factor) as u16;
        }
    }
}
