//! Hundreds and thousands of threads: more than fit into any small table of the runtime. Nothing may hang, be
//! lost, or be silently omitted.

mod common;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common::{MEMFOLD, Said, compile, said, stats};

const MIB: u64 = 1 << 20;

/// Common part of the programs: pages that compress to a third.
const COMMON: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#define PAGE 4096
static uint64_t mix(uint64_t x)
{
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}
static void fill(uint64_t *p, uint64_t seed)
{
    for (int i = 0; i < 512; i++)
        p[i] = i % 8 ? seed + i : mix(seed * 512 + i);
}
static int is_right(const uint64_t *p, uint64_t seed)
{
    for (int i = 0; i < 512; i++)
        if (p[i] != (i % 8 ? seed + i : mix(seed * 512 + i)))
            return 0;
    return 1;
}
static char *area(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        puts("no memory"), exit(2);
    return p;
}
static char *filled(size_t bytes, uint64_t seed)
{
    char *p = area(bytes);
    for (size_t i = 0; i < bytes; i += PAGE)
        fill((uint64_t *)(p + i), seed + i / PAGE);
    return p;
}
static void check(const char *p, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i += PAGE)
        if (!is_right((uint64_t *)(p + i), seed + i / PAGE))
            printf("page %zu is wrong\n", i / PAGE), exit(1);
}
static void start(pthread_t *thread, void *(*run)(void *), long number)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    if (pthread_create(thread, &attributes, run, (void *)number))
        puts("too many threads"), exit(3);
}
"#;

/// `argv[1]` threads each fill memory, and then check it all at the same time, while the first thread checks
/// 128 MiB and forks `argv[2]` times.
const LOOKERS: &str = r#"
static pthread_barrier_t barrier;
static void *look(void *number)
{
    enum { OWN = 15 * PAGE };
    char *own = malloc(OWN + PAGE), *at = (char *)(((uintptr_t)own + PAGE - 1) / PAGE * PAGE);
    for (int i = 0; i < OWN; i += PAGE)
        fill((uint64_t *)(at + i), (long)number * 100 + i / PAGE);
    pthread_barrier_wait(&barrier);
    check(at, OWN, (long)number * 100);
    pthread_barrier_wait(&barrier);
    free(own);
    return NULL;
}
int main(int argc, char **argv)
{
    const size_t bytes = 128 << 20;
    long count = atol(argv[1]);
    int forks = atoi(argv[2]), status = 0;
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_barrier_init(&barrier, NULL, count + 1);
    char *far = filled(bytes, 5);
    for (long i = 0; i < count; i++)
        start(&threads[i], look, i);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        if (child == 0)
            check(far, bytes / 4, 5), _exit(0);
        waitpid(child, &status, 0);
        if (status)
            puts("a child failed"), exit(1);
    }
    check(far, bytes, 5);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    puts("right");
    return 0;
}
"#;

/// Of `argv[1]` threads, half check random pages of 64 MiB for two seconds. Each of the others meanwhile maps
/// and unmaps, discards, or moves memory.
const CHANGERS: &str = r#"
enum { OWN = 32 * PAGE };
static char *far;
static volatile int stop;
static long looks;
static void *look(void *number)
{
    uint64_t seed = (long)number + 1;
    for (; !stop; __sync_fetch_and_add(&looks, 1)) {
        seed = mix(seed);
        size_t page = seed % (64 << 8);
        check(far + page * PAGE, PAGE, 5 + page);
    }
    return NULL;
}
static void *change(void *number)
{
    char *own = filled(OWN, (long)number * 1000);
    for (long round = (long)number; !stop; round++) {
        if (round % 3 == 0) {
            char *fresh = area(OWN);
            for (int i = 0; i < OWN; i += 4 * PAGE, fresh[i - 1] = 1)
                if (fresh[i])
                    puts("fresh memory is not zero"), exit(1);
            munmap(fresh, OWN);
        } else if (round % 3 == 1) {
            madvise(own + OWN / 2, OWN / 2, MADV_DONTNEED);
            for (int i = OWN / 2; i < OWN; i += PAGE) {
                if (own[i])
                    puts("discarded memory is not zero"), exit(1);
                fill((uint64_t *)(own + i), (long)number * 1000 + i / PAGE);
            }
        } else {
            char *moved = mremap(own, OWN, 2 * OWN, MREMAP_MAYMOVE);
            if (moved == MAP_FAILED || mremap(moved, 2 * OWN, OWN, 0) != moved)
                puts("it can't be moved"), exit(1);
            own = moved;
        }
        check(own, OWN / 2, (long)number * 1000);
    }
    return NULL;
}
int main(int argc, char **argv)
{
    long count = atol(argv[1]);
    pthread_t *threads = calloc(count, sizeof *threads);
    far = filled(64 << 20, 5);
    for (long i = 0; i < count; i++)
        start(&threads[i], i % 2 ? change : look, i);
    sleep(2);
    stop = 1;
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    puts(looks > count ? "right" : "nobody could look");
    return 0;
}
"#;

/// `argv[1]` threads live at the same time. After they have ended, the program fills memory and checks it.
const LIVED: &str = r#"
static pthread_barrier_t barrier;
static void *live(void *number)
{
    pthread_barrier_wait(&barrier);
    return number;
}
int main(int argc, char **argv)
{
    long count = atol(argv[1]);
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_barrier_init(&barrier, NULL, count + 1);
    for (long i = 0; i < count; i++)
        start(&threads[i], live, i);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    char *memory = filled(200 << 20, 7);
    check(memory, 200 << 20, 7);
    puts("right");
    return 0;
}
"#;

/// Forks children one after another, near the limit. Each checks two pages and changes them.
const FORKERS: &str = r#"
int main(int count, char **words)
{
    size_t bytes = (size_t)56 << 20, pages = bytes / PAGE;
    char *p = filled(bytes, 1);
    for (int i = 0; i < atoi(words[1]); i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 2; k++) {
                size_t page = mix(i * 2 + k) % pages;
                if (!is_right((uint64_t *)(p + page * PAGE), 1 + page))
                    _exit(1);
                p[page * PAGE] ^= 1;
            }
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return printf("child %d: %d\n", i, status), 1;
    }
    check(p, bytes, 1);
    puts("right");
    return 0;
}
"#;

/// Runs `argv[2]` processes, `argv[1]` at a time. Each fills 5 MiB in small steps, reads all of it
/// repeatedly, and ends after 20 ms of CPU time.
const SHORT: &str = r#"
#include <time.h>
static void work(long number)
{
    enum { BYTES = 5 << 20 };
    char *p = area(BYTES);
    size_t filled = 0;
    struct timespec used;
    do {
        for (int i = 0; i < 64 && filled < BYTES; i++, filled += PAGE)
            fill((uint64_t *)(p + filled), number * BYTES + filled / PAGE);
        check(p, filled, number * BYTES);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (filled < BYTES || (used.tv_nsec < 20000000 && used.tv_sec == 0));
    check(p, BYTES, number * BYTES);
    _exit(0);
}
int main(int count, char **words)
{
    if (count == 2)
        work(atol(words[1]));
    long at_once = atol(words[1]), all = atol(words[2]), made = 0, ended = 0;
    while (ended < all) {
        if (made < all && made - ended < at_once) {
            char number[32];
            sprintf(number, "%ld", ++made);
            if (vfork() == 0) {
                execl(words[0], words[0], number, NULL);
                _exit(9);
            }
            continue;
        }
        int status;
        if (wait(&status) < 0 || status != 0)
            return printf("a process: %#x\n", status), 1;
        ended++;
    }
    puts("right");
    return 0;
}
"#;

/// Runs a program to its end under memfold. Kills it after the given time, which is a failure.
#[track_caller]
fn run_within(seconds: u64, options: &[&str], at: &Path, program: &Path, words: &[&str]) -> Said {
    let mut command = Command::new(MEMFOLD);
    command
        .args(["run", "--stats"])
        .arg(at.join("stats.json"))
        .args(options)
        .arg("--")
        .arg(program)
        .args(words);
    // Its own process group, so that it can be killed as a whole.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let (end, pid) = (Instant::now() + Duration::from_secs(seconds), child.id() as i32);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ =
                nix::sys::signal::killpg(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
            panic!("{options:?} {words:?} has not ended within {seconds} s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    said(child.wait_with_output().unwrap())
}

#[track_caller]
fn is_right(said: &Said) -> bool {
    if said.status == 3 {
        eprintln!("skipped: so many threads are not allowed here");
        return false;
    }
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    true
}

#[track_caller]
fn held(at: &Path, limit: u64) {
    let stats = stats(&at.join("stats.json"));
    let peak = stats["peak_resident_bytes"].as_u64().unwrap();
    assert!(peak <= limit + limit / 20 + 8 * MIB, "{} MiB: {stats:#}", peak / MIB);
    assert!(stats["pages_compressed"].as_u64() > Some(5000), "{stats:#}");
}

fn program(at: &Path, source: &str) -> Option<std::path::PathBuf> {
    compile(at, "program", &format!("{COMMON}{source}"), &["-pthread"])
}

#[test]
fn hundreds_of_threads_need_pages_at_once() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), LOOKERS) else { return };
    for count in ["100", "300", "1000"] {
        let said = run_within(100, &["--limit", "110M"], here.path(), &program, &[count, "0"]);
        if is_right(&said) {
            held(here.path(), 110 * MIB);
        }
    }
}

#[test]
fn hundreds_of_threads_need_pages_while_one_forks() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), LOOKERS) else { return };
    for count in ["150", "500"] {
        is_right(&run_within(100, &["--limit", "110M"], here.path(), &program, &[count, "3"]));
    }
}

/// With `--paranoid` the runtime has room for only 16 faults.
#[test]
fn more_threads_need_pages_than_can_be_remembered() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), LOOKERS) else { return };
    for forks in ["0", "2"] {
        is_right(&run_within(100, &["--limit", "1G", "--paranoid"], here.path(), &program, &["300", forks]));
    }
}

#[test]
fn hundreds_of_threads_change_their_memory_beside_some_that_need_pages() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), CHANGERS) else { return };
    for options in [&["--limit", "60M"][..], &["--limit", "1G", "--paranoid"]] {
        is_right(&run_within(100, options, here.path(), &program, &["300"]));
    }
}

#[test]
fn memory_is_still_evicted_after_thousands_of_threads() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), LIVED) else { return };
    let said = run_within(100, &["--limit", "140M"], here.path(), &program, &["5000"]);
    if is_right(&said) {
        held(here.path(), 140 * MIB);
    }
}

/// Processes like the compilers of a build. Eight at once need 40 MiB; in 24 MiB they take turns. Without
/// turns, half a million pages would be compressed, although there are only 77,000.
#[test]
fn short_processes_take_turns() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), SHORT) else { return };
    let said = run_within(120, &["--limit", "24M"], here.path(), &program, &["8", "60"]);
    if is_right(&said) {
        let stats = stats(&here.path().join("stats.json"));
        let count = |name: &str| stats[name].as_u64().unwrap();
        assert!(count("peak_resident_bytes") <= 40 * MIB * 105 / 100 + 8 * MIB, "{stats:#}");
        assert!(count("pages_compressed") < 150_000, "{stats:#}");
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    /// The supervisor may give a child its keeper while the child is still inside `fork`. A busy machine makes
    /// this likely.
    #[test]
    fn hundreds_of_children_while_the_machine_is_busy() {
        let here = tempfile::tempdir().unwrap();
        let Some(program) = program(here.path(), FORKERS) else { return };
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ends.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let said = std::panic::catch_unwind(|| {
                run_within(100, &["--limit", "60M"], here.path(), &program, &["600"])
            });
            ends.store(true, Relaxed);
            is_right(&said.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            let stats = stats(&here.path().join("stats.json"));
            assert!(stats["pages_compressed"].as_u64() > Some(1000), "{stats:#}");
        });
    }
}
