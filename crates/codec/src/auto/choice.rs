//! How a candidate is chosen for a block.
//!
//! For each class of blocks the state records the size that the best candidate recently reached (the
//! **level**), and each candidate's recent size relative to the best (its **ratio**). A candidate's expected
//! size is level times ratio. If the candidate begins with a transform and the block's residuals were
//! estimated, it is instead the estimate times a recently learned factor. The candidate with the least
//! expected size plus price goes first; the price is its time, converted to bytes. Its result gives the level
//! of this particular block. The next candidate must promise to save more than its own price; the search ends
//! when none does, or when the result is within the acceptance threshold. A promise is scaled by the
//! candidate's **trust**, the share of its recent promises that it kept. If the blocks of a class did not
//! compress, no candidate promises anything, and none is tried.
//!
//! A candidate that has won several blocks in a row goes first, or gets a trial of its own if such trials
//! have recently paid: pages mostly arrive in address order, and arrays are longer than pages.
//!
//! Nothing is learned about a candidate that is never tried, so each candidate gets an exploratory trial
//! (`in_vain`) from time to time. In a class where a candidate is new, its first exploratory trial comes
//! later the more often it failed in other classes. Each failure doubles the number of blocks of the class
//! until the next one. Together, exploratory trials and estimates may take a certain part of the time of
//! all other trials; those that pay bring time for more. So a heap, where nearly all are in vain, does not
//! pay for what arrays need.

use super::estimate::{self, Key, Residuals};
use super::list;
use super::presets::Effort;
use super::state::{Candidate, Entry, KEYS, Recent, View};

/// As [`Effort::patience`], for blocks in which nothing repeats.
const NOISE_PATIENCE: u16 = 13;

/// The bytes that a coder takes beyond the entropy, in 4096ths of a page.
const OVERHEAD: u16 = 48;

/// Gains are counted in this many parts of a 4096th.
const FRACTION: u32 = 16;

/// A result hardly ever exceeds its estimate by more than this factor, in 1024ths.
const MOST_FACTOR: u32 = 1536;

/// Coders that look at more than single bytes may get below an estimate, but hardly below one part in this
/// many of it.
const HOPE: u32 = 3;

/// After this many blocks in a row with the same winner, the winner is expected to do as well on the next.
const STREAK: u16 = 3;

/// The time of an estimate for one key, in the unit of [`Candidate::cost`].
const ESTIMATE_COST: i32 = 60;

/// An exploratory trial or an estimate that was of use brings so many times its cost for others.
const REFUND: i32 = 8;

/// The most trials for a block.
const TRIALS: usize = 16;

/// The largest size in 4096ths that is recorded: its products with a gain or a ratio, in fractions, fit.
const MOST_SCALED: u32 = 60_000;

/// A size in 4096ths of the block.
fn scaled(size: usize, len: usize) -> u32 {
    (size * 4096).div_ceil(len).min(MOST_SCALED as usize) as u32
}

/// The best result so far.
struct Best {
    /// Bytes of the form including its tag; one more than allowed if there is none yet.
    size: usize,
    found: bool,
}

/// One trial: the candidate, and the resulting size, or the size that it failed to beat.
#[derive(Clone, Copy, Default)]
struct Trial {
    candidate: usize,
    size: u32,
    exact: bool,
    /// The best size before.
    before: u32,
    /// What it promised to save, in fractions of a 4096th.
    promised: u32,
}

/// The block at hand.
struct Block {
    class: usize,
    visit: u32,
    /// By the keys of the list; zero where there is no estimate.
    estimates: [u16; KEYS + 1],
    /// The size that the best candidate is expected to reach.
    level: u32,
    tried: [u64; 4],
}

impl Block {
    fn is_tried(&self, i: usize) -> bool {
        self.tried[i / 64] >> (i % 64) & 1 == 1
    }
}

/// Compresses `src` into `dst`, whose length is the longest form allowed. Returns the form's length, if any
/// candidate made one.
pub(super) fn compress(
    effort: &Effort,
    acceptance: u32,
    src: &[u8],
    dst: &mut [u8],
    mut view: View<'_>,
) -> Option<usize> {
    let len = src.len();
    let rate = effort.price[list::place()];
    let class = estimate::look(src);
    let known = &mut view.classes[class];
    known.count = known.count.wrapping_add(1);
    let (visit, level) = (known.count, known.level);
    let mut block = Block { class, visit, estimates: [0; KEYS + 1], level, tried: [0; 4] };
    let is_time = class != estimate::NOISE && visit >= known.estimate_at && view.recent.credit >= 0;
    let estimated = is_time && estimate_all(src, view.keys, &mut block.estimates);
    let estimate_cost = if estimated { view.keys.len() as i32 * ESTIMATE_COST } else { 0 };
    view.recent.earn(-estimate_cost);

    let mut best = Best { size: dst.len() + 1, found: false };
    let mut winner = Recent::NOBODY;
    let (mut trials, mut count, mut vain) = ([Trial::default(); TRIALS], 0, 0);
    while count < TRIALS && (vain == 0 || !best.found && vain < effort.vain) {
        let now = scaled(best.size - 1, len);
        let mut next = promising(effort, rate, &view, &block, now, count == 0);
        let in_vain = next.is_none();
        if in_vain && view.recent.credit >= 0 {
            next = due(effort, &view, &block, now).map(|i| (i, 0));
            vain += 1;
        }
        let Some((i, promised)) = next else { break };
        let cost = i32::from(view.candidates[i].cost);
        view.recent.earn(if in_vain { -cost } else { cost * effort.explore / 16 });
        block.tried[i / 64] |= 1 << (i % 64);
        let size = attempt(&mut view, i, src, dst, &mut best);
        if size.is_some() {
            winner = i;
        }
        let trial = Trial {
            candidate: i,
            size: size.map_or(now + now / 16, |size| scaled(size, len)),
            exact: size.is_some(),
            before: now,
            promised,
        };
        trials[count] = trial;
        count += 1;
        if let (true, Some(ratio)) = (trial.exact, ratio(&view, class, i)) {
            block.level = (trial.size * 1024 / ratio).min(MOST_SCALED);
        }
        if in_vain {
            let gained = now.saturating_sub(trial.size) * FRACTION;
            let worth = trial.exact && gained > price(rate, &view.candidates[i], now);
            // Where one pays, others may.
            view.recent.earn(if worth { cost * REFUND } else { 0 });
            put_off(&mut view, &block, i, if worth { None } else { Some(effort.patience) });
        } else {
            put_off(&mut view, &block, i, None);
        }
        if best.found && scaled(best.size, len) <= acceptance {
            break;
        }
    }
    let end = if best.found { scaled(best.size, len) } else { scaled(dst.len(), len) * 33 / 32 };
    learn(&mut view, &block, &trials[..count], end);
    follow(effort, &mut view, &trials[..count], winner, end);
    if estimated {
        // If no transform wins, estimates are made less and less often.
        let known = &mut view.classes[class];
        let of_use = |trial: &Trial| usize::from(view.candidates[trial.candidate].key) < KEYS;
        let of_use = trials[..count].iter().any(of_use);
        let has_won = view.candidates.get(winner).is_some_and(|winner| usize::from(winner.key) < KEYS);
        view.recent.earn(if has_won { estimate_cost * REFUND } else { 0 });
        known.pause = if of_use { 1 } else { (known.pause * 2).min(64) };
        known.estimate_at = visit.wrapping_add(known.pause * effort.estimate);
    }
    best.found.then_some(best.size)
}

fn estimate_all(src: &[u8], keys: &[u8], estimates: &mut [u16; KEYS + 1]) -> bool {
    if keys.is_empty() {
        return false;
    }
    let Some(mut residuals) = Residuals::new(src) else { return false };
    for (estimate, &key) in estimates.iter_mut().zip(keys) {
        *estimate = residuals.estimate(Key::from_number(key)) + OVERHEAD;
    }
    true
}

/// What is known of each candidate in a class, and in all classes together.
fn entries<'a>(view: &'a View<'_>, class: usize) -> (&'a [Entry], &'a [Entry]) {
    let count = view.candidates.len();
    (&view.entries[class * count..][..count], &view.entries[estimate::CLASSES * count..][..count])
}

/// What is known of a candidate in a class, or in all classes if it was never tried in this one.
#[inline(always)]
fn known<'a>(here: &'a Entry, anywhere: &'a Entry, class: usize) -> Option<&'a Entry> {
    if here.ratio != Entry::UNSEEN {
        return Some(here);
    }
    (anywhere.ratio != Entry::UNSEEN && class != estimate::NOISE).then_some(anywhere)
}

fn ratio(view: &View<'_>, class: usize, i: usize) -> Option<u32> {
    let (here, anywhere) = entries(view, class);
    known(&here[i], &anywhere[i], class).map(|entry| u32::from(entry.ratio).max(1))
}

/// The most promising candidate, and how much it promises to save, in fractions of a 4096th. For the first
/// trial that is the candidate with the least expected size plus price; later it is the one that saves most
/// beyond its price, if any does.
fn promising(
    effort: &Effort,
    rate: u32,
    view: &View<'_>,
    block: &Block,
    now: u32,
    first: bool,
) -> Option<(usize, u32)> {
    let (mut next, mut most) = (None, (0, 0));
    let (here, anywhere) = entries(view, block.class);
    for (i, ((candidate, here), anywhere)) in view.candidates.iter().zip(here).zip(anywhere).enumerate() {
        if block.is_tried(i) {
            continue;
        }
        let Some(entry) = known(here, anywhere, block.class) else { continue };
        let estimate = u32::from(block.estimates[usize::from(candidate.key)]);
        let mut expected = if estimate > 0 {
            // A factor learned in other classes is of no use here.
            (estimate * u32::from(here.factor)) >> 10
        } else {
            (block.level * u32::from(entry.ratio)) >> 10
        };
        let follows = i == view.recent.winner && view.recent.streak >= STREAK;
        let (promised, gain) = if first {
            if follows {
                expected = expected.min(view.recent.size.into());
            }
            let gain = now.saturating_sub(expected) * FRACTION;
            (gain, gain)
        } else {
            // Recent savings count whatever this block looks like.
            let of_late = (now * u32::from(entry.gain) * FRACTION) >> 12;
            let promised = (now.saturating_sub(expected) * FRACTION).max(of_late);
            let gain = (promised * u32::from(entry.trust).max(effort.doubt)) >> 10;
            let follows = if follows { (now * u32::from(view.recent.gain) * FRACTION) >> 12 } else { 0 };
            (promised, gain.max(follows))
        };
        let gain = gain.saturating_sub(price(rate, candidate, now));
        if gain > most.0 {
            (next, most) = (Some(i), (gain, promised));
        }
    }
    Some((next?, most.1))
}

/// The cost of a trial, in fractions of a 4096th. It is lower for blocks that compress well, since coders are
/// faster on them.
fn price(rate: u32, candidate: &Candidate, now: u32) -> u32 {
    let whole = u32::from(candidate.cost) * rate / (4096 / FRACTION);
    (whole * (1024 + 2 * now).min(4096)) >> 12
}

/// A candidate that is due for an exploratory trial. A candidate that needs an estimate is due only if this
/// block has one and it is not hopeless.
fn due(effort: &Effort, view: &View<'_>, block: &Block, now: u32) -> Option<usize> {
    let recent = &*view.recent;
    let is_time = recent.count.wrapping_sub(recent.due).cast_signed() >= 0;
    if is_time
        && recent.streak >= STREAK
        && block.class != estimate::NOISE
        && recent.winner != Recent::NOBODY
        && !block.is_tried(recent.winner)
    {
        return Some(recent.winner);
    }
    let (here, anywhere) = entries(view, block.class);
    let is_late = |i: usize| {
        if here[i].ratio == Entry::UNSEEN {
            // The more often it failed in other classes, the longer this one waits before its first trial.
            block.visit >> anywhere[i].interval.min(effort.patience / 2) > 0
        } else {
            (block.visit as u16).wrapping_sub(here[i].due).cast_signed() >= 0
        }
    };
    let hope = |i: usize| {
        let key = usize::from(view.candidates[i].key);
        key == KEYS || (1..now * HOPE).contains(&block.estimates[key].into())
    };
    let open = (0..here.len()).filter(|&i| !block.is_tried(i) && is_late(i) && hope(i));
    open.min_by_key(|&i| u8::from(here[i].ratio != Entry::UNSEEN))
}

/// Sets when a candidate's next exploratory trial is due: later if it has just failed.
fn put_off(view: &mut View<'_>, block: &Block, i: usize, patience: Option<u16>) {
    let count = view.candidates.len();
    let (all, here) = (estimate::CLASSES * count + i, block.class * count + i);
    if view.entries[here].ratio == Entry::UNSEEN {
        // A candidate that failed in other classes will probably fail here, too.
        view.entries[here].interval = view.entries[all].interval.min(4);
    }
    // Noise must cost next to nothing.
    let patience =
        patience.map(|patience| if block.class == estimate::NOISE { NOISE_PATIENCE } else { patience });
    for entry in [all, here] {
        let entry = &mut view.entries[entry];
        entry.interval = match patience {
            Some(patience) => (entry.interval + 1).min(patience),
            None => entry.interval / 2,
        };
        entry.due = (block.visit as u16).wrapping_add(1 << entry.interval);
    }
}

/// Lets candidate `i` compress the block, and keeps the result if it is smaller than the best so far. Returns
/// its size, including the tag.
fn attempt(view: &mut View<'_>, i: usize, src: &[u8], dst: &mut [u8], best: &mut Best) -> Option<usize> {
    view.serve(i);
    let Candidate { tag, tag_len, .. } = view.candidates[i];
    let tag = &tag[..usize::from(tag_len)];
    let chain = view.candidates[i].chain()?;
    let room = (best.size - 1).checked_sub(tag.len()).filter(|&room| room > 0)?;
    // The first form is written to its final place; a better one is copied there later.
    let to = if best.found { &mut view.form[..room] } else { &mut dst[tag.len()..][..room] };
    let size = chain.forward_with(src, to, view.buffers, view.each, view.scratches)?;
    if best.found {
        dst[tag.len()..][..size].copy_from_slice(&view.form[..size]);
    }
    dst[..tag.len()].copy_from_slice(tag);
    *best = Best { size: tag.len() + size, found: true };
    Some(best.size)
}

/// Records what the winner of the previous blocks was worth here, and which candidate won this block.
fn follow(effort: &Effort, view: &mut View<'_>, trials: &[Trial], winner: usize, size: u32) {
    let recent = &mut *view.recent;
    if let Some(trial) = trials.iter().skip(1).find(|trial| trial.candidate == recent.winner) {
        let gain = trial.before.saturating_sub(trial.size) * 4096 / trial.before.max(1);
        let old = u32::from(recent.gain);
        recent.gain = if gain > old { (old * 3 + gain) / 4 } else { (old * 7 + gain) / 8 } as u16;
        recent.interval =
            if gain > 0 { recent.interval / 2 } else { (recent.interval + 1).min(effort.patience) };
        recent.due = recent.count.wrapping_add(1 << recent.interval);
    }
    recent.count = recent.count.wrapping_add(1);
    recent.streak = if winner == recent.winner { recent.streak.saturating_add(1) } else { 1 };
    (recent.winner, recent.size) = (winner, size as u16);
}

/// Records the results of the trials, of which the best is `end`.
fn learn(view: &mut View<'_>, block: &Block, trials: &[Trial], end: u32) {
    if trials.is_empty() {
        return;
    }
    let count = view.candidates.len();
    let known = &mut view.classes[block.class];
    known.level = if known.level == 0 { end } else { (known.level * 7 + end) / 8 };
    let toward = |old: u32, new: u32| (old * 3 + new) / 4;
    for (n, trial) in trials.iter().enumerate() {
        let i = trial.candidate;
        let gain = trial.before.saturating_sub(trial.size) * 4096 / trial.before.max(1);
        let estimate = u32::from(block.estimates[usize::from(view.candidates[i].key)]);
        for entry in [block.class * count + i, estimate::CLASSES * count + i] {
            let entry = &mut view.entries[entry];
            let new = entry.ratio == Entry::UNSEEN;
            let ratio = (trial.size * 1024 / end.max(1)).min(32 * 1024);
            if n > 0 {
                let saved = trial.before.saturating_sub(trial.size) * FRACTION;
                let kept = (saved * 1024).checked_div(trial.promised).map(|kept| kept.min(1024));
                let kept = kept.or((saved > 0).then_some(1024));
                if let Some(kept) = kept {
                    entry.trust = toward(entry.trust.into(), kept) as u16;
                }
                let old = u32::from(entry.gain);
                // A success counts sooner than a failure.
                entry.gain =
                    if new || gain > old { (old * 3 + gain) / 4 } else { (old * 7 + gain) / 8 } as u16;
            }
            if new {
                entry.ratio = ratio as u16;
            } else if trials.len() > 1 && (trial.exact || ratio > entry.ratio.into()) {
                // A single trial says nothing about the other candidates.
                let old = u32::from(entry.ratio);
                entry.ratio = toward(old, ratio) as u16;
            }
            if let Some(factor) = (trial.size * 1024).checked_div(estimate) {
                let factor = factor.min(MOST_FACTOR);
                if new {
                    entry.factor = factor as u16;
                } else if trial.exact || factor > entry.factor.into() {
                    entry.factor = toward(entry.factor.into(), factor) as u16;
                }
            }
        }
    }
}
