//! Blocks of nodes of different sizes.
//!
//! ```text
//!  0      first                                                            end      block size
//!  | .. | header | node .. filling | header | node | header | free extent .. | header | ..
//!                  a                          b      b + stride                end - 2
//!
//!  header, 2 bytes:   15 the extent before is free | 14 this one is free | 13..0 bytes of the node,
//!                     or units of the free extent
//!  free extent:       | next, 2 | prev, 2 | units, 4 | zeros ..  | units, 4 | units, 2 |
//! ```
//!
//! Nodes lie at multiples of the alignment; a unit is that many bytes, and next and prev are units from 0. An extent is a
//! node with what fills it up to the next header, or free. The last header, before `end`, has no extent: it only says
//! whether the one before is free. So a node costs two bytes and the filling; both neighbours of an extent are found in a
//! step, and a freed one is merged with those that are free. Numbers of units of 2^14 - 1 and more stand in the four
//! bytes, for which there is room then.
//!
//! Small free extents have less: links from eight bytes on, and the units at the end from four on. Without the latter the
//! flag in the next header is not set, and they are merged when the extent before is freed. An extent of one byte is
//! never left.
//!
//! Free extents are listed by size, in bins: one for each number of units up to 32, above that eight for each doubling.
//! The smallest that fits is taken (best fit). The heads of the lists stand in the frame and not in the block, which has to be
//! compressed: they are made anew, links too, by one walk over the block when it is first changed in this frame.
//!
//! Freed bytes are zero but for links and units, so new nodes are zero at no cost.

use super::image::{Damaged, Image};

/// The extent before is free.
const BEFORE_FREE: u16 = 1 << 15;
/// This extent is free.
const FREE: u16 = 1 << 14;
/// Bytes of a node, or units of a free extent; all bits set where there are as many or more.
const SIZE: u16 = FREE - 1;

/// Bytes of a header.
pub const HEADER: usize = 2;
/// Bytes of a link, and of units for which 14 bits are not enough.
const LINK: usize = 2;
const LONG: usize = 4;
/// The longest node.
pub const MOST_BYTES: usize = SIZE as usize;
/// The most units of a block: links have 16 bits.
pub const MOST_UNITS: usize = 1 << 16;
/// The smallest extent.
const LEAST: usize = 2;
/// The smallest free extent whose units stand at its end too.
const FOOTED: usize = 4;
/// The smallest free extent that has room for links.
const LISTED: usize = 8;

/// Bins for exact numbers of units.
const EXACT: usize = 32;
/// Bins for each doubling above, as a power of two.
const STEPS: u32 = 3;
const BINS: usize = EXACT + ((MOST_UNITS.ilog2() - EXACT.ilog2()) << STEPS) as usize;
const _: () = assert!(BINS <= 128);
/// Extents of one bin that are looked at for the best.
const LOOKED_AT: usize = 32;

/// Where nodes may lie in a block of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// A power of two.
    align: u32,
    /// The first node's place.
    first: u32,
    /// Behind the last extent.
    end: u32,
}

impl Shape {
    /// Blocks of `size` bytes with nodes at multiples of `align`, or of what is needed for a block of that size.
    pub fn new(size: usize, align: usize) -> Self {
        let align = align.max(size.div_ceil(MOST_UNITS).next_power_of_two());
        let end = size / align * align;
        Shape { align: align as u32, first: align.max(HEADER) as u32, end: end as u32 }
    }

    /// Bytes of a unit.
    pub fn align(self) -> usize {
        self.align as usize
    }

    /// The first place.
    pub fn first(self) -> usize {
        self.first as usize
    }

    fn end(self) -> usize {
        self.end as usize
    }

    fn units(self, bytes: usize) -> usize {
        bytes / self.align()
    }

    /// Bytes that a node of `len` takes with its header.
    pub fn stride(self, len: usize) -> usize {
        (len + HEADER).next_multiple_of(self.align())
    }

    /// Bytes for nodes and headers in an empty block.
    pub fn room(self) -> usize {
        self.end().saturating_sub(self.first())
    }

    /// The longest node that an empty block can hold.
    pub fn longest(self) -> usize {
        self.room().saturating_sub(HEADER).min(MOST_BYTES)
    }

    /// The place of a node by its unit, if it is in the block.
    pub fn place(self, unit: u16) -> Option<usize> {
        let place = usize::from(unit) * self.align();
        (self.first()..self.end()).contains(&place).then_some(place)
    }

    /// The unit of a node by its place.
    pub fn unit(self, place: usize) -> u16 {
        self.units(place) as u16
    }

    /// Units of a block, those before the first node included.
    pub fn total_units(self) -> usize {
        self.units(self.end())
    }
}

/// Lists of free extents, by size.
#[derive(Debug, Clone)]
pub struct Bins {
    /// Units from 0; 0 is none, since a header stands there.
    heads: [u16; BINS],
    /// Which lists are not empty.
    some: u128,
}

impl Bins {
    /// Empty lists.
    pub const fn new() -> Self {
        Bins { heads: [0; BINS], some: 0 }
    }

    fn of(units: usize) -> usize {
        if units <= EXACT {
            return units.saturating_sub(1);
        }
        let doubling = (units - 1).ilog2();
        let step = ((units - 1) >> (doubling - STEPS)) & ((1 << STEPS) - 1);
        EXACT + ((doubling - EXACT.ilog2()) << STEPS) as usize + step
    }

    /// The fewest units of an extent in this bin.
    fn fewest(bin: usize) -> usize {
        match bin.checked_sub(EXACT) {
            None => bin + 1,
            Some(above) => {
                let doubling = (above >> STEPS) as u32 + EXACT.ilog2();
                let step = above & ((1 << STEPS) - 1);
                (1 << doubling) + (step << (doubling - STEPS)) + 1
            }
        }
    }

    fn first_from(&self, bin: usize) -> Option<usize> {
        let some = self.some.checked_shr(bin as u32).unwrap_or(0);
        (some != 0).then(|| bin + some.trailing_zeros() as usize)
    }
}

/// An extent, as its header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where its bytes begin, behind the header.
    pub place: usize,
    /// Bytes to the next one's.
    pub stride: usize,
    /// Bytes of the node, or `None` if it is free.
    pub node: Option<usize>,
}

/// Whether so many bytes behind a node are nothing, or enough for a header.
fn leaves_extent(rest: usize) -> bool {
    rest == 0 || rest >= LEAST
}

/// A block in its frame, to be changed by who holds its lock.
pub struct Mixed<'a> {
    image: Image,
    shape: Shape,
    bins: &'a mut Bins,
}

/// The bytes of the node at `place`, if what stands before it is the header of one.
#[inline]
pub fn node_len(image: Image, place: usize) -> Result<Option<usize>, Damaged> {
    let header = image.get16(place - HEADER)?;
    Ok((header & FREE == 0 && header & SIZE != 0).then_some(usize::from(header & SIZE)))
}

impl<'a> Mixed<'a> {
    /// With lists that are the block's.
    pub fn new(image: Image, shape: Shape, bins: &'a mut Bins) -> Self {
        Mixed { image, shape, bins }
    }

    /// Makes zeros a block without nodes.
    pub fn format(image: Image, shape: Shape, bins: &'a mut Bins) -> Result<Self, Damaged> {
        *bins = Bins::new();
        let mut block = Mixed { image, shape, bins };
        block.put_free(shape.first(), shape.room())?;
        Ok(block)
    }

    /// With lists made from the block.
    pub fn listed(image: Image, shape: Shape, bins: &'a mut Bins) -> Result<Self, Damaged> {
        *bins = Bins::new();
        let mut block = Mixed { image, shape, bins };
        let mut place = shape.first();
        while place < shape.end() {
            let extent = block.extent(place)?;
            if extent.node.is_none() {
                block.list(extent.place, extent.stride)?;
            }
            place += extent.stride;
        }
        Ok(block)
    }

    fn header(&self, place: usize) -> Result<u16, Damaged> {
        self.image.get16(place - HEADER)
    }

    fn set_header(&self, place: usize, header: u16) -> Result<(), Damaged> {
        self.image.set16(place - HEADER, header)
    }

    /// The extent that begins at `place`.
    pub fn extent(&self, place: usize) -> Result<Extent, Damaged> {
        let header = self.header(place)?;
        let (stride, node) = match (header & FREE, header & SIZE) {
            (0, size) => (self.shape.stride(size.into()), Some(usize::from(size))),
            (_, SIZE) => (self.long_units(place + 2 * LINK)? * self.shape.align(), None),
            (_, units) => (usize::from(units) * self.shape.align(), None),
        };
        let fits = header & SIZE != 0 && stride != 0 && stride <= self.shape.end().saturating_sub(place);
        if fits { Ok(Extent { place, stride, node }) } else { Err(Damaged) }
    }

    /// Every extent, in their order.
    pub fn extents(&self) -> impl Iterator<Item = Result<Extent, Damaged>> + '_ {
        let mut place = self.shape.first();
        core::iter::from_fn(move || {
            if place >= self.shape.end() {
                return None;
            }
            let extent = self.extent(place);
            place = extent.map_or(self.shape.end(), |extent| place + extent.stride);
            Some(extent)
        })
    }

    /// Whether the headers and what stands at the ends of free extents agree, and all other free bytes are zero; how many nodes there are.
    pub fn check(&self) -> Result<usize, Damaged> {
        let (mut nodes, mut before_free) = (0, false);
        let mut end = self.shape.first();
        for extent in self.extents() {
            let Extent { place, stride, node } = extent?;
            if (self.header(place)? & BEFORE_FREE != 0) != before_free {
                return Err(Damaged);
            }
            let footed = node.is_none() && stride >= FOOTED;
            if footed && self.free_before(place + stride)?.place != place {
                return Err(Damaged);
            }
            if node.is_none() && before_free {
                return Err(Damaged);
            }
            let long = if self.shape.units(stride) >= SIZE.into() { LONG } else { 0 };
            let (zeros, ends) = match node {
                Some(len) => (len, 0),
                None if stride >= LISTED => (2 * LINK + long, HEADER + long),
                None if footed => (0, HEADER),
                None => (0, 0),
            };
            let zero = |at| self.image.get8(at) == Ok(0);
            if !(place + zeros..place + stride - HEADER - ends).all(zero) {
                return Err(Damaged);
            }
            nodes += usize::from(node.is_some());
            before_free = footed;
            end = place + stride;
        }
        let last = self.header(end)? & BEFORE_FREE != 0;
        if end == self.shape.end() && last == before_free { Ok(nodes) } else { Err(Damaged) }
    }

    /// Bytes of the longest node that surely fits now.
    pub fn surely_fits(&self) -> usize {
        let Some(bin) = self.bins.some.checked_ilog2() else { return 0 };
        (Bins::fewest(bin as usize) * self.shape.align()).saturating_sub(HEADER).min(MOST_BYTES)
    }

    /// Takes room for a node of `len` bytes, 1 to [`MOST_BYTES`], which are zero; its place, or `None` if nothing fits.
    pub fn alloc(&mut self, len: usize) -> Result<Option<usize>, Damaged> {
        debug_assert!((1..=MOST_BYTES).contains(&len));
        let stride = self.shape.stride(len);
        let Some(found) = self.best_fit(stride)? else { return Ok(None) };
        self.take_off(found)?;
        self.put_rest(found.place + stride, found.stride - stride)?;
        let flag = self.header(found.place)? & BEFORE_FREE;
        self.set_header(found.place, flag | len as u16)?;
        Ok(Some(found.place))
    }

    /// Makes the node at `place` longer or shorter where it is; false if it can't be. Bytes that it gets are zero.
    pub fn resize(&mut self, place: usize, len: usize) -> Result<bool, Damaged> {
        debug_assert!((1..=MOST_BYTES).contains(&len));
        let old = self.extent(place)?;
        let old_len = old.node.ok_or(Damaged)?;
        let stride = self.shape.stride(len);
        let next = place + old.stride;
        let free_after = self.free_from(next)?;
        let available = old.stride + free_after;
        if stride > available || !leaves_extent(available - stride) {
            return Ok(false);
        }
        if len < old_len {
            self.image.zero(place + len, old_len - len)?;
        }
        if stride != old.stride {
            self.clear_free(next, free_after)?;
            if next < self.shape.end() && free_after > 0 {
                self.set_header(next, 0)?;
            }
            self.put_rest(place + stride, available - stride)?;
        }
        let flag = self.header(place)? & BEFORE_FREE;
        self.set_header(place, flag | len as u16)?;
        Ok(true)
    }

    /// Frees the node at `place`; whether the block has none now.
    pub fn free(&mut self, place: usize) -> Result<bool, Damaged> {
        let extent = self.extent(place)?;
        let len = extent.node.ok_or(Damaged)?;
        let (mut start, mut stride) = (place, extent.stride);
        self.image.zero(place, len)?;
        let next = place + stride;
        let free_after = self.free_from(next)?;
        if free_after > 0 {
            self.clear_free(next, free_after)?;
            self.set_header(next, 0)?;
            stride += free_after;
        }
        if self.header(place)? & BEFORE_FREE != 0 {
            let before = self.free_before(place)?;
            self.take_off(before)?;
            self.set_header(place, 0)?;
            start = before.place;
            stride += before.stride;
        }
        self.put_free(start, stride)?;
        Ok(stride == self.shape.room())
    }

    /// The free extent that ends at `place`.
    fn free_before(&self, place: usize) -> Result<Extent, Damaged> {
        let end = place.checked_sub(2 * HEADER).ok_or(Damaged)?;
        let units = match self.image.get16(end)? {
            SIZE => self.long_units(end.checked_sub(LONG).ok_or(Damaged)?)?,
            units => units.into(),
        };
        let start =
            place.checked_sub(units * self.shape.align()).filter(|&start| start >= self.shape.first());
        let before = self.extent(start.ok_or(Damaged)?)?;
        let is_it = before.node.is_none() && before.place + before.stride == place;
        if is_it { Ok(before) } else { Err(Damaged) }
    }

    /// Bytes of free extents from `place` on.
    fn free_from(&self, place: usize) -> Result<usize, Damaged> {
        let mut end = place;
        while end < self.shape.end() {
            let extent = self.extent(end)?;
            if extent.node.is_some() {
                break;
            }
            end += extent.stride;
        }
        Ok(end - place)
    }

    /// Takes these free extents off their lists, and makes all of them zero but for the first header.
    fn clear_free(&mut self, place: usize, bytes: usize) -> Result<(), Damaged> {
        let mut at = place;
        while at < place + bytes {
            let extent = self.extent(at)?;
            self.take_off(extent)?;
            if at > place {
                self.set_header(at, 0)?;
            }
            at += extent.stride;
        }
        Ok(())
    }

    /// What is left behind a node, zeros if anything, is free, and the next header knows.
    fn put_rest(&mut self, place: usize, rest: usize) -> Result<(), Damaged> {
        if rest == 0 {
            return self.set_header(place, self.header(place)? & !BEFORE_FREE);
        }
        self.set_header(place, 0)?;
        self.put_free(place, rest)
    }

    /// Makes zeros a free extent; the flag in its header stays.
    fn put_free(&mut self, place: usize, stride: usize) -> Result<(), Damaged> {
        let units = self.shape.units(stride);
        let short = units.min(SIZE.into()) as u16;
        self.set_header(place, self.header(place)? & BEFORE_FREE | FREE | short)?;
        let next = place + stride;
        let mut flag = 0;
        if stride >= FOOTED {
            flag = BEFORE_FREE;
            self.image.set16(next - 2 * HEADER, short)?;
        }
        if short == SIZE {
            self.set_long_units(place + 2 * LINK, units)?;
            self.set_long_units(next - 2 * HEADER - LONG, units)?;
        }
        self.set_header(next, self.header(next)? & !BEFORE_FREE | flag)?;
        self.list(place, stride)
    }

    /// Takes a free extent off its list; everything in it is zero afterwards, but for its header.
    fn take_off(&mut self, extent: Extent) -> Result<(), Damaged> {
        let Extent { place, stride, .. } = extent;
        if stride >= LISTED {
            self.unlist(place, stride)?;
        }
        if self.shape.units(stride) >= SIZE.into() {
            self.set_long_units(place + 2 * LINK, 0)?;
            self.set_long_units(place + stride - 2 * HEADER - LONG, 0)?;
        }
        if stride >= FOOTED {
            self.image.set16(place + stride - 2 * HEADER, 0)?;
        }
        Ok(())
    }

    fn long_units(&self, at: usize) -> Result<usize, Damaged> {
        Ok(usize::from(self.image.get16(at)?) | usize::from(self.image.get16(at + 2)?) << 16)
    }

    fn set_long_units(&self, at: usize, units: usize) -> Result<(), Damaged> {
        self.image.set16(at, units as u16)?;
        self.image.set16(at + 2, (units >> 16) as u16)
    }

    fn list(&mut self, place: usize, stride: usize) -> Result<(), Damaged> {
        if stride < LISTED {
            return Ok(());
        }
        let bin = Bins::of(self.shape.units(stride));
        let (unit, head) = (self.shape.unit(place), self.bins.heads[bin]);
        self.image.set16(place, head)?;
        self.image.set16(place + LINK, 0)?;
        if head != 0 {
            self.image.set16(self.linked(head) + LINK, unit)?;
        }
        self.bins.heads[bin] = unit;
        self.bins.some |= 1 << bin;
        Ok(())
    }

    fn unlist(&mut self, place: usize, stride: usize) -> Result<(), Damaged> {
        let bin = Bins::of(self.shape.units(stride));
        let (next, prev) = (self.image.get16(place)?, self.image.get16(place + LINK)?);
        match prev {
            0 => {
                self.bins.heads[bin] = next;
                if next == 0 {
                    self.bins.some &= !(1 << bin);
                }
            }
            prev => self.image.set16(self.linked(prev), next)?,
        }
        if next != 0 {
            self.image.set16(self.linked(next) + LINK, prev)?;
        }
        self.image.set16(place, 0)?;
        self.image.set16(place + LINK, 0)
    }

    /// Where the links of the extent lie that a link leads to.
    fn linked(&self, unit: u16) -> usize {
        usize::from(unit) * self.shape.align()
    }

    /// The smallest listed extent of at least `stride` bytes that leaves no rest too small to be one.
    fn best_fit(&self, stride: usize) -> Result<Option<Extent>, Damaged> {
        let mut from = Bins::of(self.shape.units(stride));
        while let Some(bin) = self.bins.first_from(from) {
            let mut best: Option<Extent> = None;
            let mut unit = self.bins.heads[bin];
            for _ in 0..LOOKED_AT {
                let Some(place) = self.shape.place(unit) else { break };
                let extent = self.extent(place)?;
                if extent.node.is_some() {
                    return Err(Damaged);
                }
                let fits = extent.stride >= stride && leaves_extent(extent.stride - stride);
                if fits && best.is_none_or(|best| extent.stride < best.stride) {
                    best = Some(extent);
                }
                if bin < EXACT {
                    // All the others are as long.
                    break;
                }
                unit = self.image.get16(place)?;
            }
            if best.is_some() {
                return Ok(best);
            }
            from = bin + 1;
        }
        Ok(None)
    }
}
