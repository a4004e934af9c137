//! Memory for compressed blobs: the store against allocators.
//!
//! A million blobs of 200 to 3000 bytes are put. Then, five times, a random half of them is deleted and as many
//! are put again. Finally 90 % are deleted. An operation is one put, which copies the payload, or one deletion.
//! Each contender runs in its own process with the same random sequence. Columns:
//!
//! - `RSS/payload`: after the phase; after a deletion, 99 ms later.
//! - `worst`: while blobs are deleted and for 99 ms after, the largest quotient of the resident size at a
//!   moment and the largest payload in the 100 ms before it.
//! - `wall`: wall time of the operations.
//! - `CPU`: user and system time of the operations, and of all other threads since the phase before: a background
//!   thread's work is never free.
//!
//! The resident size is the process's whole `VmRSS`. It includes the array of slots (8 bytes per blob, for
//! all contenders), the program and the source of payloads; only the shuffled order of operations is
//! excluded. After each phase every blob is compared with what was put.

mod area;
mod clock;
mod keeper;
#[path = "../random.rs"]
mod random;
mod run;
mod watch;

use std::process::Command;

use area::Area;
use keeper::{Keeper, Kept, Malloc, Slots};
use run::Run;

const CONTENDERS: [&str; 4] = ["store", "glibc", "mimalloc", "jemalloc"];

fn main() {
    let (mut blobs, mut json, mut one, mut names) = (1_000_000, false, false, Vec::new());
    for argument in std::env::args().skip(1) {
        match &*argument {
            "--json" => json = true,
            // For the child processes of this program.
            "--one" => one = true,
            name if CONTENDERS.contains(&name) => names.push(argument),
            number => match number.parse() {
                Ok(n) if n >= 1000 => blobs = n,
                _ => {
                    eprintln!("usage: bench-store [--json] [BLOBS] [{}]...", CONTENDERS.join("|"));
                    std::process::exit(2);
                }
            },
        }
    }
    if one {
        return Run::new(&names[0], json, blobs, keeper(&names[0], blobs)).all();
    }
    if names.is_empty() {
        names = CONTENDERS.map(String::from).to_vec();
    }
    if !json {
        let heads = ["contender", "phase", "operations", "RSS/payload", "worst", "wall ns/op", "CPU ns/op"];
        let [name, phase, n, rss, worst, wall, cpu] = heads;
        println!("{name:9} {phase:10} {n:>10} {rss:>11} {worst:>9} {wall:>10} {cpu:>9}");
    }
    let exe = std::env::current_exe().expect("this program");
    for name in names {
        let mut command = Command::new(&exe);
        command.args(["--one", &name, &blobs.to_string()]).args(json.then_some("--json"));
        assert!(command.status().expect("the contender runs").success(), "{name} failed");
    }
}

fn keeper(name: &str, blobs: usize) -> Box<dyn Keeper> {
    // SAFETY: zeroed atomics.
    let slots: Slots = unsafe { Area::new(blobs) };
    match name {
        "glibc" => Box::new(Malloc { slots, malloc: libc::malloc, free: libc::free }),
        "mimalloc" => {
            Box::new(Malloc { slots, malloc: libmimalloc_sys::mi_malloc, free: libmimalloc_sys::mi_free })
        }
        "jemalloc" => {
            Box::new(Malloc { slots, malloc: tikv_jemalloc_sys::malloc, free: tikv_jemalloc_sys::free })
        }
        _ => Box::new(Kept::new(slots)),
    }
}
