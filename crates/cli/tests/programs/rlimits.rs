//! Programs that limit themselves (`setrlimit`) or are limited behave under memfold as in a plain run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::group::Group;
use crate::common::{MEMFOLD, Said, compile, finish, is_root, run_with};

/// Fills `argv[4]` MiB, sets limit `argv[1]` to `argv[2]` (and the hard limit to `argv[3]` if that is not 0),
/// fills `argv[5]` MiB, and forks. A quarter of the memory is random. Parent and child read all of it.
const LIMITED: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static uint64_t word(size_t i)
{
    uint64_t z = i + 0x9e3779b97f4a7c15;
    if (i % 4)
        return i / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    return z ^ z >> 31;
}
static uint64_t *filled(size_t words, size_t from)
{
    uint64_t *at = mmap(NULL, words * 8 + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    for (size_t i = 0; i < words; i++)
        at[i] = word(from + i);
    return at;
}
static int wrong(const uint64_t *at, size_t words, size_t from)
{
    for (size_t i = 0; i < words; i++)
        if (at[i] != word(from + i))
            return 1;
    return 0;
}
int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    int which = strcmp(argv[1], "files") == 0   ? RLIMIT_NOFILE
                : strcmp(argv[1], "space") == 0 ? RLIMIT_AS
                                                : RLIMIT_NPROC;
    struct rlimit old, set, got;
    size_t before = strtoull(argv[4], NULL, 0) << 17, after = strtoull(argv[5], NULL, 0) << 17;
    uint64_t *first = filled(before, 7);
    getrlimit(which, &old);
    set.rlim_cur = strtoull(argv[2], NULL, 0);
    set.rlim_max = strtoull(argv[3], NULL, 0) ? strtoull(argv[3], NULL, 0) : old.rlim_max;
    if (setrlimit(which, &set) != 0) {
        perror("setrlimit");
        return 2;
    }
    uint64_t *second = filled(after, 9);
    int forked = 0, failed = 0;
    /* So many threads in all, fewer and fewer: sooner or later enough for some of those that a child has, but not
     * for all, and then too few for the child. */
    for (int round = 0; round < (which == RLIMIT_NPROC ? 40 : 1) && !failed; round++) {
        if (which == RLIMIT_NPROC) {
            set.rlim_cur = 41 - round;
            setrlimit(which, &set);
        }
        pid_t child = fork();
        if (child < 0)
            continue;
        if (child == 0) {
            getrlimit(which, &got);
            if (got.rlim_cur != set.rlim_cur || got.rlim_max != set.rlim_max)
                _exit(3);
            _exit(wrong(first, before, 7) || wrong(second, after, 9));
        }
        int status;
        waitpid(child, &status, 0);
        if (status != 0)
            printf("round %d: child's status %#x\n", round, status);
        failed = status != 0;
        forked++;
    }
    getrlimit(which, &got);
    failed |= wrong(first, before, 7) || wrong(second, after, 9);
    failed |= got.rlim_cur != set.rlim_cur || got.rlim_max != set.rlim_max;
    if (!failed && forked)
        puts("right");
    return failed;
}
"#;

#[track_caller]
fn is_right(said: &Said) {
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
}

fn limited(directory: &Path, words: &[&str]) -> Option<Said> {
    let program = compile(directory, "limited", LIMITED, &[])?;
    let words = [&[program.to_str().unwrap()], words].concat();
    Some(finish(run_with(&["--limit", "32M", "--"], &words)))
}

#[test]
fn forks_with_few_descriptors() {
    let here = tempfile::tempdir().unwrap();
    // There are too few descriptors in any case, so the parent gives up early.
    for files in ["1", "3", "15"] {
        let Some(said) = limited(here.path(), &["files", files, files, "64", "0"]) else { return };
        is_right(&said);
        assert!(said.err.contains("ulimit -n"), "{files}: {}", said.err);
    }
    // There are enough descriptors, whatever the soft limit is, so the child is managed.
    for (files, most) in [("3", "16"), ("0", "1000"), ("16", "16")] {
        let Some(said) = limited(here.path(), &["files", files, most, "64", "0"]) else { return };
        is_right(&said);
        assert!(!said.err.contains("process "), "{files}: {}", said.err);
    }
}

/// Runs as a user who may have a limited number of threads.
#[test]
fn forks_with_few_threads() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "limited", LIMITED, &[]) else { return };
    if !is_root() {
        eprintln!("skipped: only root can become a user who has no other processes");
        return;
    }
    let memfold = here.path().join("memfold");
    fs::copy(MEMFOLD, &memfold).unwrap();
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "64917", "--regid", "64917", "--clear-groups"]);
    command.args(["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"]);
    command.arg(memfold).args(["run", "--limit", "16M", "--"]);
    command.arg(program).args(["threads", "4000", "0", "24", "0"]);
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: setpriv (util-linux) is not installed");
        return;
    }
    let said = finish(command);
    is_right(&said);
    assert!(said.err.contains("may not have more threads"), "nothing was tried: {}", said.err);
}

/// Makes `argv[1]` children, all alive at once, each with its own 3 MiB. Prints how many of them found their
/// memory right.
const CHILDREN: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { WORDS = 3 << 17 };
int main(int argc, char **argv)
{
    int gate[2], status, right = 0;
    pipe(gate);
    for (long child = 0; child < atoi(argv[1]); child++) {
        pid_t pid = fork();
        if (pid < 0)
            printf("fork %ld: %s\n", child, strerror(errno));
        if (pid)
            continue;
        char end;
        close(gate[1]);
        unsigned long *at = malloc(WORDS * 8);
        for (long i = 0; i < WORDS; i++)
            at[i] = child * 4099 + i / 512;
        read(gate[0], &end, 1);
        for (long i = 0; i < WORDS; i++)
            if (at[i] != child * 4099 + i / 512)
                _exit(1);
        _exit(0);
    }
    sleep(1);
    close(gate[1]);
    while (wait(&status) > 0)
        right += status == 0;
    printf("%d\n", right);
    return 0;
}
"#;

/// A container may have 64 tasks, and the program needs 51 of them. memfold's own threads leave room for the
/// program.
#[test]
fn a_container_that_may_have_few_tasks() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "children", CHILDREN, &["-w"]) else { return };
    // The first directory is for cgroup version 2, if its pids controller is enabled.
    let below = ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"];
    let Some(tasks) = Group::limited(&below, "tasks", ("pids.max", 64)) else {
        eprintln!("skipped: no cgroup that counts tasks can be made");
        return;
    };
    for limit in ["16G", "40M"] {
        let said =
            finish(tasks.enter(&run_with(&["--limit", limit, "--"], &[program.to_str().unwrap(), "50"])));
        assert_eq!((said.status, said.out.as_str()), (0, "50\n"), "{limit}: {}", said.err);
    }
}

/// The kernel returns the same error for a stack that cannot be mapped. No thread of memfold ends because of
/// that.
#[test]
fn a_thread_that_cannot_be_for_another_reason() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { WORDS = 80 << 17 };
static void *none(void *unused) { return unused; }
int main(void)
{
    unsigned long *at = malloc(WORDS * 8), pages;
    for (long i = 0; i < WORDS; i++)
        at[i] = i / 512;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64ul << 40);
    int error = pthread_create(&thread, &attributes, none, NULL);
    usleep(300000);
    FILE *statm = fopen("/proc/self/statm", "r");
    fscanf(statm, "%*u %lu", &pages);
    printf("%d %s\n", error, pages < 50 * 256 ? "managed" : "not managed");
    for (long i = 0; i < WORDS; i++)
        if (at[i] != i / 512)
            return puts("wrong");
    return 0;
}
"#;
    let Some(program) = compile(here.path(), "stack", source, &["-w", "-pthread"]) else { return };
    let said = finish(run_with(&["--limit", "40M", "--"], &[program]));
    assert_eq!((said.status, said.out.as_str()), (0, "11 managed\n"), "{}", said.err);
}

#[test]
fn a_program_that_limits_its_address_space() {
    let here = tempfile::tempdir().unwrap();
    for (mib, before, after) in [(4000, "0", "80"), (1000, "64", "80"), (240, "40", "80")] {
        let bytes = (mib << 20).to_string();
        let Some(said) = limited(here.path(), &["space", &bytes, &bytes, before, after]) else { return };
        is_right(&said);
        assert!(!said.err.contains("not managed"), "{mib}: {}", said.err);
    }
    // The limit is really in force: allocations beyond it fail as usual.
    let bytes = (200 << 20).to_string();
    let Some(said) = limited(here.path(), &["space", &bytes, &bytes, "0", "200"]) else { return };
    assert_eq!(said.status, 2, "{}", said.err);
}

#[test]
fn a_shell_that_limits_its_address_space() {
    for shell in ["sh", "bash"] {
        if Command::new(shell).args(["-c", "true"]).output().is_err() {
            eprintln!("skipped: there is no {shell}");
            continue;
        }
        let script = "ulimit -v 4000000; (x=$(seq 1 20000); echo ${#x}; ulimit -v); sh -c 'ulimit -v'";
        let said = finish(run_with(&["--limit", "16M", "--"], &[shell, "-c", script]));
        assert_eq!((said.status, said.out.as_str()), (0, "108893\n4000000\n4000000\n"), "{}", said.err);
    }
}

#[test]
fn little_data_memory() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "limited", LIMITED, &[]) else { return };
    let words = [program.to_str().unwrap(), "files", "64", "64", "6", "6"];
    for (kib, managed) in [("20000", false), ("60000", false), ("400000", true)] {
        let folded = run_with(&["--limit", "9M", "--"], &words);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -d {kib}; exec \"$@\""), "sh"]).arg(folded.get_program());
        command.args(folded.get_args());
        let said = finish(command);
        is_right(&said);
        assert_eq!(
            !said.err.contains("(ulimit -d): this process is not managed"),
            managed,
            "{kib}: {}",
            said.err
        );
    }
}
