//! A probe in the binary, as a tracer finds it: a note in SystemTap's format, version 3, and a semaphore.
//!
//! ```text
//!   section .note.stapsdt, not loaded with the program:
//!     | 8 | bytes of the rest | 3 | "stapsdt\0" |                                           header of the note
//!     | address of the nop | address of _.stapsdt.base | address of the semaphore |         8 bytes each
//!     | "memfold\0" | name of the probe | where its arguments are: "8@%rdi 8@%rsi", 8@: 8 bytes |
//!   section .stapsdt.base: one byte, whose address says by how much all others were moved after linking
//!   section .probes: the semaphores, 2 bytes each of a word of 8
//!   section .text._.memfold.nop: a nop and a return, in one group with the note
//! ```
//!
//! Tracers put their breakpoint on the `nop`. The notes are not loaded into memory: tracers read them from
//! the file.
//!
//! Semaphores are defined here as `sys/sdt.h` defines the base: as hidden symbols in each object that uses
//! them, of which the linker keeps one. So code reads them directly; a read by way of the global offset table
//! would cost twice as much. Each binary has semaphores and notes of its own.

/// Assembly that defines eight bytes of semaphores, if the object does not have them yet.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, memfold_no_probes))
))]
macro_rules! definition {
    ($prefix:literal, $symbol:ident) => {
        concat!(
            ".ifndef ",
            $prefix,
            stringify!($symbol),
            "\n",
            ".pushsection .probes,\"awG\",\"progbits\",",
            $prefix,
            stringify!($symbol),
            ",comdat\n",
            ".balign 8\n",
            ".weak ",
            $prefix,
            stringify!($symbol),
            "\n",
            ".hidden ",
            $prefix,
            stringify!($symbol),
            "\n",
            ".type ",
            $prefix,
            stringify!($symbol),
            ", %object\n",
            ".size ",
            $prefix,
            stringify!($symbol),
            ", 8\n",
            $prefix,
            stringify!($symbol),
            ": .8byte 0\n",
            ".popsection\n",
            ".endif"
        )
    };
}

/// The current value of eight bytes of semaphores; 0 where there are no probes. This takes one instruction,
/// and `semaphore` two; but the compiler can reorder the code around it less freely.
#[cfg(feature = "std")]
macro_rules! listeners {
    ($prefix:literal, $symbol:ident) => {{
        #[cfg(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64"),
            not(any(miri, memfold_no_probes))
        ))]
        {
            let word: u64;
            // SAFETY: reads the eight bytes that are defined here. Only tracers write them, from outside the
            // program, and tests, atomically. Not `pure`: their value may differ each time.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!(
                    $crate::probe::note::definition!($prefix, $symbol),
                    concat!("movq ", $prefix, stringify!($symbol), "(%rip), {}"),
                    out(reg) word,
                    options(readonly, nostack, preserves_flags, att_syntax),
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!(
                    $crate::probe::note::definition!($prefix, $symbol),
                    concat!("adrp {0}, ", $prefix, stringify!($symbol)),
                    concat!("ldr {0}, [{0}, :lo12:", $prefix, stringify!($symbol), "]"),
                    out(reg) word,
                    options(readonly, nostack, preserves_flags),
                );
            }
            word
        }
        #[cfg(not(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64"),
            not(any(miri, memfold_no_probes))
        )))]
        0u64
    }};
}

/// Eight bytes of semaphores; `None` where there are no probes.
macro_rules! semaphore {
    ($prefix:literal, $symbol:ident) => {{
        #[cfg(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64"),
            not(any(miri, memfold_no_probes))
        ))]
        {
            let address: *const core::sync::atomic::AtomicU64;
            // SAFETY: computes the address of the eight bytes that are defined here, which is always the
            // same.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!(
                    $crate::probe::note::definition!($prefix, $symbol),
                    concat!("leaq ", $prefix, stringify!($symbol), "(%rip), {}"),
                    out(reg) address,
                    options(pure, nomem, nostack, preserves_flags, att_syntax),
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!(
                    $crate::probe::note::definition!($prefix, $symbol),
                    concat!("adrp {0}, ", $prefix, stringify!($symbol)),
                    concat!("add {0}, {0}, :lo12:", $prefix, stringify!($symbol)),
                    out(reg) address,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            // SAFETY: the bytes exist as long as the code does and are aligned. Only tracers write them, from
            // outside the program, and tests, atomically.
            unsafe { address.as_ref() }
        }
        #[cfg(not(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64"),
            not(any(miri, memfold_no_probes))
        )))]
        None::<&core::sync::atomic::AtomicU64>
    }};
}

/// Calls the probe's nop, which is in a section of its own, and defines it together with its note. Arguments are
/// the names of one to five 64-bit variables.
///
/// The nop and its note are in one group of sections, which a linker keeps or leaves out as a whole. Otherwise,
/// where nothing fires a probe, the linker would leave out the nop and keep a note that names the address 0.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, memfold_no_probes))
))]
macro_rules! note {
    ($name:ident, $prefix:literal, $symbol:ident, $offset:literal $(, $argument:ident)+ $(,)?) => {
        // The registers in which C passes arguments: `fire` has them there already.
        #[cfg(target_arch = "x86_64")]
        super::note::note!(@pair [] ($($argument)+) ("rdi" "rsi" "rdx" "rcx" "r8")
            ("call ", "8@%", (att_syntax)) $name, $prefix, $symbol, $offset);
        #[cfg(target_arch = "aarch64")]
        super::note::note!(@pair [] ($($argument)+) ("x0" "x1" "x2" "x3" "x4")
            ("bl ", "8@", (), lateout("lr") _,) $name, $prefix, $symbol, $offset);
    };
    (@pair [$($done:tt)*] ($next:ident $($more:ident)*) ($register:tt $($free:tt)*) $($rest:tt)+) => {
        super::note::note!(@pair [$($done)* ($next $register)] ($($more)*) ($($free)*) $($rest)+);
    };
    (@pair [($first:ident $place:tt) $(($more:ident $places:tt))*] () $free:tt
        ($call:literal, $size:literal, ($($syntax:ident)?) $(, $($clobber:tt)+)?)
        $name:ident, $prefix:literal, $symbol:ident, $offset:literal
    ) => {
        // SAFETY: the code that is called does nothing and returns. The rest are bytes in sections that no code
        // reads, the semaphore, and the one byte of the base, defined as `sys/sdt.h` defines it. Not `nomem`: if
        // an argument is the address of a text, a tracer reads the text. Not `nostack`: a call writes below the
        // stack pointer on x86-64.
        unsafe {
            core::arch::asm!(
                concat!($call, "_.memfold.nop.", stringify!($name)),
                concat!(".ifndef _.memfold.nop.", stringify!($name)),
                concat!(
                    ".pushsection .text._.memfold.nop,\"axG\",\"progbits\",_.memfold.nop.", stringify!($name), ",comdat"
                ),
                concat!(".weak _.memfold.nop.", stringify!($name)),
                concat!(".hidden _.memfold.nop.", stringify!($name)),
                concat!(".type _.memfold.nop.", stringify!($name), ", %function"),
                ".balign 4",
                concat!("_.memfold.nop.", stringify!($name), ":"),
                "990: nop",
                "ret",
                concat!(".size _.memfold.nop.", stringify!($name), ", . - _.memfold.nop.", stringify!($name)),
                // `?`: in the group of the section before.
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                concat!(".8byte ", $prefix, stringify!($symbol), "+", $offset),
                ".asciz \"memfold\"",
                concat!(".asciz \"", stringify!($name), "\""),
                concat!(".asciz \"", $size, $place, $(" ", $size, $places,)* "\""),
                "994: .balign 4",
                ".popsection",
                ".popsection",
                ".endif",
                super::note::definition!($prefix, $symbol),
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                in($place) $first,
                $(in($places) $more,)*
                $($($clobber)+)?
                options(readonly, preserves_flags $(, $syntax)?),
            );
        }
    };
}

/// Does nothing.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, memfold_no_probes))
)))]
macro_rules! note {
    ($name:ident, $prefix:literal, $symbol:ident, $offset:literal $(, $argument:ident)* $(,)?) => {
        let _ = ($(&$argument,)*);
    };
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, memfold_no_probes))
))]
pub(super) use definition;
#[cfg(feature = "std")]
pub(super) use listeners;
pub(super) use {note, semaphore};
