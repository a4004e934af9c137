//! The memory of frames.
//!
//! ```text
//!   group    images  | frame 0 | frame 1 | frame 2 | ..      a block each, no gaps: so huge pages lose nothing
//!            starts  | 0 | 1 | 2 | ..                        a bit a place, see `block/marks.rs`
//!            checks  | 0 | 1 | 2 | ..                        a byte a place
//! ```
//!
//! Frames are made in groups, with address space for everything that their blocks can need. They get memory
//! when a block needs it: an image when the block comes, starts if its nodes have different sizes, checks if
//! it has had more than one generation.
//!
//! **Huge pages** speed up a heap that is larger than the processor's TLB covers: with small pages, the
//! processor walks the page tables for most nodes. Huge pages must not cost memory, so no more than one byte
//! in [`HOLLOW`] may be hollow (`area.rs`). The first 128 MiB or so of a heap get small pages. Beyond that a
//! unit gets its memory at once. Full units of small pages are collapsed into huge ones. That costs time but
//! no memory, so it happens only in a heap of 16 MiB or more, while it grows slowly, and for no more than a
//! sixteenth of the time. Frames with the lowest numbers are taken first, so units fill up one after the
//! other. When frames are given back, some memory stays hollow: one byte in [`HOLLOW`] while the heap grows,
//! since it will be needed soon, and one byte in [`KEPT_HOLLOW`] when the heap shrinks. Beyond that, the
//! units with the most hollow pages are split.

#[cfg(test)]
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::vec;
use std::vec::Vec;

use super::Frame;
use super::area::{Area, HOLLOW, KEPT_HOLLOW, Tally};
use crate::SystemMemory;
use crate::heap::block::layout::Shape;
use crate::heap::block::layout::image::Image;
use crate::heap::block::marks::{Form, Marks};
use crate::heap::block::segments::Segments;
use crate::heap::residency::policy::Uses;
use crate::store::Memory;

/// Bytes of images for which a group reserves address space: as many as all groups so far have, within these
/// bounds.
const LEAST_GROUP: usize = 4 << 20;
const MOST_GROUP: usize = 64 << 20;
/// A heap of this many units or more gains from replacing small pages by huge ones.
const COLLAPSED_FROM: u64 = 8;
/// The heap does not count as growing or shrinking when up to this many frames are taken and given back, as
/// for a few blocks that are repacked.
const SWING: u64 = 32;
/// The next collapse comes after this many times the time that the last one took.
const REST: u32 = 16;
/// The assumed time of a collapse while none has been measured.
const USUAL: Duration = Duration::from_millis(1);

/// What a frame has memory for: the bits of `has`, and the indices of areas.
const IMAGE: usize = 0;
const STARTS: usize = 1;
const CHECKS: usize = 2;
/// A further bit: the frame has held a block, so its image may hold anything. Before that it is zero, as
/// fresh memory from the system is.
const USED: usize = 3;

/// Where a frame's marks lie.
struct Beside([AtomicPtr<u8>; 2]);

/// All frames of a heap.
pub struct Frames {
    list: Segments<Frame>,
    beside: Segments<Beside>,
    /// Bytes of a frame in each area.
    sizes: [usize; 3],
    huge: Option<usize>,
    made: Mutex<Made>,
}

/// Frames that share their areas.
struct Group {
    first: u32,
    frames: u32,
    areas: [Area; 3],
}

#[derive(Default)]
struct Made {
    count: u32,
    groups: Vec<Group>,
    tally: Tally,
    trend: Trend,
    /// Units that were full when they were added: group and number.
    full: Vec<(usize, usize)>,
    /// When the next unit may be collapsed, and what all areas took when that was decided.
    next: Option<Instant>,
    before: u64,
}

/// Whether a heap grows or shrinks. Packing blocks takes some frames and gives back about as many, again and
/// again; that counts as neither.
#[derive(Default)]
struct Trend {
    /// The most bytes that frames had while it grew, or the fewest since it began to shrink.
    turn: u64,
    shrinks: bool,
}

impl Trend {
    /// Notes how many bytes frames have now; a change of up to `nothing` bytes is not a turn.
    fn note(&mut self, bytes: u64, nothing: u64) {
        let is_turn = if self.shrinks { bytes > self.turn + nothing } else { bytes + nothing < self.turn };
        self.shrinks ^= is_turn;
        self.turn = match self.shrinks {
            _ if is_turn => bytes,
            true => self.turn.min(bytes),
            false => self.turn.max(bytes),
        };
    }
}

impl Made {
    /// Notes how much memory frames take now.
    fn note(&mut self, stride: usize) {
        let Tally { committed, hollow } = self.tally;
        self.trend.note(committed - hollow, (committed / HOLLOW).max(SWING * stride as u64));
    }

    /// The group of a frame, and its number there.
    fn home(&self, number: u32) -> (usize, usize) {
        let group = self.groups.partition_point(|group| group.first <= number) - 1;
        (group, (number - self.groups[group].first) as usize)
    }

    /// Provides memory for a frame in one area.
    fn provide(&mut self, number: u32, area: usize, huge: Option<usize>) -> bool {
        let (group, item) = self.home(number);
        let mut full = vec![];
        if !self.groups[group].areas[area].provide(item, &mut self.tally, &mut full) {
            return false;
        }
        for unit in full {
            if !self.full.contains(&(group, unit)) {
                self.full.push((group, unit));
            }
        }
        if let Some(unit) = huge.filter(|_| !self.full.is_empty()) {
            self.collapse(unit);
        }
        true
    }

    /// In a large heap, now and then makes a huge page of one of the full units; not more often, since the
    /// system copies the whole unit. Does nothing while the heap grows fast, since filling one block after
    /// the other is not slowed by page table walks.
    fn collapse(&mut self, unit: usize) {
        let (begin, committed) = (Instant::now(), self.tally.committed);
        if committed < unit as u64 * COLLAPSED_FROM || self.next.is_some_and(|next| begin < next) {
            return;
        }
        let is_fast = self.next.is_none() || committed > self.before + unit as u64;
        let mut took = USUAL;
        while let Some((group, unit)) = self.full.pop_if(|_| !is_fast) {
            if self.groups[group].areas[IMAGE].collapse(unit) {
                took = begin.elapsed();
                break;
            }
        }
        self.before = committed;
        self.next = took.checked_mul(REST).and_then(|rest| Instant::now().checked_add(rest));
    }

    /// Splits units until no more is hollow than allowed.
    fn split(&mut self) {
        let part = if self.trend.shrinks { KEPT_HOLLOW } else { HOLLOW };
        while self.tally.hollow > self.tally.committed / part {
            let each = self.groups.iter().enumerate();
            let hollowest = each
                .filter_map(|(group, it)| {
                    it.areas[IMAGE].hollowest().map(|(pages, unit)| (pages, group, unit))
                })
                .max();
            let Some((_, group, unit)) = hollowest else { return };
            // A unit that the system can't split stays, and is counted.
            if !self.groups[group].areas[IMAGE].split(unit, &mut self.tally) {
                return;
            }
        }
    }
}

impl Frames {
    /// No frames yet; each will have room for a block of up to `bytes` bytes with up to `places` places for
    /// nodes.
    pub fn new(bytes: usize, places: usize) -> Self {
        Frames::with(bytes, places, SystemMemory.huge_page())
    }

    /// As `new`, with huge pages of this size.
    pub(super) fn with(bytes: usize, places: usize, huge: Option<usize>) -> Self {
        let page = SystemMemory.page_size();
        let stride = bytes.next_multiple_of(if bytes > page { page } else { 64 });
        let form = Form::new(0, places);
        let [starts, checks] = [form.starts(), form.checks()].map(|range| range.len().next_multiple_of(64));
        let sizes = [stride, starts, checks];
        Frames { list: Segments::new(), beside: Segments::new(), sizes, huge, made: Mutex::default() }
    }

    /// Bytes of a frame's image.
    pub fn stride(&self) -> usize {
        self.sizes[IMAGE]
    }

    /// The most bytes that a frame takes, including marks and tables, if there are so many frames that huge
    /// pages cost nothing.
    pub fn most_bytes(&self) -> usize {
        self.sizes.iter().sum::<usize>() + size_of::<Frame>() + size_of::<Beside>()
    }

    /// How many frames fit into `bytes`.
    pub fn within(&self, bytes: u64) -> u32 {
        // The entries of returned frames stay.
        let entries = self.list.bytes() + self.beside.bytes();
        let images = bytes.saturating_sub(entries) / self.sizes.iter().sum::<usize>() as u64;
        let frames = images.min(bytes / self.most_bytes() as u64);
        // Memory of returned frames is kept hollow only where there are huge pages, so not in a heap that was
        // never that large.
        let large = |unit| frames * self.stride() as u64 >= unit as u64 * (COLLAPSED_FROM / 2);
        let hollow = if self.huge.is_some_and(large) { frames.div_ceil(HOLLOW) } else { 0 };
        (frames - hollow).min(u32::MAX.into()) as u32
    }

    /// The frame with that number, which [`Frames::make`] returned.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Frame> {
        self.list.get(number)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one more frame, without memory yet; `None` if the system has no address space left.
    pub fn make(&self) -> Option<u32> {
        let mut made = self.made();
        let number = made.count;
        let frame = self.list.make(number, Frame::new)?;
        let none = || Beside([const { AtomicPtr::new(ptr::null_mut()) }; 2]);
        let Beside(marks) = self.beside.make(number, none)?;
        let end = made.groups.last().map_or(0, |group| group.first + group.frames);
        if number == end {
            let bytes = (end as usize).saturating_mul(self.stride()).clamp(LEAST_GROUP, MOST_GROUP);
            let frames = (bytes / self.stride()).max(1);
            let area = |area: usize, huge| Area::new(frames, self.sizes[area], huge);
            let areas = [area(IMAGE, self.huge)?, area(STARTS, None)?, area(CHECKS, None)?];
            made.groups.try_reserve(1).ok()?;
            made.groups.push(Group { first: number, frames: frames as u32, areas });
        }
        let (group, item) = made.home(number);
        let [image, starts, checks] = &made.groups[group].areas;
        marks[0].store(starts.at(item).as_ptr(), Relaxed);
        marks[1].store(checks.at(item).as_ptr(), Relaxed);
        frame.base.store(image.at(item).as_ptr(), Release);
        made.count += 1;
        Some(number)
    }

    /// The number of frames.
    pub fn count(&self) -> u32 {
        self.made().count
    }

    /// Makes sure that a frame has memory for its image, and for starts and checks if they are wanted; false
    /// if the system has none. The caller has the frame for itself or holds its block's lock.
    #[inline]
    pub fn provide(&self, number: u32, starts: bool, checks: bool) -> bool {
        let Some(frame) = self.get(number) else { return false };
        let wanted = 1 << IMAGE | u8::from(starts) << STARTS | u8::from(checks) << CHECKS;
        frame.has.load(Relaxed) & wanted == wanted || self.commit(number, frame, wanted)
    }

    #[cold]
    fn commit(&self, number: u32, frame: &Frame, wanted: u8) -> bool {
        let mut made = self.made();
        [IMAGE, STARTS, CHECKS].into_iter().all(|area| {
            let (bit, has) = (1 << area, frame.has.load(Relaxed));
            if wanted & bit == 0 || has & bit != 0 {
                return true;
            }
            let done = made.provide(number, area, self.huge);
            if done {
                frame.has.store(has | bit, Relaxed);
                made.note(self.stride());
            }
            done
        })
    }

    /// Notes that a block is about to enter a frame that belongs to the caller. Returns whether it is the
    /// first block in the frame, so that the frame's image is zero.
    pub fn is_first_use(&self, number: u32) -> bool {
        self.get(number).is_some_and(|frame| frame.has.fetch_or(1 << USED, Relaxed) >> USED & 1 == 0)
    }

    /// The marks that the block in a frame has; none without memory for them.
    pub fn marks(&self, number: u32, shape: Shape, checks: bool) -> Marks {
        let form = Form::new(0, shape.places());
        let has = self.get(number).map_or(0, |frame| frame.has.load(Relaxed));
        let image = |area: usize, wanted: bool, len: usize| {
            let start =
                self.beside.get(number).and_then(|Beside(marks)| NonNull::new(marks[area - 1].load(Relaxed)));
            match start.filter(|_| wanted && has >> area & 1 != 0) {
                // SAFETY: memory that the frame owns, which lives as long as the heap and begins at a
                // multiple of 64; as in `Frame::image`.
                Some(start) => unsafe { Image::new(start, len) },
                None => Image::NOTHING,
            }
        };
        let has_starts = matches!(shape, Shape::Mixed(_));
        Marks::new(image(STARTS, has_starts, form.starts().len()), image(CHECKS, checks, form.checks().len()))
    }

    /// Returns the memory of a frame without a block to the system.
    pub fn shrink(&self, number: u32) {
        let mut made = self.made();
        let Some(frame) = self.get(number) else { return };
        let has = frame.has.fetch_and(1 << USED, Relaxed);
        let (group, item) = made.home(number);
        let Made { groups, tally, .. } = &mut *made;
        for area in [IMAGE, STARTS, CHECKS].into_iter().filter(|area| has >> area & 1 != 0) {
            groups[group].areas[area].give_back(item, tally);
        }
        made.note(self.stride());
        made.split();
    }

    /// Bytes of memory: frames and their tables.
    pub fn bytes(&self) -> u64 {
        let made = self.made();
        let tables = made.groups.iter().flat_map(|group| &group.areas).map(Area::table_bytes).sum::<usize>();
        made.tally.committed
            + (tables + size_of::<Group>() * made.groups.capacity()) as u64
            + self.list.bytes()
            + self.beside.bytes()
    }

    /// Whether the counts are right.
    pub fn check(&self) -> bool {
        let made = self.made();
        let has = |number: u32, area: usize| {
            self.get(number).is_some_and(|frame| frame.has.load(Relaxed) >> area & 1 != 0)
        };
        let mut all = Tally::default();
        for Group { first, frames, areas } in &made.groups {
            for (number, area) in areas.iter().enumerate() {
                let in_use =
                    |item: usize| *first + (item as u32) < made.count && has(first + item as u32, number);
                let Some(tally) = area.count(in_use, *frames as usize) else { return false };
                (all.committed, all.hollow) = (all.committed + tally.committed, all.hollow + tally.hollow);
            }
        }
        all == made.tally
    }
}

#[cfg(test)]
impl Frames {
    /// The memory that all areas take.
    pub fn tally(&self) -> Tally {
        self.made().tally
    }

    /// Whether there are units to collapse.
    pub fn is_any_full(&self) -> bool {
        !self.made().full.is_empty()
    }

    /// The addresses of frames and their marks.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.made().groups.iter().flat_map(|group| &group.areas).map(Area::range).collect()
    }

    /// Units that are to be huge pages.
    pub fn whole_units(&self) -> usize {
        self.made().groups.iter().map(|group| group.areas[IMAGE].whole_units()).sum()
    }
}

impl Uses for Frames {
    fn last(&self, frame: u32) -> u32 {
        self.get(frame).map_or(0, |frame| frame.last.load(Relaxed))
    }

    fn count(&self, frame: u32) -> u32 {
        self.get(frame).map_or(0, |frame| frame.count.load(Relaxed).into())
    }
}
