//! The code of the doors: what a thread of the program runs when the supervisor has sent it through one.

#[cfg(all(feature = "preload", target_arch = "x86_64"))]
pub use inside::open;

#[cfg(all(feature = "preload", target_arch = "x86_64"))]
mod inside {
    use core::mem::offset_of;
    use core::sync::atomic::Ordering::*;

    use memfold_shared::door::{Area, DOORS, Door, MAGIC, NOBODY, TAKEN};

    use crate::process::door::DOOR;

    /// Opens the doors: the thread that is made behind one uses this stack and control block. Returns the
    /// address for the slot; 0 where there are no doors.
    pub fn open(stack: usize, control_block: usize) -> u64 {
        DOOR.stack.store(stack, Relaxed);
        DOOR.control_block.store(control_block, Relaxed);
        // SAFETY: the table is defined below, and never changes.
        let table = unsafe { memfold_doors };
        for (to, door) in DOOR.doors.iter().zip(table) {
            to.store(door, Relaxed);
        }
        // In a forked child: no thread is on its way through a door.
        DOOR.begins.store(0, Relaxed);
        let busy = offset_of!(Area, busy) / size_of::<u64>();
        DOOR.areas.iter().for_each(|area| area.0[busy].store(0, Relaxed));
        DOOR.magic.store(MAGIC, Release);
        &raw const DOOR as u64
    }

    unsafe extern "C" {
        static memfold_doors: [u64; DOORS];
    }

    extern "C" fn behind_door() -> ! {
        crate::interpose::rights::credentials::join_late();
        crate::reclaim::watch::keeper(0)
    }

    // Block all signals; claim; clone; wait, if requested; unblock; go on. The flags are restored without a
    // stack: `add` sets the overflow flag, and `sahf` the others.
    core::arch::global_asm!(
        ".macro memfold_door i",
        ".Lmemfold_door_\\i:",
        "mov edi, 2",
        "lea rsi, [rip + .Lmemfold_all_signals]",
        "lea rdx, [rip + {door} + {areas} + \\i * {size} + {mask}]",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "xor eax, eax",
        "mov ecx, {taken}",
        "lock cmpxchg dword ptr [rip + {door} + {claim}], ecx",
        "jne 4f",
        "mov dword ptr [rip + {door} + {begins}], 1",
        "mov edi, {flags}",
        "mov rsi, [rip + {door} + {stack}]",
        "xor edx, edx",
        "xor r10d, r10d",
        "mov r8, [rip + {door} + {control_block}]",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz .Lmemfold_behind_door",
        "jns 4f",
        "mov dword ptr [rip + {door} + {error}], eax",
        "mov dword ptr [rip + {door} + {begins}], 0",
        "mov dword ptr [rip + {door} + {claim}], {nobody}",
        "4:",
        "cmp qword ptr [rip + {door} + {areas} + \\i * {size} + {waits}], 0",
        "je 5f",
        "lea rdi, [rip + {door} + {begins}]",
        "mov esi, {futex_wait}",
        "mov edx, 1",
        "lea r10, [rip + .Lmemfold_longest]",
        "mov eax, {futex}",
        "syscall",
        "5:",
        "mov edi, 2",
        "lea rsi, [rip + {door} + {areas} + \\i * {size} + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "mov eax, dword ptr [rip + {door} + {areas} + \\i * {size} + {packed}]",
        "add al, 0x7f",
        "sahf",
        "mov rax, [rip + {door} + {areas} + \\i * {size} + {rax}]",
        "mov rcx, [rip + {door} + {areas} + \\i * {size} + {rcx}]",
        "mov rdx, [rip + {door} + {areas} + \\i * {size} + {rdx}]",
        "mov rsi, [rip + {door} + {areas} + \\i * {size} + {rsi}]",
        "mov rdi, [rip + {door} + {areas} + \\i * {size} + {rdi}]",
        "mov r8, [rip + {door} + {areas} + \\i * {size} + {r8}]",
        "mov r10, [rip + {door} + {areas} + \\i * {size} + {r10}]",
        "mov r11, [rip + {door} + {areas} + \\i * {size} + {r11}]",
        "mov qword ptr [rip + {door} + {areas} + \\i * {size} + {busy}], 0",
        "jmp qword ptr [rip + {door} + {areas} + \\i * {size} + {rip}]",
        ".endm",
        ".pushsection .text.memfold_doors, \"ax\", @progbits",
        "memfold_door 0",
        "memfold_door 1",
        "memfold_door 2",
        "memfold_door 3",
        "memfold_door 4",
        "memfold_door 5",
        "memfold_door 6",
        "memfold_door 7",
        // A new thread has the flags and the rounding mode of the thread that was sent through the door.
        ".Lmemfold_behind_door:",
        "push 0x202",
        "popfq",
        "fninit",
        "push 0x1f80",
        "ldmxcsr [rsp]",
        "pop rax",
        "xor ebp, ebp",
        "call {behind}",
        "ud2",
        ".p2align 3",
        ".Lmemfold_all_signals:",
        ".quad -1",
        ".Lmemfold_longest:",
        ".quad 0, 100000000",
        ".popsection",
        ".pushsection .data.rel.ro.memfold_doors, \"aw\", @progbits",
        ".globl memfold_doors",
        ".hidden memfold_doors",
        ".p2align 3",
        "memfold_doors:",
        ".quad .Lmemfold_door_0, .Lmemfold_door_1, .Lmemfold_door_2, .Lmemfold_door_3",
        ".quad .Lmemfold_door_4, .Lmemfold_door_5, .Lmemfold_door_6, .Lmemfold_door_7",
        ".popsection",
        ".purgem memfold_door",
        door = sym DOOR,
        behind = sym behind_door,
        areas = const offset_of!(Door, areas),
        size = const size_of::<Area>(),
        mask = const offset_of!(Area, mask),
        busy = const offset_of!(Area, busy),
        packed = const offset_of!(Area, flags),
        rip = const offset_of!(Area, rip),
        rax = const offset_of!(Area, rax),
        rcx = const offset_of!(Area, rcx),
        rdx = const offset_of!(Area, rdx),
        rsi = const offset_of!(Area, rsi),
        rdi = const offset_of!(Area, rdi),
        r8 = const offset_of!(Area, r8),
        r10 = const offset_of!(Area, r10),
        r11 = const offset_of!(Area, r11),
        claim = const offset_of!(Door, claim),
        error = const offset_of!(Door, error),
        begins = const offset_of!(Door, begins),
        waits = const offset_of!(Area, waits),
        futex = const crate::kernel::sys::nr::FUTEX,
        futex_wait = const crate::kernel::sys::FUTEX_WAIT_PRIVATE,
        stack = const offset_of!(Door, stack),
        control_block = const offset_of!(Door, control_block),
        taken = const TAKEN,
        nobody = const NOBODY,
        flags = const crate::process::thread::OWN_FLAGS,
        clone = const crate::kernel::sys::nr::CLONE,
        sigprocmask = const crate::kernel::sys::nr::SIGPROCMASK,
    );
}

/// There are no doors: without the library no keeper can be started; and on other architectures the last jump
/// of a door needs a register, but all registers belong to the program.
#[cfg(not(all(feature = "preload", target_arch = "x86_64")))]
pub fn open(_stack: usize, _control_block: usize) -> u64 {
    0
}
