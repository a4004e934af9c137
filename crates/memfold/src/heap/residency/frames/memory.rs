//! The memory of frames.
//!
//! ```text
//!   group    images  | frame 0 | frame 1 | frame 2 | ..      a block each, no gaps: so huge pages lose nothing
//!            starts  | 0 | 1 | 2 | ..                        a bit a place, see `block/marks.rs`
//!            checks  | 0 | 1 | 2 | ..                        a byte a place
//! ```
//!
//! Frames are made in groups, with address space for all that their blocks can need. They get memory when a block needs it: images when it comes, starts
//! if its nodes have different sizes, checks if it is of more than one generation.
//!
//! **Huge pages** make a heap faster that is larger than what the processor remembers of page tables: else it reads the tables again for most nodes. They
//! must not cost memory, so no more than one byte in [`HOLLOW`] may be hollow (`area.rs`). The first 128 MiB or so of a heap get small pages. From then on a unit gets its
//! memory at once. What has small pages and is full is collapsed into huge ones, which costs no memory but time: in a heap of 16 MiB or more, while it grows slowly, so
//! that no more than a sixteenth of its time goes into it. Frames with the lowest numbers are taken first, so one unit is
//! filled after the other. When frames are given back, the memory of some is kept: as much as may be hollow while the heap grows, since it will be wanted soon, and
//! one byte in [`KEPT_HOLLOW`] when it shrinks; then those units are split that have most of it.

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

/// Bytes of images that a group has address space for: as many as there are already, within these.
const LEAST_GROUP: usize = 4 << 20;
const MOST_GROUP: usize = 64 << 20;
/// Units of a heap that is large enough to gain by huge pages in place of small ones.
const COLLAPSED_FROM: u64 = 8;
/// Frames that are taken and given back with the heap neither growing nor shrinking: those of a few blocks that are put together anew.
const SWING: u64 = 32;
/// One collapse follows another after so many times the time that it took.
const REST: u32 = 16;
/// What it may take when that is not known.
const USUAL: Duration = Duration::from_millis(1);

/// What a frame has memory for: bits of `has`, and numbers of areas.
const IMAGE: usize = 0;
const STARTS: usize = 1;
const CHECKS: usize = 2;
/// A further bit: a block was in it, so its image may hold anything. Before that it is zero, as memory of the system is the first time.
const USED: usize = 3;

/// Where a frame's marks lie.
struct Beside([AtomicPtr<u8>; 2]);

/// All frames of a heap.
pub struct Frames {
    list: Segments<Frame>,
    beside: Segments<Beside>,
    /// Bytes that a frame takes of each area.
    sizes: [usize; 3],
    huge: Option<usize>,
    made: Mutex<Made>,
}

/// Frames whose areas lie together.
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
    /// Units that were full when they were put here: group and number.
    full: Vec<(usize, usize)>,
    /// When it may be that the next one is collapsed, and what all took when that was settled.
    next: Option<Instant>,
    before: u64,
}

/// Whether a heap grows or shrinks. Who packs blocks takes some frames and gives about as many back, again and again: that is neither.
#[derive(Default)]
struct Trend {
    /// The most bytes that frames had while it grew, or the fewest since it shrinks.
    turn: u64,
    shrinks: bool,
}

impl Trend {
    /// Frames have so many bytes now; so many more or fewer are nothing yet.
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
    /// Notes how much frames take now.
    fn note(&mut self, stride: usize) {
        let Tally { committed, hollow } = self.tally;
        self.trend.note(committed - hollow, (committed / HOLLOW).max(SWING * stride as u64));
    }

    /// Group of a frame, and its number there.
    fn home(&self, number: u32) -> (usize, usize) {
        let group = self.groups.partition_point(|group| group.first <= number) - 1;
        (group, (number - self.groups[group].first) as usize)
    }

    /// A frame gets memory of one area.
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

    /// Makes a huge page of one of the units that are full, in a large heap, now and then: the system copies all of it. Not while the heap grows fast: who fills
    /// one block after the other does not wait for page tables.
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

    /// Splits units until no more is hollow than may be.
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
            // What the system can't split stays, and is counted.
            if !self.groups[group].areas[IMAGE].split(unit, &mut self.tally) {
                return;
            }
        }
    }
}

impl Frames {
    /// None yet; each will have room for a block of `bytes` with nodes at so many places at most.
    pub fn new(bytes: usize, places: usize) -> Self {
        Frames::with(bytes, places, SystemMemory.huge_page())
    }

    /// As `new`, where huge pages have so many bytes.
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

    /// Bytes that a frame takes at most, marks and tables included, if there are so many that huge pages cost nothing.
    pub fn most_bytes(&self) -> usize {
        self.sizes.iter().sum::<usize>() + size_of::<Frame>() + size_of::<Beside>()
    }

    /// How many frames there can be in so many bytes.
    pub fn within(&self, bytes: u64) -> u32 {
        let frames = bytes / self.most_bytes() as u64;
        // What is given back is kept hollow only where there are huge pages: not in a heap that never was so large.
        let large = |unit| frames * self.stride() as u64 >= unit as u64 * (COLLAPSED_FROM / 2);
        let hollow = if self.huge.is_some_and(large) { frames.div_ceil(HOLLOW) } else { 0 };
        (frames - hollow).min(u32::MAX.into()) as u32
    }

    /// The frame with that number, which was given out by [`Frames::make`].
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Frame> {
        self.list.get(number)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, without memory yet; `None` if the system has no room.
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

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.made().count
    }

    /// Sees to it that a frame has memory for its image and for starts and checks, if they are wanted; false if the system has none. For who has the frame
    /// for himself, or its block's lock.
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

    /// A block is about to come into a frame, which is the caller's; whether it is the first one, so that the frame's image is zero.
    pub fn is_first_use(&self, number: u32) -> bool {
        self.get(number).is_some_and(|frame| frame.has.fetch_or(1 << USED, Relaxed) >> USED & 1 == 0)
    }

    /// The marks of the block in a frame, as far as it has some; none if there is no memory for them.
    pub fn marks(&self, number: u32, shape: Shape, checks: bool) -> Marks {
        let form = Form::new(0, shape.places());
        let has = self.get(number).map_or(0, |frame| frame.has.load(Relaxed));
        let image = |area: usize, wanted: bool, len: usize| {
            let start =
                self.beside.get(number).and_then(|Beside(marks)| NonNull::new(marks[area - 1].load(Relaxed)));
            match start.filter(|_| wanted && has >> area & 1 != 0) {
                // SAFETY: memory of the frame's own, which lives as long as the heap and begins at a multiple of 64; as in `Frame::image`.
                Some(start) => unsafe { Image::new(start, len) },
                None => Image::NOTHING,
            }
        };
        let has_starts = matches!(shape, Shape::Mixed(_));
        Marks::new(image(STARTS, has_starts, form.starts().len()), image(CHECKS, checks, form.checks().len()))
    }

    /// Gives the memory of a frame without a block back to the system.
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

    /// Bytes of memory: frames, and what describes them.
    pub fn bytes(&self) -> u64 {
        let made = self.made();
        let tables = made.groups.iter().flat_map(|group| &group.areas).map(Area::table_bytes).sum::<usize>();
        made.tally.committed
            + (tables + size_of::<Group>() * made.groups.capacity()) as u64
            + self.list.bytes()
            + self.beside.bytes()
    }

    /// Whether what is counted is what there is.
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
    /// What all areas take.
    pub fn tally(&self) -> Tally {
        self.made().tally
    }

    /// Whether there are units to be collapsed.
    pub fn is_any_full(&self) -> bool {
        !self.made().full.is_empty()
    }

    /// Where frames and their marks lie.
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
