//! Probes: places where a tracer (bpftrace, perf, SystemTap, gdb) can listen to what memfold does, in a program that runs.
//!
//! They are USDT probes, notes of SystemTap's format (`note.rs`), of the provider `memfold`. What each says stands here, in one list, and with more words in
//! `docs/probes.md`, which a test compares with the notes that a build really has.
//!
//! What holds:
//! - A probe to which nobody listens costs a look at a word that is never written to, and a branch that is never taken. Its arguments are not worked out.
//! - A probe fires at one place of a binary, out of line, whatever was inlined around it. It takes no lock, allocates nothing and calls nothing, so it may
//!   stand wherever memfold runs: in handlers of faults, and in forked children.
//! - All arguments are 64 bits, unsigned; addresses of text are of bytes that end with a zero.
//! - Test probes (`test_...`) look at the whole structure after each change, while somebody listens to them, and fire with the verdict (`verdict.rs`).
//! - There are none but on Linux, x86-64 and aarch64, nor under miri, nor in a build with `--cfg memfold_no_probes`: nothing is left of them there.

#[cfg(test)]
pub(crate) mod heard;
mod note;
#[cfg(test)]
mod tests;
#[cfg(feature = "std")]
mod verdict;

#[cfg(feature = "std")]
pub(crate) use verdict::Verdict;

use core::sync::atomic::Ordering::Relaxed;

/// Whether there are probes in this build.
pub const PRESENT: bool = cfg!(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, memfold_no_probes))
));

/// Words of semaphores, of which one comparison says whether somebody listens to one of up to four probes: for what takes a few nanoseconds.
macro_rules! words {
    ($($(#[$doc:meta])* $is_heard:ident of $word:ident;)*) => {
        $(
            $(#[$doc])*
            #[cfg(feature = "std")]
            #[inline(always)]
            pub(crate) fn $is_heard() -> bool {
                note::listeners!("_.memfold.probes.", $word) != 0
            }
        )*
    };
}

words! {
    /// Where nodes are made and freed.
    are_nodes_heard of nodes;
    /// Where elements are added to lists.
    are_adds_heard of adds;
    /// Where elements are removed from lists.
    are_removes_heard of removes;
    /// Where elements are looked for.
    are_finds_heard of finds;
}

/// Fires a probe, if somebody listens: only then are the arguments worked out, which are numbers or pointers.
///
/// `probe!(heap_alloc, handle.to_bits(), len)`
#[doc(hidden)]
#[macro_export]
macro_rules! probe {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        if $crate::probe::$name::is_enabled() {
            $crate::probe::$name::fire($(($argument) as u64),*);
        }
    };
}

/// Fires a test probe with what a structure is (a number), and what came of looking at it, if somebody listens.
#[cfg(feature = "std")]
macro_rules! test_probe {
    ($name:ident, $subject:expr, $check:expr) => {
        if $crate::probe::$name::is_enabled() {
            let verdict: $crate::probe::Verdict = ($check).into();
            $crate::probe::$name::fire(($subject) as u64, verdict.number(), verdict.words() as u64);
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use test_probe;

/// Makes a module of each probe, with `is_enabled` and `fire`.
macro_rules! probes {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) $(in $word:ident at $offset:literal)?;)*) => {
        $(
            $(#[$doc])*
            pub mod $name {
                /// Whether somebody listens.
                #[inline(always)]
                pub fn is_enabled() -> bool {
                    let (semaphores, offset) = probes!(@semaphore $name $($word $offset)?);
                    semaphores.is_some_and(|word| {
                        word.load(super::Relaxed).to_ne_bytes()[offset..offset + 2] != [0; 2]
                    })
                }

                /// As a tracer does it.
                #[cfg(test)]
                pub(super) fn raise_by(by: i16) {
                    let (semaphores, offset) = probes!(@semaphore $name $($word $offset)?);
                    let mut one = [0; 8];
                    one[offset..offset + 2].copy_from_slice(&1u16.to_ne_bytes());
                    let one = u64::from_ne_bytes(one);
                    let by = if by > 0 { one } else { one.wrapping_neg() };
                    semaphores.map(|word| word.fetch_add(by, super::Relaxed));
                }

                /// Fires.
                #[cold]
                #[inline(never)]
                pub fn fire($($argument: u64),*) {
                    #[cfg(test)]
                    super::heard::note(stringify!($name), &[$($argument),*]);
                    probes!(@note $name $($word $offset)?, $($argument),*);
                }
            }
        )*

        /// Raises the semaphore of a probe by one, or takes one away; false if there is none of this name.
        #[cfg(test)]
        fn raise(probe: &str, by: i16) -> bool {
            match probe {
                $(stringify!($name) => { $name::raise_by(by); })*
                _ => return false,
            }
            true
        }

        /// All names, with how many arguments each has.
        #[cfg(test)]
        const ALL: &[(&str, usize)] = &[$((stringify!($name), [$(stringify!($argument)),*].len())),*];
    };
    (@semaphore $name:ident) => {
        (super::note::semaphore!("_.memfold.probe.", $name), 0)
    };
    (@semaphore $name:ident $word:ident $offset:literal) => {
        (super::note::semaphore!("_.memfold.probes.", $word), $offset)
    };
    (@note $name:ident, $($argument:ident),*) => {
        super::note::note!($name, "_.memfold.probe.", $name, 0, $($argument),*)
    };
    (@note $name:ident $word:ident $offset:literal, $($argument:ident),*) => {
        super::note::note!($name, "_.memfold.probes.", $word, $offset, $($argument),*)
    };
}

// The list. An `outcome` is 1 if what was asked for was done, 0 if there was nothing to do, and 2 after an error. Elements are counted, lengths are bytes.
probes! {
    /// An element is about to be added to a list.
    list_add_begin(list, elements) in adds at 0;
    /// It was added, or not.
    list_add(list, elements, outcome) in adds at 2;
    /// An element is about to be removed from a list.
    list_remove_begin(list, elements) in removes at 0;
    /// It was removed, or there was none.
    list_remove(list, elements, outcome) in removes at 2;
    /// An element is about to be looked for.
    list_find_begin(list, elements) in finds at 0;
    /// It was found, or not.
    list_find(list, elements, outcome) in finds at 2;
    /// Elements with numbers from one to another are about to be removed.
    list_remove_range_begin(list, elements);
    /// So many were.
    list_remove_range(list, elements, removed, outcome);
    /// An element was put in the place of another one, by number.
    list_set(list, elements, outcome);
    /// All of a list is about to be packed.
    list_reap_begin(list, elements);
    /// It was, and has so many leaves fewer.
    list_reap(list, elements, leaves, outcome);
    /// All elements are about to be taken out of a list.
    list_clear(list, elements);
    /// The elements of some leaves were put into more leaves.
    list_split(leaves_before, leaves_after, elements);
    /// The elements of some leaves were put into as many anew, or into fewer.
    list_pack(leaves_before, leaves_after, elements);
    /// A leaf, which holds slabs, was made.
    slab_alloc(handle, bytes, elements);
    /// A leaf is about to be freed.
    slab_free(handle, bytes, elements);

    /// A node was made. The handle is 0 if it could not be.
    heap_alloc(handle, bytes) in nodes at 0;
    /// A node was freed, or not.
    heap_free(handle, outcome) in nodes at 2;
    /// A node became longer or shorter; the new handle is 0 if it did not.
    heap_resize(handle, bytes, new_handle);
    /// A block without nodes was made.
    heap_block_make(block, kind);
    /// A block that has no nodes any more was given back.
    heap_block_vacate(block);
    /// A block that is not resident is about to be brought back.
    heap_fault_begin(block);
    /// It was, with so many bytes; 0 after an error.
    heap_fault(block, bytes, frame);
    /// Something was found in a block that stays compressed.
    heap_peek(block);
    /// A block left its frame.
    heap_evict(block, frame);
    /// A block is about to be put into the store.
    heap_compress_begin(block, bytes);
    /// It was.
    heap_compress(block, bytes, grouped);
    /// A block's copy is about to be taken out of the store.
    heap_decompress_begin(block, bytes);
    /// It was, or is damaged.
    heap_decompress(block, bytes, outcome);
    /// A frame was taken for a block, with memory for it, and for checks of its places or not.
    heap_frame_take(frame, checks);
    /// A frame was given back: it stays as a free one, or gives its memory back.
    heap_frame_give(frame, stays);

    /// A blob was put into the store.
    store_put(owner, reference, bytes);
    /// A blob was freed.
    store_free(owner, reference, bytes);
    /// A blob was moved into a hole.
    store_move(owner, reference, new_reference, bytes);
    /// Blobs were moved and memory was given back.
    store_compact(moved, moved_bytes, released_bytes);
    /// A block is about to go through a codec.
    compress_begin(owner, bytes, codec);
    /// It went; the payload is as long as the block if it is kept as it is.
    compress(owner, bytes, payload_bytes, codec);
    /// A block is about to be made of what the store has.
    decompress_begin(owner, bytes, payload_bytes, codec);
    /// It was, or is damaged.
    decompress(owner, bytes, payload_bytes, codec, outcome);

    /// A handler is about to serve a touch of a page that is not resident.
    runtime_fault_begin(address, is_write);
    /// It was served.
    runtime_fault(address, is_write);
    /// Pages were copied back from standby.
    runtime_rescue(address, pages);
    /// Pages were decompressed and put in place.
    runtime_restore(address, pages);
    /// Fresh pages were given.
    runtime_zero(address, pages);
    /// A range is about to be taken away.
    runtime_evict_begin(address, bytes);
    /// So many of its pages are on standby now, in this slot; 0 if it could not be taken.
    runtime_evict(address, bytes, pages, slot);
    /// Pages on standby went into the store, and their memory was given back.
    runtime_compress(slot, pages);
    /// A page in the store was compressed again by the dense codec, or was not worth it.
    runtime_densify(address, outcome);
    /// A batch is on its way to a tier.
    runtime_spill_begin(batch, pages, bytes);
    /// It was kept there; so many of its pages are there alone now.
    runtime_spill(batch, pages, outcome);
    /// A page, and those that follow it, were asked for from a tier.
    runtime_fetch_begin(address, batch, bytes, is_direct);
    /// Pages from a tier were put in place.
    runtime_fetch(address, pages);

    /// After an element was added, or was there.
    test_list_add(list, verdict, words) in adds at 4;
    /// After an element was removed, or there was none.
    test_list_remove(list, verdict, words) in removes at 4;
    /// After elements from one number to another were removed.
    test_list_remove_range(list, verdict, words);
    /// After an element was put in the place of another one.
    test_list_set(list, verdict, words);
    /// After a list was packed.
    test_list_reap(list, verdict, words);
    /// After leaves were split or packed: without the order of the elements.
    test_list_spread(list, verdict, words);
    /// After a node was made: all of the heap.
    test_heap_alloc(handle, verdict, words) in nodes at 4;
    /// After a node was freed.
    test_heap_free(handle, verdict, words) in nodes at 6;
    /// After a node became longer or shorter.
    test_heap_resize(handle, verdict, words);
}
