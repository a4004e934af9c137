//! A leaf of the index: the state of 544 neighbouring pages, in one page of memory.
//!
//! ```text
//!   leaf    │ used │ 14 spare │ group 0 │ group 1 │ ── │ group 67 │        4096 bytes for 544 pages: 7.53 for each
//!   group   │ kinds: 2 bits each │ hot: 1 bit each │ marks │ slot 0 │ ── │ slot 7 │        60 bytes for 8 pages
//!   slot    seven bytes, little-endian:
//!             kind 0, a hole       nothing: the page reads as zeros
//!             kind 1, a page       where the page's blob is
//!             kind 2, joined       of the block's first joined page: where the block's blob is; of others: nothing
//!             kind 3, a fill       bits 0..32: the repeated word
//!           where a blob is: a packed reference of the store; or a number in bits 0..45, marked by a value
//!           in bits 45..56 that no reference has: 0x7ff, a blob on the backing device; 0x7fe, a shared blob
//! ```
//!
//! A **block** is [`Layout::pages`] neighbouring pages, aligned. Its *joined* pages are kept together in one
//! blob, as one image of the block in which all other pages are zeros. When a joined page is written again, the
//! image stays as it is; when the last page has left, the blob is freed.
//!
//! Invariants: `used` is the number of pages that are not holes. If a block has joined pages, the first of
//! them has the reference, and is the owner of the blob. Changing any page of a block clears the block's
//! marks.

use memfold::store::Ref;
use zerocopy::FromZeros;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Pages of a group.
const GROUP: usize = 8;
const GROUPS: usize = 68;
/// Pages of a leaf.
pub const PAGES: usize = GROUP * GROUPS;

/// The number of pages in a block: at most a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pages: usize,
}

impl Layout {
    /// Blocks of 2, 4 or 8 pages; `None` for other numbers.
    pub fn new(pages: usize) -> Option<Self> {
        (pages.is_power_of_two() && (2..=GROUP).contains(&pages)).then_some(Layout { pages })
    }

    pub fn pages(self) -> usize {
        self.pages
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        self.pages * PAGE
    }

    /// The first page of the block that contains page `at`.
    pub fn first(self, at: usize) -> usize {
        at & !(self.pages - 1)
    }

    /// The bits of a block's pages in a group.
    fn mask(self, first: usize) -> u8 {
        (((1u16 << self.pages) - 1) as u8) << (first % GROUP)
    }

    /// The pages of a block.
    pub fn range(self, first: usize) -> core::ops::Range<usize> {
        first..first + self.pages
    }
}

/// Where a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// In the store.
    Blob(Ref),
    /// On the backing device, under this number.
    Spilled(u64),
    /// In the store, shared with other pages: the number by which `shared` knows it.
    Shared(u64),
}

impl Held {
    /// Numbers of spilled and shared blobs are below this.
    pub const MOST_NUMBERS: u64 = 1 << 45;
    const SPILLED: u64 = 0x7ff;
    const SHARED: u64 = 0x7fe;

    fn pack(self) -> Option<[u8; 7]> {
        match self {
            Held::Blob(r) => r.pack(),
            Held::Spilled(number) => Held::pack_number(Held::SPILLED, number),
            Held::Shared(number) => Held::pack_number(Held::SHARED, number),
        }
    }

    fn pack_number(kind: u64, number: u64) -> Option<[u8; 7]> {
        let [packed @ .., _] = (number | kind << 45).to_le_bytes();
        (number < Held::MOST_NUMBERS).then_some(packed)
    }

    fn unpack(packed: [u8; 7]) -> Option<Self> {
        let mut bits = [0; 8];
        bits[..7].copy_from_slice(&packed);
        let bits = u64::from_le_bytes(bits);
        let number = bits & (Held::MOST_NUMBERS - 1);
        match bits >> 45 {
            Held::SPILLED => Some(Held::Spilled(number)),
            Held::SHARED => Some(Held::Shared(number)),
            _ => Ref::unpack(packed).map(Held::Blob),
        }
    }
}

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: it was never written, was trimmed, or is zeros.
    Hole,
    /// A blob of its own.
    Page(Held),
    /// A part of its block's blob.
    Joined,
    /// One repeated word.
    Fill(u32),
}

/// The meaning of a block's marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// An attempt to make it denser would have gained nothing.
    Settled = 0,
    /// A thread is making it denser. If the mark is gone when the thread is done, the block has changed
    /// meanwhile.
    Merging = 1,
}

#[derive(FromZeros)]
#[repr(C)]
struct Group {
    kinds: [u8; 2],
    hot: u8,
    /// For each kind of mark, one bit per possible block: blocks have at least two pages.
    marks: u8,
    slots: [[u8; 7]; GROUP],
}

/// A leaf; see the module.
#[derive(FromZeros)]
#[repr(C)]
pub struct Leaf {
    used: u16,
    spare: [u8; 14],
    groups: [Group; GROUPS],
}

const _: () = assert!(size_of::<Leaf>() == PAGE);

/// What remains to be done about a page's old content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// Free the blob, which page `owner` of the leaf owns.
    Blob {
        held: Held,
        owner: usize,
    },
    /// The blob's owner was page `from` and is now page `to`.
    Moved {
        r: Ref,
        from: usize,
        to: usize,
    },
    /// The blob's reference is not valid: the memory of the index was damaged.
    Damaged,
}

impl Leaf {
    /// A leaf of holes; `None` if there is no memory.
    pub fn new() -> Option<Box<Self>> {
        Leaf::new_box_zeroed().ok()
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The state of a page; `None` if the slot is invalid.
    pub fn entry(&self, at: usize) -> Option<Entry> {
        let slot = self.groups[at / GROUP].slots[at % GROUP];
        match self.kind(at) {
            0 => Some(Entry::Hole),
            1 => Held::unpack(slot).map(Entry::Page),
            2 => Some(Entry::Joined),
            _ => Some(Entry::Fill(u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]))),
        }
    }

    /// The page that holds the reference of a block's joined blob, and that reference.
    pub fn joined(&self, layout: Layout, first: usize) -> Option<(usize, Held)> {
        let at = self.joined_pages(layout, first).next()?;
        Some((at, Held::unpack(self.groups[at / GROUP].slots[at % GROUP])?))
    }

    /// The joined pages of a block.
    pub fn joined_pages(&self, layout: Layout, first: usize) -> impl Iterator<Item = usize> + use<> {
        let bits =
            layout.range(first).fold(0, |bits, at| bits | u32::from(self.kind(at) == 2) << (at - first));
        layout.range(first).filter(move |&at| bits & 1 << (at - first) != 0)
    }

    /// Replaces the state of a page by `new`, which must not be [`Entry::Joined`]. If a leaf cannot hold the
    /// reference of `new`, `new` is returned and nothing changes.
    pub fn replace(&mut self, layout: Layout, at: usize, new: Entry) -> Result<Left, Entry> {
        let slot = match new {
            Entry::Hole | Entry::Joined => [0; 7],
            Entry::Page(held) => held.pack().ok_or(new)?,
            Entry::Fill(word) => {
                let [a, b, c, d] = word.to_le_bytes();
                [a, b, c, d, 0, 0, 0]
            }
        };
        let left = self.leave(layout, at);
        self.set(at, new, slot);
        self.clear_marks(layout.first(at), layout);
        Ok(left)
    }

    /// Takes a page's content out of the leaf; returns what remains to be done about it.
    fn leave(&mut self, layout: Layout, at: usize) -> Left {
        match self.entry(at) {
            Some(Entry::Hole | Entry::Fill(_)) => Left::Nothing,
            Some(Entry::Page(held)) => Left::Blob { held, owner: at },
            Some(Entry::Joined) => {
                let first = layout.first(at);
                let mut pages = self.joined_pages(layout, first);
                let (holder, next) = (pages.next(), pages.next());
                if holder != Some(at) {
                    return Left::Nothing;
                }
                let slot = self.groups[at / GROUP].slots[at % GROUP];
                let Some(held) = Held::unpack(slot) else { return Left::Damaged };
                let Some(to) = next else { return Left::Blob { held, owner: at } };
                self.groups[to / GROUP].slots[to % GROUP] = slot;
                match held {
                    Held::Blob(r) => Left::Moved { r, from: at, to },
                    Held::Spilled(_) | Held::Shared(_) => Left::Nothing,
                }
            }
            None => Left::Damaged,
        }
    }

    /// Joins the pages of the block whose bits in `pages` are set; `r` is their blob, and the first of them
    /// becomes its owner. The caller must free the pages' old blobs. Returns false, and changes nothing, if a
    /// leaf cannot hold the reference.
    pub fn join(&mut self, layout: Layout, first: usize, pages: u32, r: Ref) -> bool {
        let Some(slot) = r.pack() else { return false };
        let mut holder = Some(slot);
        for at in layout.range(first) {
            if pages & 1 << (at - first) != 0 {
                self.set(at, Entry::Joined, holder.take().unwrap_or_default());
            }
        }
        self.clear_marks(first, layout);
        true
    }

    /// Changes the reference of the page's blob, or of the joined blob if this page holds its reference, from
    /// `from` to `to`. Returns false if it was not `from`.
    pub fn relocate(&mut self, at: usize, from: Ref, to: Ref) -> bool {
        let is_reference = matches!(self.kind(at), 1 | 2);
        let slot = &mut self.groups[at / GROUP].slots[at % GROUP];
        match (from.pack(), to.pack()) {
            (Some(from), Some(to)) if is_reference && *slot == from => {
                *slot = to;
                true
            }
            _ => false,
        }
    }

    /// Sets the location of the page's blob, or of the joined blob if this page holds its reference, to
    /// `now`. Returns the old location; `None`, without a change, if there is no such blob or a leaf cannot
    /// hold `now`.
    pub fn rehold(&mut self, at: usize, now: Held) -> Option<Held> {
        let is_blob = matches!(self.kind(at), 1 | 2);
        let slot = &mut self.groups[at / GROUP].slots[at % GROUP];
        let before = Held::unpack(*slot).filter(|_| is_blob)?;
        *slot = now.pack()?;
        Some(before)
    }

    /// Marks the page as used; returns whether it was already marked.
    pub fn touch(&mut self, at: usize) -> bool {
        let group = &mut self.groups[at / GROUP];
        let bit = 1 << (at % GROUP);
        let before = group.hot & bit != 0;
        group.hot |= bit;
        before
    }

    /// Whether a page of the block was used recently.
    pub fn is_hot(&self, layout: Layout, first: usize) -> bool {
        self.groups[first / GROUP].hot & layout.mask(first) != 0
    }

    /// The same, but also clears the bits.
    pub fn cool(&mut self, layout: Layout, first: usize) -> bool {
        let mask = layout.mask(first);
        let hot = &mut self.groups[first / GROUP].hot;
        let before = *hot & mask != 0;
        *hot &= !mask;
        before
    }

    pub fn has_mark(&self, first: usize, mark: Mark) -> bool {
        self.groups[first / GROUP].marks & mark_bit(first, mark) != 0
    }

    pub fn set_mark(&mut self, first: usize, mark: Mark) {
        self.groups[first / GROUP].marks |= mark_bit(first, mark);
    }

    pub fn clear_mark(&mut self, first: usize, mark: Mark) {
        self.groups[first / GROUP].marks &= !mark_bit(first, mark);
    }

    fn clear_marks(&mut self, first: usize, layout: Layout) {
        debug_assert!(first.is_multiple_of(layout.pages));
        self.clear_mark(first, Mark::Settled);
        self.clear_mark(first, Mark::Merging);
    }

    fn kind(&self, at: usize) -> u8 {
        let in_group = at % GROUP;
        self.groups[at / GROUP].kinds[in_group / 4] >> (in_group % 4 * 2) & 3
    }

    fn set(&mut self, at: usize, entry: Entry, slot: [u8; 7]) {
        let kind = match entry {
            Entry::Hole => 0,
            Entry::Page(_) => 1,
            Entry::Joined => 2,
            Entry::Fill(_) => 3,
        };
        match (self.kind(at), kind) {
            (0, 1..) => self.used += 1,
            (1.., 0) => self.used -= 1,
            _ => {}
        }
        let (group, in_group) = (&mut self.groups[at / GROUP], at % GROUP);
        let shift = in_group % 4 * 2;
        let kinds = &mut group.kinds[in_group / 4];
        *kinds = *kinds & !(3 << shift) | kind << shift;
        group.slots[in_group] = slot;
    }
}

/// The bit of a block's mark: blocks have at least two pages.
fn mark_bit(first: usize, mark: Mark) -> u8 {
    1 << (first % GROUP / 2 + mark as usize * (GROUP / 2))
}
