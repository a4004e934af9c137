//! Blocks of nodes of different sizes.
//!
//! ```text
//!  0      first                                                            end      block size
//!  | .. | header | node .. filling | header | node | header | free extent .. | .. |
//!                  a                          b      b + stride                
//!
//!  header, 2 bytes:   15 node: 0 | 14..0 bytes of the node
//!                     15 free: 1 | 14 used before | 13..0 units
//!  free extent:       | next, 2 | units, 4 | zeros ..  |       or anything, if it was used before
//! ```
//!
//! Nodes lie at multiples of the alignment; a unit is that many bytes. An extent is free, or is a node with
//! the filling up to the next header. So a node costs two bytes and its filling. The headers are boundary
//! tags read from one end: the walk from header to header finds all extents. If a free extent has 2^14 - 1
//! units or more, the number is in the four bytes after the link; such an extent has room for them.
//!
//! **Merging is deferred**: a freed node only becomes a free extent that was used before. When a session is
//! about to allocate from the block, one walk merges all adjacent free extents, zeroes them and lists them
//! ([`Mixed::list`]); before a block is compressed, its free bytes are zeroed too ([`Mixed::clear`]). So
//! freeing touches two bytes and no neighbours, which would have to be fetched from memory, and a block whose
//! nodes are all freed is never merged at all.
//!
//! Free extents are listed by size, in bins: one for each number of units up to 32, above that eight for each
//! doubling. The smallest that fits is taken (best fit). One large extent is **open**: nodes are cut off it
//! without any list. The heads of lists and the open extent belong to the session and are not in the block.
//! `next` is a unit; an extent of less than four bytes is in no list.
//!
//! The bytes of listed extents are zero except for links and units, so new nodes are zero.

mod extents;
mod shape;

use extents::EXACT;
pub use extents::Extents;
pub use shape::Shape;

use super::image::{Damaged, Image};

/// This extent is free.
pub const FREE: u16 = 1 << 15;
/// It was used before and may hold anything.
pub const USED: u16 = 1 << 14;
/// Bytes of a node.
const SIZE: u16 = FREE - 1;
/// Units of a free extent; all bits are set if there are that many or more.
pub const UNITS: u16 = USED - 1;

/// Bytes of a header.
pub const HEADER: usize = 2;
/// Bytes of a link, and of the number of units that needs more than 14 bits.
const LINK: usize = 2;
const LONG: usize = 4;
/// The longest node.
pub const MOST_BYTES: usize = SIZE as usize;
/// The most units of a block: places have 16 bits.
pub const MOST_UNITS: usize = 1 << 16;
/// The smallest extent, and the smallest extent with room for a link.
const LEAST: usize = HEADER;
const LISTED: usize = HEADER + LINK;

/// How many extents of one bin are examined for the best fit.
const LOOKED_AT: usize = 32;

/// Whether `rest`, the number of bytes after a node, is zero or enough for a header.
#[inline]
fn leaves_extent(rest: usize) -> bool {
    rest == 0 || rest >= LEAST
}

/// An extent, as its header describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where its bytes begin, after the header.
    pub place: usize,
    /// Bytes to those of the next extent.
    pub stride: usize,
    /// Bytes of the node; `None` if it is free.
    pub node: Option<usize>,
}

/// The bytes of a node with this header; `None` if it is not the header of a node.
#[inline(always)]
pub fn node_len(header: u16) -> Option<usize> {
    (header & FREE == 0 && header != 0).then_some(usize::from(header))
}

/// A block in its frame; the caller has the right to change it.
#[derive(Clone, Copy)]
pub struct Mixed {
    image: Image,
    shape: Shape,
}

impl Mixed {
    /// A block of this shape.
    #[inline]
    pub fn new(image: Image, shape: Shape) -> Self {
        Mixed { image, shape }
    }

    /// Formats a zeroed block as one without nodes.
    pub fn format(self) -> Result<(), Damaged> {
        self.put_free(self.shape.first(), self.shape.room())
    }

    /// The extent that begins at `place`.
    pub fn extent(self, place: usize) -> Result<Extent, Damaged> {
        let header = self.image.get16(place - HEADER)?;
        let long = match (header & FREE, header & UNITS) {
            (FREE, UNITS) => {
                u32::from(self.image.get16(place + LINK)?)
                    | u32::from(self.image.get16(place + LINK + 2)?) << 16
            }
            _ => 0,
        };
        let node = (header & FREE == 0).then_some(header.into());
        let stride = self.shape.stride_of(header, long).ok_or(Damaged)?;
        let fits = stride <= self.shape.end().saturating_sub(place);
        if fits { Ok(Extent { place, stride, node }) } else { Err(Damaged) }
    }

    /// Every extent, in order.
    pub fn extents(self) -> impl Iterator<Item = Result<Extent, Damaged>> {
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

    /// Merges adjacent free extents and lists all; returns the bytes of the longest.
    pub fn list(self, lists: &mut Extents) -> Result<usize, Damaged> {
        *lists = Extents::new();
        let mut longest = Extent { place: 0, stride: 0, node: None };
        let mut place = self.shape.first();
        while place < self.shape.end() {
            let extent = self.extent(place)?;
            let mut stride = extent.stride;
            if extent.node.is_none() {
                self.wipe(extent)?;
                while place + stride < self.shape.end() {
                    let next = self.extent(place + stride)?;
                    if next.node.is_some() {
                        break;
                    }
                    self.wipe(next)?;
                    self.image.set16(next.place - HEADER, 0)?;
                    stride += next.stride;
                }
                self.put_free(place, stride)?;
                // The longest extent so far is held back: in the end it becomes the open one.
                let merged = Extent { place, stride, node: None };
                let shorter =
                    if stride > longest.stride { std::mem::replace(&mut longest, merged) } else { merged };
                self.enlist(lists, shorter)?;
            }
            place += stride;
        }
        (lists.open, lists.open_bytes) = (longest.place, longest.stride);
        Ok(longest.stride)
    }

    /// Bytes that the longest of the listed extents has at least.
    pub fn longest(self, lists: &Extents) -> usize {
        lists.open_bytes.max(lists.longest() * self.shape.align())
    }

    /// Zeroes a free extent except for its header.
    fn wipe(self, extent: Extent) -> Result<(), Damaged> {
        let inner = extent.stride - HEADER.min(extent.stride);
        let used = self.image.get16(extent.place - HEADER)? & USED != 0;
        self.image.zero(extent.place, if used { inner } else { inner.min(LINK + LONG) })
    }

    /// Zeroes the bytes that freed nodes held.
    pub fn clear(self) -> Result<(), Damaged> {
        for extent in self.extents() {
            let extent = extent?;
            if extent.node.is_none() && self.image.get16(extent.place - HEADER)? & USED != 0 {
                self.wipe(extent)?;
                self.put_free(extent.place, extent.stride)?;
            }
        }
        Ok(())
    }

    /// Allocates a node of `len` bytes (1 to [`MOST_BYTES`]), which are zero. Returns its place, or `None` if
    /// no listed extent fits.
    #[inline]
    pub fn alloc(self, lists: &mut Extents, len: usize) -> Result<Option<usize>, Damaged> {
        debug_assert!((1..=MOST_BYTES).contains(&len));
        let stride = self.shape.stride(len);
        let open_fits = lists.open_bytes >= stride && leaves_extent(lists.open_bytes - stride);
        let bin = Extents::bin(self.shape.units(stride));
        if open_fits && lists.some >> bin == 0 {
            return self.cut_open(lists, stride, len).map(Some);
        }
        self.alloc_listed(lists, len, open_fits)
    }

    #[inline]
    fn cut_open(self, lists: &mut Extents, stride: usize, len: usize) -> Result<usize, Damaged> {
        let (place, rest) = (lists.open, lists.open_bytes - stride);
        self.cut(place, lists.open_bytes, stride, len)?;
        (lists.open, lists.open_bytes) = (place + stride, rest);
        Ok(place)
    }

    /// Makes the first bytes of an unlisted free extent a node.
    #[inline]
    fn cut(self, place: usize, bytes: usize, stride: usize, len: usize) -> Result<(), Damaged> {
        if self.shape.units(bytes) >= UNITS.into() {
            self.image.zero(place + LINK, LONG)?;
        }
        if bytes > stride {
            self.put_free(place + stride, bytes - stride)?;
        }
        self.image.set16(place - HEADER, len as u16)
    }

    fn alloc_listed(
        self,
        lists: &mut Extents,
        len: usize,
        open_fits: bool,
    ) -> Result<Option<usize>, Damaged> {
        let stride = self.shape.stride(len);
        let Some((found, before, bin)) = self.best_fit(lists, stride)? else {
            return if open_fits { self.cut_open(lists, stride, len).map(Some) } else { Ok(None) };
        };
        if open_fits && lists.open_bytes <= found.stride {
            return self.cut_open(lists, stride, len).map(Some);
        }
        // Unlinks it.
        let next = self.image.get16(found.place)?;
        self.image.set16(found.place, 0)?;
        match before {
            None => {
                lists.heads[bin] = next;
                if next == 0 {
                    lists.some &= !(1 << bin);
                }
            }
            Some(before) => self.image.set16(before, next)?,
        }
        self.cut(found.place, found.stride, stride, len)?;
        let rest = Extent { place: found.place + stride, stride: found.stride - stride, node: None };
        if rest.stride > lists.open_bytes {
            let old = Extent { place: lists.open, stride: lists.open_bytes, node: None };
            (lists.open, lists.open_bytes) = (rest.place, rest.stride);
            self.enlist(lists, old)?;
        } else {
            self.enlist(lists, rest)?;
        }
        Ok(Some(found.place))
    }

    /// The smallest listed extent of at least `stride` bytes that leaves no remainder too small to be one;
    /// the extent before it in its list; and the bin.
    fn best_fit(
        self,
        lists: &Extents,
        stride: usize,
    ) -> Result<Option<(Extent, Option<usize>, usize)>, Damaged> {
        let mut from = Extents::bin(self.shape.units(stride));
        while let Some(bin) = lists.first_from(from) {
            let mut best: Option<(Extent, Option<usize>, usize)> = None;
            let (mut unit, mut before) = (lists.heads[bin], None);
            for _ in 0..LOOKED_AT {
                let Some(place) = self.shape.place(unit) else { break };
                let extent = self.extent(place)?;
                if extent.node.is_some() {
                    return Err(Damaged);
                }
                let fits = extent.stride >= stride && leaves_extent(extent.stride - stride);
                if fits && best.is_none_or(|(best, ..)| extent.stride < best.stride) {
                    best = Some((extent, before, bin));
                }
                if bin < EXACT {
                    // All others are of the same length.
                    break;
                }
                before = Some(place);
                unit = self.image.get16(place)?;
            }
            if best.is_some() {
                return Ok(best);
            }
            from = bin + 1;
        }
        Ok(None)
    }

    /// Frees the node of `len` bytes at `place`; returns the bytes that it took including its header.
    #[inline]
    pub fn free(self, place: usize, len: usize) -> Result<usize, Damaged> {
        let stride = self.shape.stride(len);
        self.put_free(place, stride)?;
        self.image.set16(place - HEADER, self.image.get16(place - HEADER)? | USED)?;
        Ok(stride)
    }

    /// Resizes the node at `place` without moving it. Returns by how much more it takes now, or `None` if it
    /// can't stay there. Bytes that it gains are zero. Free extents may no longer be listed afterwards.
    pub fn resize(self, place: usize, len: usize) -> Result<Option<isize>, Damaged> {
        debug_assert!((1..=MOST_BYTES).contains(&len));
        let old = self.extent(place)?;
        let old_len = old.node.ok_or(Damaged)?;
        let stride = self.shape.stride(len);
        let mut available = old.stride;
        while available < stride || !leaves_extent(available - stride) {
            if place + available >= self.shape.end() {
                return Ok(None);
            }
            let next = self.extent(place + available)?;
            if next.node.is_some() {
                return Ok(None);
            }
            available += next.stride;
        }
        let mut next = place + old.stride;
        while next < place + available {
            let extent = self.extent(next)?;
            self.wipe(extent)?;
            self.image.set16(next - HEADER, 0)?;
            next += extent.stride;
        }
        if len < old_len {
            self.image.zero(place + len, old_len - len)?;
        }
        if available > stride {
            self.put_free(place + stride, available - stride)?;
        }
        self.image.set16(place - HEADER, len as u16)?;
        Ok(Some(stride as isize - old.stride as isize))
    }

    /// Makes a free extent that is in no list.
    #[inline]
    fn put_free(self, place: usize, stride: usize) -> Result<(), Damaged> {
        let units = self.shape.units(stride);
        self.image.set16(place - HEADER, FREE | units.min(UNITS.into()) as u16)?;
        if units >= UNITS.into() {
            self.image.set16(place + LINK, units as u16)?;
            self.image.set16(place + LINK + 2, (units >> 16) as u16)?;
        }
        Ok(())
    }

    fn enlist(self, lists: &mut Extents, extent: Extent) -> Result<(), Damaged> {
        if extent.stride < LISTED {
            return Ok(());
        }
        let bin = Extents::bin(self.shape.units(extent.stride));
        self.image.set16(extent.place, lists.heads[bin])?;
        lists.heads[bin] = self.shape.unit(extent.place);
        lists.some |= 1 << bin;
        Ok(())
    }

    /// Checks that headers lead from the first place to the end, and that free bytes are zero unless they
    /// were used before. Returns the number of nodes, their bytes, and the free bytes.
    pub fn check(self) -> Result<(usize, usize, usize), Damaged> {
        let (mut nodes, mut bytes, mut free) = (0, 0, 0);
        for extent in self.extents() {
            let Extent { place, stride, node } = extent?;
            let used = match node {
                Some(len) => len,
                None if self.image.get16(place - HEADER)? & USED != 0 => stride - HEADER,
                None => LINK + if self.shape.units(stride) >= UNITS.into() { LONG } else { 0 },
            };
            let zero = |at| self.image.get8(at) == Ok(0);
            if !(place + used..(place + stride - HEADER).max(place + used)).all(zero) {
                return Err(Damaged);
            }
            match node {
                Some(len) => (nodes, bytes) = (nodes + 1, bytes + len),
                None => free += stride,
            }
        }
        Ok((nodes, bytes, free))
    }
}
