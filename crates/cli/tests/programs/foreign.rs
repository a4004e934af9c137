//! Memory that is written from outside: by another process, a debugger or a device.

use crate::common::{compile, finish, run_with};

fn both_ways(megabytes: &str, rounds: &str, limits: &[&str]) {
    let here = tempfile::tempdir().unwrap();
    let source = include_str!("c/exchange.c");
    let Some(program) = compile(here.path(), "exchange", source, &["-O2"]) else { return };
    let program = program.to_str().unwrap();
    for limit in limits {
        let said = finish(run_with(&["-q", "--limit", limit, "--"], &[program, megabytes, rounds]));
        if said.status == 77 {
            eprintln!("skipped: {}", said.err);
            return;
        }
        assert_eq!((said.status, said.out.as_str()), (0, "wrong pages: 0\n"), "at {limit}: {}", said.err);
    }
}

/// Pages that process_vm_writev has pinned stay in place until they are written. Each run writes 640 MiB;
/// with `mremap`, one run of six lost data.
#[test]
fn messages_between_processes_arrive() {
    both_ways("32", "10", &["96M", "72M"]);
}
