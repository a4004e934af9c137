//! The operations of ncdu 1 on its nodes: the four that compll's paper measures (chapter 8).
//!
//! The struct and the algorithms are ncdu 1's (the struct as of 2018). Nothing is simplified for one kind of
//! memory: malloc and the heap run the same code, through [`Nodes`].
//!
//! ```text
//!    0 size │ 8 asize │ 16 ino │ 24 dev │ 32 parent │ 40 next │ 48 prev │ 56 sub │ 64 hlnk │ 72 items │ 76 flags │ 78 name, 0
//! ```
//!
//! A directory's children form a list: `sub` of the directory, then `next` and `prev`. The names of one file
//! form a ring: `hlnk`.

pub mod browse;
pub mod check;
pub mod delete;
pub mod links;
pub mod open;
pub mod scan;

use memfold::heap::Plain;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A reference to a node, as stored in nodes: a pointer or a handle. Zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Link(pub u64);

impl Link {
    pub const NONE: Link = Link(0);

    /// The link, unless it is `NONE`.
    #[inline]
    pub fn some(self) -> Option<Link> {
        (self != Link::NONE).then_some(self)
    }
}

/// ncdu 1's `struct dir` before its name: 78 bytes. Packed, because the name begins in the struct's padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed(2))]
pub struct Dir {
    /// Size on disk and apparent size in bytes; for directories including everything below.
    pub size: i64,
    pub asize: i64,
    pub ino: u64,
    pub dev: u64,
    pub parent: Link,
    pub next: Link,
    pub prev: Link,
    pub sub: Link,
    pub hlnk: Link,
    /// Number of names below a directory.
    pub items: i32,
    pub flags: u16,
}

/// Where the name begins.
pub const NAME: usize = size_of::<Dir>();
const _: () = assert!(NAME == 78);

/// ncdu's flags of a node.
pub mod flags {
    pub const DIR: u16 = 0x01;
    pub const FILE: u16 = 0x02;
    /// The entry could not be read.
    pub const ERR: u16 = 0x04;
    /// Something below the directory could not be read.
    pub const SERR: u16 = 0x20;
    /// A file with more than one name.
    pub const HLNKC: u16 = 0x40;
    /// Selected in the browser.
    pub const BSEL: u16 = 0x80;
}

/// A field of [`Dir`], or several adjacent ones: the offset and the type.
pub struct Part<T>(usize, std::marker::PhantomData<T>);

impl<T> Part<T> {
    pub const fn at(at: usize) -> Self {
        Part(at, std::marker::PhantomData)
    }

    /// The part's offset in bytes.
    pub fn begin(&self) -> usize {
        self.0
    }
}

macro_rules! parts {
    ($($(#[$what:meta])* $name:ident: $of:ty = $first:ident;)*) => {
        $($(#[$what])* pub const $name: Part<$of> = Part::at(std::mem::offset_of!(Dir, $first));)*
    };
}

parts! {
    /// All fields.
    DIR: Dir = size;
    /// Size and apparent size.
    SIZES: [i64; 2] = size;
    PARENT: Link = parent;
    NEXT: Link = next;
    PREV: Link = prev;
    SUB: Link = sub;
    HLNK: Link = hlnk;
    FLAGS: u16 = flags;
}

/// Memory for nodes. Errors end the program: a benchmark that lost a node has no result.
pub trait Nodes {
    /// A node that holds these bytes: a [`Dir`], a name and a zero.
    fn make(&mut self, bytes: &[u8]) -> Link;
    fn free(&mut self, node: Link);
    /// Reads one or several of the node's fields.
    fn read<T: Plain>(&self, node: Link, part: Part<T>) -> T;
    /// Changes one or several of the node's fields in place.
    fn change<T: Plain, R>(&mut self, node: Link, part: Part<T>, change: impl FnOnce(&mut T) -> R) -> R;
    /// The node's name. The implementation may use `room` as a buffer for it.
    fn name<'a>(&'a self, node: Link, room: &'a mut Vec<u8>) -> &'a [u8];

    /// Writes a field.
    fn set<T: Plain>(&mut self, node: Link, part: Part<T>, value: T) {
        self.change(node, part, |field| *field = value);
    }
}

/// Adds to the totals of `node` and all its ancestors, as ncdu does for each new and each deleted file.
pub fn add_to_parents(nodes: &mut impl Nodes, mut node: Link, size: i64, asize: i64, items: i32) {
    while let Some(link) = node.some() {
        node = nodes.change(link, DIR, |dir| {
            dir.size = dir.size.saturating_add(size);
            dir.asize = dir.asize.saturating_add(asize);
            dir.items += items;
            dir.parent
        });
    }
}
