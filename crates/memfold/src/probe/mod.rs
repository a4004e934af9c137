//! Probes: places where a tracer (bpftrace, perf, SystemTap, gdb) can observe memfold in a running program.
//!
//! They are USDT probes of the provider `memfold`: notes in SystemTap's format (`note.rs`). All are listed
//! here, and described in `docs/probes.md`; a test compares that page with the notes in a real build.
//!
//! Invariants:
//! - If no tracer listens to a probe, it costs a read of a word that nothing writes, and a branch that is not
//!   taken. Its arguments are not computed.
//! - A probe fires at one place of a binary, out of line, whatever was inlined around it. It takes no lock,
//!   allocates nothing and calls nothing, so it may be anywhere in memfold: in fault handlers, and in forked
//!   children.
//! - All arguments are unsigned 64-bit numbers. A text is given by the address of its bytes, which end with a
//!   zero.
//! - While a tracer listens to a test probe (`test_...`), it checks the whole structure after each change and
//!   fires with the verdict (`verdict.rs`).
//! - Probes exist only on Linux, on x86-64 and aarch64, not under miri, and not in a build with `--cfg
//!   memfold_no_probes`. In other builds they compile to nothing.

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

/// Words of semaphores: one comparison of a word shows whether a tracer listens to any of up to four probes.
/// For operations that take a few nanoseconds.
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
    /// Whether a tracer listens where nodes are made and freed.
    are_nodes_heard of nodes;
    /// Whether a tracer listens where elements are added to lists.
    are_adds_heard of adds;
    /// Whether a tracer listens where elements are removed from lists.
    are_removes_heard of removes;
    /// Whether a tracer listens where elements are searched for.
    are_finds_heard of finds;
}

/// Fires a probe if a tracer listens; only then are its arguments computed. They are numbers or pointers.
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

/// Fires a test probe with the name of a structure (a number) and the result of its check, if a tracer
/// listens.
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
                /// Whether a tracer listens.
                #[inline(always)]
                pub fn is_enabled() -> bool {
                    let (semaphores, offset) = probes!(@semaphore $name $($word $offset)?);
                    semaphores.is_some_and(|word| {
                        word.load(super::Relaxed).to_ne_bytes()[offset..offset + 2] != [0; 2]
                    })
                }

                /// Raises or lowers the semaphore as a tracer does.
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

        /// Raises the semaphore of a probe by one, or lowers it; false if no probe has this name.
        #[cfg(test)]
        fn raise(probe: &str, by: i16) -> bool {
            match probe {
                $(stringify!($name) => { $name::raise_by(by); })*
                _ => return false,
            }
            true
        }

        /// All names, with the number of arguments of each.
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

// The list. An `outcome` is 1 if the operation was done, 0 if there was nothing to do, and 2 after an error.
// `elements` are counts, `bytes` are lengths.
probes! {
    /// An element is about to be added to a list.
    list_add_begin(list, elements) in adds at 0;
    /// The element was added, or not.
    list_add(list, elements, outcome) in adds at 2;
    /// An element is about to be removed from a list.
    list_remove_begin(list, elements) in removes at 0;
    /// The element was removed, or there was none.
    list_remove(list, elements, outcome) in removes at 2;
    /// An element is about to be searched for.
    list_find_begin(list, elements) in finds at 0;
    /// The element was found, or not.
    list_find(list, elements, outcome) in finds at 2;
    /// The elements from one number to another are about to be removed.
    list_remove_range_begin(list, elements);
    /// Elements were removed: this many.
    list_remove_range(list, elements, removed, outcome);
    /// An element was replaced, by number.
    list_set(list, elements, outcome);
    /// All of a list is about to be packed.
    list_reap_begin(list, elements);
    /// The list was packed, and has this many fewer leaves.
    list_reap(list, elements, leaves, outcome);
    /// All elements are about to be removed from a list.
    list_clear(list, elements);
    /// The elements of some leaves were spread over more leaves.
    list_split(leaves_before, leaves_after, elements);
    /// The elements of some leaves were repacked into as many leaves, or fewer.
    list_pack(leaves_before, leaves_after, elements);
    /// A leaf, which holds slabs, was made.
    slab_alloc(handle, bytes, elements);
    /// A leaf is about to be freed.
    slab_free(handle, bytes, elements);

    /// A node was made. The handle is 0 after an error.
    heap_alloc(handle, bytes) in nodes at 0;
    /// A node was freed, or not.
    heap_free(handle, outcome) in nodes at 2;
    /// A node became longer or shorter; the new handle is 0 if it did not.
    heap_resize(handle, bytes, new_handle);
    /// A block without nodes was made.
    heap_block_make(block, kind);
    /// A block without nodes was made vacant.
    heap_block_vacate(block);
    /// A block that is not resident is about to be faulted in.
    heap_fault_begin(block);
    /// The block was faulted in, with this many bytes; 0 after an error.
    heap_fault(block, bytes, frame);
    /// A node was found in a block that stays compressed.
    heap_peek(block);
    /// A block was evicted from its frame.
    heap_evict(block, frame);
    /// A block is about to be put into the store.
    heap_compress_begin(block, bytes);
    /// The block was put into the store.
    heap_compress(block, bytes, grouped);
    /// A block's copy is about to be read from the store.
    heap_decompress_begin(block, bytes);
    /// The copy was read, or is damaged.
    heap_decompress(block, bytes, outcome);
    /// A frame and its memory were taken for a block; `checks`: with memory for checks of its places, too.
    heap_frame_take(frame, checks);
    /// A frame was given back: it stays as a free frame, or its memory is returned.
    heap_frame_give(frame, stays);

    /// A blob was put into the store.
    store_put(owner, reference, bytes);
    /// A blob was freed.
    store_free(owner, reference, bytes);
    /// A blob was moved into a hole.
    store_move(owner, reference, new_reference, bytes);
    /// Blobs were moved and memory was returned.
    store_compact(moved, moved_bytes, released_bytes);
    /// A block is about to go through a codec.
    compress_begin(owner, bytes, codec);
    /// The block was compressed; the payload is as long as the block if it is stored as it is.
    compress(owner, bytes, payload_bytes, codec);
    /// A block is about to be decompressed from its stored form.
    decompress_begin(owner, bytes, payload_bytes, codec);
    /// The block was decompressed, or its form is damaged.
    decompress(owner, bytes, payload_bytes, codec, outcome);

    /// A handler is about to serve a touch of a page that is not resident.
    runtime_fault_begin(address, is_write);
    /// The touch was served.
    runtime_fault(address, is_write);
    /// Pages were copied back from standby.
    runtime_rescue(address, pages);
    /// Pages were decompressed and put in place.
    runtime_restore(address, pages);
    /// Fresh zero pages were put in place.
    runtime_zero(address, pages);
    /// A range is about to be evicted.
    runtime_evict_begin(address, bytes);
    /// This many of its pages are on standby now, in this slot; 0 if the range could not be evicted.
    runtime_evict(address, bytes, pages, slot);
    /// Pages on standby went into the store, and their memory was returned.
    runtime_compress(slot, pages);
    /// A page in the store was recompressed by the dense codec, or that was not worth it.
    runtime_densify(address, outcome);
    /// A batch is about to be written to a tier.
    runtime_spill_begin(batch, pages, bytes);
    /// The tier acknowledged the batch, or not; this many of its pages are only on the tier now.
    runtime_spill(batch, pages, outcome);
    /// A page, and those that follow it, were requested from a tier.
    runtime_fetch_begin(address, batch, bytes, is_direct);
    /// Pages from a tier were put in place.
    runtime_fetch(address, pages);

    /// After an element was added, or was already there.
    test_list_add(list, verdict, words) in adds at 4;
    /// After an element was removed, or there was none.
    test_list_remove(list, verdict, words) in removes at 4;
    /// After elements from one number to another were removed.
    test_list_remove_range(list, verdict, words);
    /// After an element was replaced.
    test_list_set(list, verdict, words);
    /// After a list was packed.
    test_list_reap(list, verdict, words);
    /// After leaves were split or packed: the check leaves out the order of the elements.
    test_list_spread(list, verdict, words);
    /// After a node was made: a check of the whole heap.
    test_heap_alloc(handle, verdict, words) in nodes at 4;
    /// After a node was freed.
    test_heap_free(handle, verdict, words) in nodes at 6;
    /// After a node was resized.
    test_heap_resize(handle, verdict, words);
}
