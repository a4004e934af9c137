//! In a cgroup with a memory limit, as in a container: a job that the kernel kills completes under memfold,
//! without any option. Where the kernel kills it all the same, memfold says so.

use std::process::Command;

use crate::common::group::Group;
use crate::common::{MEMFOLD, Said, finish};

/// 150 MiB of records that compress, and an answer from all of them.
const JOB: &str = "\
rows=[{'number':i,'name':'customer %07d'%(i*7919%1000003),'city':'city %d'%(i%97)} for i in range(320000)]
print(sum(row['number'] for row in rows if row['city']=='city 5'),max(row['name'] for row in rows))
";
/// The same, with the answer given twice, and a pause in between.
const JOB_TWICE: &str = "\
import time
rows=[{'number':i,'name':'customer %07d'%(i*7919%1000003),'city':'city %d'%(i%97)} for i in range(320000)]
for again in range(2):
    print(sum(row['number'] for row in rows if row['city']=='city 5'),max(row['name'] for row in rows))
    time.sleep(1)
";
/// 100 MiB that do not compress.
const NOISE: &str = "import os;blocks=[os.urandom(1<<20) for i in range(100)];print('all there')";

/// A memory cgroup with this limit, also for swap; `None`, with a message, if none can be made.
pub fn group(name: &str, mib: u64) -> Option<Group> {
    const BELOW: [&str; 2] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let limit = mib << 20;
    let make = |file| Group::limited(&BELOW, name, (file, limit));
    let found = ["memory.limit_in_bytes", "memory.max"].into_iter().find_map(make);
    match &found {
        None => eprintln!("skipped: no memory cgroup can be made here"),
        // Where the machine has swap, the kernel would swap instead of killing.
        Some(group) => {
            let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
            let _ = std::fs::write(group.0.join("memory.memsw.limit_in_bytes"), limit.to_string());
        }
    }
    found
}

fn python(before: &[&str], program: &str, group: Option<&Group>) -> Said {
    let words = [before, &["python3", "-c", program]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    finish(match group {
        Some(group) => group.enter(&command),
        None => command,
    })
}

#[test]
fn a_job_that_is_killed_plainly_completes() {
    let Some(group) = group("job", 96) else { return };
    let right = python(&[], JOB, None);
    assert_eq!(right.status, 0, "{}", right.err);
    let killed = python(&[], JOB, Some(&group));
    // By a signal.
    assert_eq!(killed.status, -1, "it should need more than the group has: {}", killed.out);
    let said = python(&[MEMFOLD, "run", "--"], JOB, Some(&group));
    assert_eq!((said.status, said.out.as_str()), (0, right.out.as_str()), "{}", said.err);
    assert!(said.err.contains("were kept in") && !said.err.contains("the kernel killed"), "{}", said.err);
}

/// Several runs, each without an option, divide what the cgroup has, whether they start together or one when
/// the other has taken everything.
#[test]
fn runs_side_by_side_divide_a_cgroup() {
    let Some(group) = group("side", 288) else { return };
    let right = python(&[], JOB, None);
    for pause in [0, 3] {
        std::thread::scope(|scope| {
            let run = || python(&[MEMFOLD, "run", "--"], JOB_TWICE, Some(&group));
            let first = scope.spawn(run);
            std::thread::sleep(std::time::Duration::from_secs(pause));
            let others = [scope.spawn(run), scope.spawn(run)];
            for one in std::iter::once(first).chain(others) {
                let said = one.join().unwrap();
                assert_eq!((said.status, said.out), (0, right.out.repeat(2)), "{}", said.err);
                assert!(!said.err.contains("the kernel killed"), "{}", said.err);
            }
        });
    }
}

/// A run gives way when a program without memfold takes memory beside it.
#[test]
fn a_run_makes_room_for_others() {
    const GROWS: &str = "import time;a=[]
for i in range(60):a.append(bytearray(1<<20));time.sleep(.02)
time.sleep(1);print('done')";
    let Some(group) = group("room", 160) else { return };
    let right = python(&[], JOB, None).out;
    std::thread::scope(|scope| {
        let run = scope.spawn(|| python(&[MEMFOLD, "run", "--"], JOB_TWICE, Some(&group)));
        let other = python(&[], GROWS, Some(&group));
        assert_eq!((other.status, other.out.as_str()), (0, "done\n"), "{}", other.err);
        let said = run.join().unwrap();
        assert_eq!((said.status, said.out), (0, right.repeat(2)), "{}", said.err);
    });
}

#[test]
fn run_needs_no_limit() {
    let said = python(&[MEMFOLD, "run"], "print('started')", None);
    assert_eq!((said.status, said.out.as_str()), (0, "started\n"), "{}", said.err);
    assert!(said.err.contains("nothing had to be compressed"), "{}", said.err);
}

#[test]
fn a_kill_by_the_kernel_is_reported() {
    let Some(group) = group("noise", 64) else { return };
    let said = python(&[MEMFOLD, "run", "--limit", "200M", "--"], NOISE, Some(&group));
    assert_eq!(said.status, 128 + 9, "{}", said.err);
    let wanted = ["the kernel killed a process in this cgroup", "limit is 64 MiB", "try --limit 48M"];
    assert!(wanted.iter().all(|word| said.err.contains(word)), "{}", said.err);
    let program = "import os;os.kill(os.getpid(),9)";
    let said = python(&[MEMFOLD, "run", "--limit", "200M", "--"], program, Some(&group));
    assert!(said.status == 128 + 9 && !said.err.contains("the kernel killed"), "{}", said.err);
}
