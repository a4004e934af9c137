//! A probe in the binary, as a tracer finds it: a note in SystemTap's format, version 3, and a semaphore.
//!
//! ```text
//!   section .note.stapsdt, not loaded with the program:
//!     | 8 | bytes of the rest | 3 | "stapsdt\0" |                                           header of the note
//!     | address of the nop | address of _.stapsdt.base | address of the semaphore |         8 bytes each
//!     | "memfold\0" | name of the probe | where its arguments are: "8@%rdi 8@%rsi", 8@: 8 bytes |
//!   section .stapsdt.base: one byte, whose address says by how much all others were moved after linking
//!   section .probes: the semaphores, 2 bytes each of a word of 8
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

/// Puts a nop here, and its note. Arguments are names of 64-bit variables.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, memfold_no_probes))
))]
macro_rules! note {
    ($name:ident, $prefix:literal, $symbol:ident, $offset:literal $(, $argument:ident)* $(,)?) => {
        super::note::note!(@joined $name, $prefix, $symbol, $offset, ($($argument)*), $($argument)*)
    };
    (@joined $name:ident, $prefix:literal, $symbol:ident, $offset:literal, ($($all:ident)*), $first:ident $($more:ident)*) => {
        super::note::note!(@text $name, $prefix, $symbol, $offset, ($($all)*),
            concat!("8@{", stringify!($first), "}" $(, " 8@{", stringify!($more), "}")*))
    };
    (@text $name:ident, $prefix:literal, $symbol:ident, $offset:literal, ($($argument:ident)*), $places:expr) => {
        #[cfg(target_arch = "x86_64")]
        super::note::note!(@asm $name, $prefix, $symbol, $offset, ($($argument)*), $places, (att_syntax));
        #[cfg(target_arch = "aarch64")]
        super::note::note!(@asm $name, $prefix, $symbol, $offset, ($($argument)*), $places, ());
    };
    (@asm $name:ident, $prefix:literal, $symbol:ident, $offset:literal, ($($argument:ident)*), $places:expr, ($($syntax:ident)?)) => {
        // SAFETY: the only instruction does nothing. The rest are bytes in sections that no code reads, the
        // semaphore, and the one byte of the base, defined as `sys/sdt.h` defines it. Not `nomem`: if an
        // argument is the address of a text, a tracer reads the text.
        unsafe {
            core::arch::asm!(
                "990: nop",
                super::note::definition!($prefix, $symbol),
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
                concat!(".asciz \"", $places, "\""),
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $($argument = in(reg) $argument,)*
                options(readonly, nostack, preserves_flags $(, $syntax)?),
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
