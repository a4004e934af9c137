//! The kinds of list.

use std::marker::PhantomData;

/// Each node links to the next one: one link, 8 bytes.
#[derive(Debug)]
pub struct Singly;

/// Each node links to the next one and to the previous one: two links, 16 bytes.
#[derive(Debug)]
pub struct Doubly;

/// The last node links to the first one and, in a doubly linked ring, the first one to the last.
#[derive(Debug)]
pub struct Ring<K>(PhantomData<K>);

/// How the nodes of a list are linked: [`Singly`], [`Doubly`], or a [`Ring`] of either.
pub trait Kind: sealed::Sealed {
    /// Number of links in a node.
    #[doc(hidden)]
    const LINKS: usize;
    /// Whether the last node links to the first.
    #[doc(hidden)]
    const IS_RING: bool;
}

/// Kinds whose nodes also link to the previous node.
pub trait BothWays: Kind {}

/// Kinds that have no end.
pub trait Around: Kind {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Singly {}
    impl Sealed for super::Doubly {}
    impl<K: super::Straight> Sealed for super::Ring<K> {}
}

/// Kinds that a [`Ring`] can be made of.
pub trait Straight: Kind {}
impl Straight for Singly {}
impl Straight for Doubly {}

impl Kind for Singly {
    const LINKS: usize = 1;
    const IS_RING: bool = false;
}

impl Kind for Doubly {
    const LINKS: usize = 2;
    const IS_RING: bool = false;
}

impl<K: Straight> Kind for Ring<K> {
    const LINKS: usize = K::LINKS;
    const IS_RING: bool = true;
}

impl BothWays for Doubly {}
impl<K: Straight + BothWays> BothWays for Ring<K> {}
impl<K: Straight> Around for Ring<K> {}
