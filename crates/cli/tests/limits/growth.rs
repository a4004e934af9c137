//! Limits are held while a program grows at full speed on all CPUs, and given up if the data do not compress.
//! Also tests a damaged block.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{alone, compile, finish, run_with, start, stats, watched};

const MIB: u64 = 1 << 20;

/// Two threads fill `argv[1]` MiB in blocks of 1 MiB. Every page differs, and `argv[2]` of 64 words are
/// random. Reads all of it back.
const GROW: &str = include_str!("c/grow.c");

/// Fills `argv[1]` MiB, of which 10 of 64 words are random, and forks `argv[2]` children. The children and
/// the parent write to every page at once, and check three times that everything else is unchanged.
const SHARE: &str = include_str!("c/table.c");

/// Fills 4 MiB of pages that are three quarters noise, which LZ4 stores as it is, and then far more memory
/// that compresses. Finds an evicted page among the noisy ones, flips a bit in each copy of it outside of its
/// own memory, and reads it.
const DAMAGE: &str = include_str!("c/damage.c");

/// Three times, lets the kernel populate `argv[1]` MiB at once, and then writes and reads them.
const POPULATE: &str = include_str!("c/populate.c");

/// Four times, a forked child unmaps the `argv[1]` MiB that it shares with its parent, and fills as much new
/// memory.
const ANEW: &str = include_str!("c/anew.c");

/// Threads of memfold start slowly, or hardly run later, while a thread of the program gets memory.
const LATE: &str = include_str!("c/late.c");

/// Gets memory in the way that `argv[1]` names.
const WAYS: &str = include_str!("c/ways.c");

/// Makes a file of `argv[1]` MiB, and reads it back with as few system calls as the kernel allows. With two
/// more arguments, it first touches a third of the memory for it, fills `argv[2]` MiB in small pieces, and
/// sleeps for `argv[3]` seconds.
const READ: &str = include_str!("c/read.c");

/// Gets `argv[2]` MiB in the way that `argv[1]` names, and has the kernel fill it at once.
const FILLED: &str = include_str!("c/filled.c");

fn program(directory: &Path) -> Option<String> {
    Some(compile(directory, "grow", GROW, &["-pthread"])?.to_str()?.to_owned())
}

/// Samples the memory of a started program until it ends, and checks its output and its limit. Returns the
/// number of samples.
fn holds(limit: u64, child: Child) -> usize {
    let (samples, peak, said) = watched(child);
    assert!(peak > limit / 2, "{peak} bytes at most: nothing was tried");
    assert!(peak <= limit * 105 / 100 + 8 * MIB, "{peak} bytes at most, {}", said.err);
    assert!(!said.err.contains("exceeded the limit"), "{}", said.err);
    assert!(!said.err.contains("not managed"), "{}", said.err);
    samples
}

#[test]
fn growth_at_full_speed() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(grow) = program(here.path()) else { return };
    let json = here.path().join("s.json");
    let samples = holds(
        64 * MIB,
        start(&["--limit", "64M", "--stats", json.to_str().unwrap(), "--"], &[&grow, "192", "12"]),
    );
    assert!(samples > 10, "{samples} samples");
    let stats = stats(&json);
    assert!(stats["peak_logical_bytes"].as_u64().unwrap() > 190 * MIB, "{stats}");
}

/// Once one thread has asked for paging, no other goes on to get memory before it has begun, however long that
/// takes: in large blocks, and in small ones, which the allocator gives out without a system call.
#[test]
fn every_thread_waits_until_paging_has_begun() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(late) = compile(here.path(), "late", LATE, &["-pthread"]) else { return };
    for bytes in [1 << 20, 256 << 10, 4096] {
        holds(
            64 * MIB,
            start(
                &["--limit", "64M", "--"],
                &[late.to_str().unwrap(), "160", &bytes.to_string(), "slow start"],
            ),
        );
    }
}

/// While the threads of memfold get no CPU, no thread of the program takes more memory than there was room
/// when they looked last.
#[test]
fn memory_counts_while_nobody_looks() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(late) = compile(here.path(), "late", LATE, &["-pthread"]) else { return };
    for bytes in ["262144", "4096", "4096", "4096", "512"] {
        holds(
            64 * MIB,
            start(&["--limit", "64M", "--"], &[late.to_str().unwrap(), "160", bytes, "slow later"]),
        );
    }
}

#[test]
fn memory_is_waited_for_in_whatever_way_it_comes() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(ways) = compile(here.path(), "ways", WAYS, &["-Wno-deprecated-declarations"]) else { return };
    for way in [
        "sbrk",
        "brk",
        "memalign",
        "valloc",
        "pvalloc",
        "reallocarray",
        "mremap",
        "syscall mremap",
        "syscall mmap",
    ] {
        eprintln!("{way}");
        holds(64 * MIB, start(&["--limit", "64M", "--"], &[ways.to_str().unwrap(), way, "160"]));
    }
}

#[test]
fn memory_that_the_kernel_fills_at_once() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(populate) = compile(here.path(), "populate", POPULATE, &[]) else { return };
    holds(64 * MIB, start(&["--limit", "64M", "--"], &[populate.to_str().unwrap(), "160"]));
}

/// A thread in a system call cannot be stopped. So paging starts before a call that could exceed the limit,
/// even if the limit is too far away to be watched closely.
#[test]
fn a_file_that_is_read_at_once() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(read) = compile(here.path(), "read", READ, &["-w"]) else { return };
    for limit in [64, 200, 400] {
        let options = ["--limit", &format!("{limit}M"), "--"];
        holds(limit * MIB, start(&options, &[read.to_str().unwrap(), &(limit + 80).to_string()]));
    }
}

/// The process pages since it mapped the memory, and is far from its limit for long: it goes on paging. Or
/// there was room for all when it mapped the memory, and is no longer.
#[test]
fn a_file_that_is_read_at_once_into_memory_mapped_long_before() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(read) = compile(here.path(), "read", READ, &["-w"]) else { return };
    // Also on a machine with many CPUs the process is far from its limit before the file is read.
    for (mapped, filled, seconds) in [("700", "0", "4"), ("540", "150", "1")] {
        let read = [read.to_str().unwrap(), mapped, filled, seconds];
        holds(600 * MIB, start(&["--limit", "600M", "--"], &read));
    }
}

/// No single request shows that one system call could exceed the limit.
#[test]
fn what_many_requests_or_processes_got_is_filled_at_once() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(filled) = compile(here.path(), "filled", FILLED, &["-w"]) else { return };
    for way in ["protect", "pieces", "remap", "populate", "several"] {
        eprintln!("{way}");
        holds(200 * MIB, start(&["--limit", "200M", "--"], &[filled.to_str().unwrap(), way, "320"]));
    }
}

/// Each of the processes is smaller than what a process may keep in any case, and there is no larger one that could
/// make room for them.
#[test]
fn many_small_processes_give_back() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let source = include_str!("c/small.c");
    let Some(small) = compile(here.path(), "small", source, &[]) else { return };
    let said = finish(run_with(&["--limit", "128M", "--"], &[small.to_str().unwrap(), "60", "3", "142"]));
    assert_eq!((said.status, said.out.as_str()), (0, "held\n"), "{}", said.err);
}

/// Growth waits for other processes that can give memory back. A stopped one cannot.
#[test]
fn a_stopped_process_holds_nobody_up() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let source = include_str!("c/stopped.c");
    let Some(stopped) = compile(here.path(), "stopped", source, &[]) else { return };
    let said = finish(run_with(&["--limit", "200M", "--"], &[stopped.to_str().unwrap()]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
}

/// Where the runtime has stopped because of a filter, requests are not looked into: that takes system calls.
#[test]
fn requests_under_a_filter_that_kills() {
    let here = tempfile::tempdir().unwrap();
    let source = include_str!("c/filtered.c");
    let Some(filtered) = compile(here.path(), "filtered", source, &[]) else { return };
    let said = finish(run_with(&["--limit", "400M", "--"], &[filtered.to_str().unwrap()]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
}

/// When forked processes write to shared pages, the kernel copies them without a notification.
#[test]
fn copies_after_a_fork() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(share) = compile(here.path(), "share", SHARE, &[]) else { return };
    for round in 0..2 {
        let samples =
            holds(64 * MIB, start(&["--limit", "64M", "--"], &[share.to_str().unwrap(), "40", "3"]));
        assert!(samples > 10, "round {round}: {samples} samples");
    }
}

/// The parent keeps the memory that the child unmaps, so the child's new memory comes on top.
#[test]
fn a_forked_child_unmaps_what_it_shares_and_fills_as_much() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(anew) = compile(here.path(), "anew", ANEW, &[]) else { return };
    for _ in 0..3 {
        holds(64 * MIB, start(&["--limit", "64M", "--"], &[anew.to_str().unwrap(), "50"]));
    }
}

#[test]
fn little_address_space() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(populate) = compile(here.path(), "populate", POPULATE, &[]) else { return };
    let folded = run_with(&["--limit", "64M", "--"], &[populate.to_str().unwrap(), "160"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1000000; exec \"$@\"", "sh"]).arg(folded.get_program());
    command.args(folded.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    holds(64 * MIB, command.spawn().unwrap());
}

#[test]
fn data_that_do_not_compress() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(grow) = program(here.path()) else { return };
    let words = [grow.as_str(), "160", "64"];
    let said = finish(run_with(&["--limit", "48M", "--"], &words));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    assert!(said.err.contains("nothing more could be compressed"), "{}", said.err);

    // It exceeds its limit for longer than half a second.
    let words = [grow.as_str(), "640", "64"];
    let said = finish(run_with(&["--limit", "48M", "--on-full", "kill", "--"], &words));
    assert_eq!((said.status, said.out.as_str()), (128 + 6, ""), "{}", said.err);
    assert!(said.err.contains("--on-full grow") && said.err.contains("higher limit"), "{}", said.err);
}

#[test]
fn every_fill_ratio_and_no_reserve() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(grow) = program(here.path()) else { return };
    for option in [&["--fill-ratio", "16/64"][..], &["--fill-ratio", "64/64"], &["--no-reserve"]] {
        let options = [&["--limit", "32M"], option, &["--"]].concat();
        let said = finish(run_with(&options, &[&grow, "64", "12"]));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{option:?}: {}", said.err);
    }
}

#[test]
fn evicting_all_the_time() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(grow) = program(here.path()) else { return };
    let json = here.path().join("s.json");
    let options = ["--limit", "4G", "--paranoid", "--stats", json.to_str().unwrap(), "--"];
    // Large enough that the compressor gets CPU time even on a busy machine.
    let said = finish(run_with(&options, &[&grow, "400", "12"]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    assert!(stats(&json)["pages_compressed"].as_u64().unwrap() > 20_000, "far below the limit too");
}

#[test]
fn a_damaged_block_is_never_handed_out() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(damage) = compile(here.path(), "damage", DAMAGE, &[]) else { return };
    let said = finish(run_with(&["--limit", "48M", "--codec", "lz4", "--"], &[damage.to_str().unwrap()]));
    assert_eq!((said.status, said.out.as_str()), (128 + 6, ""), "{}", said.err);
    assert!(said.err.contains("copies") && said.err.contains("damaged"), "{}", said.err);
}

#[test]
fn a_program_that_forks_keeps_what_was_evicted() {
    let _alone = alone();
    let Some(python) = ["/usr/bin/python3", "python3"].into_iter().find(|name| {
        Command::new(name).args(["-c", "pass"]).output().is_ok_and(|output| output.status.success())
    }) else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let script = "
import os
data = [bytes(str(i), 'ascii') * 300 for i in range(40000)]
for child in range(3):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if all(d == bytes(str(i), 'ascii') * 300 for i, d in enumerate(data)) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    data.append(b'parent' * 500000)
    assert data.pop() and all(d == bytes(str(i), 'ascii') * 300 for i, d in enumerate(data))
print('right')
";
    let said = finish(run_with(&["--limit", "24M", "--"], &[python, "-c", script]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
}
