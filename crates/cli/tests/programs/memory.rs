//! Kinds of memory and moments that need special care: memory that must not be evicted stays resident, and
//! memory that cannot be managed does not affect the rest.

use std::path::Path;
use std::process::Command;

use crate::common::{compile, finish, run, run_with, stats};

/// Common part of the programs below: pages that compress to a third and contain their number.
const PAGES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define MIB ((size_t)1 << 20)
static uint64_t word(uint64_t page, int i)
{
    uint64_t z = page * 512 + i + 0x9e3779b97f4a7c15;
    if (i % 4 != 0)
        return page;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static void *map(size_t bytes, int flags)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        printf("skip: mmap: %s\n", strerror(errno));
        exit(0);
    }
    return at;
}
static void fill(uint64_t *at, size_t bytes, uint64_t first)
{
    for (size_t page = 0; page < bytes / 4096; page++)
        for (int i = 0; i < 512; i++)
            at[page * 512 + i] = word(first + page, i);
}
static void check(const uint64_t *at, size_t bytes, uint64_t first)
{
    for (size_t page = 0; page < bytes / 4096; page++)
        for (int i = 0; i < 512; i++)
            if (at[page * 512 + i] != word(first + page, i)) {
                printf("wrong: page %zu\n", page);
                exit(1);
            }
}
"#;

/// Compiles a program that begins with `PAGES`, runs it in 64 MiB, and returns its standard error. `None` if
/// there is no compiler, or if the kernel lacks a feature that the program needs.
fn runs(directory: &Path, name: &str, rest: &str) -> Option<String> {
    let program = compile(directory, name, &format!("{PAGES}{rest}"), &["-pthread"])?;
    let said = finish(run_with(&["--limit", "64M", "--"], &[program.to_str().unwrap()]));
    if said.out.starts_with("skip: ") {
        eprintln!("{name}: {}", said.out);
        return None;
    }
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    Some(said.err)
}

#[test]
fn locked_from_the_beginning() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
int main(void)
{
    size_t here = 0, locked = 16 * MIB, more = 110 * MIB;
    uint64_t *at = map(locked, MAP_PRIVATE | MAP_LOCKED), *rest;
    unsigned char *resident = malloc(locked / 4096);
    fill(at, locked, 1);
    rest = map(more, MAP_PRIVATE);
    fill(rest, more, 100000);
    usleep(200000);
    mincore(at, locked, resident);
    for (size_t page = 0; page < locked / 4096; page++)
        here += resident[page] & 1;
    if (here < locked / 4096)
        printf("only %zu pages are there\n", here);
    check(at, locked, 1);
    check(rest, more, 100000);
    puts("right");
}
"#;
    runs(here.path(), "locked", source);
}

#[test]
fn guard_pages_between_data() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#define INSTALL 102
#define REMOVE 103
static int pipes[2];
static int is_guard(const char *at)
{
    char byte;
    if (write(pipes[1], at, 1) == 1)
        return (void)!read(pipes[0], &byte, 1), 0;
    return errno == EFAULT;
}
int main(void)
{
    size_t bytes = 48 * MIB, more = 100 * MIB;
    char *at = map(bytes, MAP_PRIVATE), *rest;
    if (pipe(pipes) != 0)
        return 1;
    fill((void *)at, bytes, 1);
    for (size_t i = 0; i < bytes; i += 64 * 4096)
        if (madvise(at + i, 4096, INSTALL) != 0) {
            printf("skip: MADV_GUARD_INSTALL: %s\n", strerror(errno));
            return 0;
        }
    rest = map(more, MAP_PRIVATE);
    fill((void *)rest, more, 100000);
    usleep(200000);
    for (size_t i = 0; i < bytes; i += 64 * 4096) {
        if (!is_guard(at + i))
            printf("the guard at page %zu is gone\n", i / 4096);
        check((void *)(at + i + 4096), 63 * 4096, 1 + i / 4096 + 1);
    }
    /* What is away is discarded by a guard as well. */
    if (madvise(at, bytes, INSTALL) != 0 || madvise(at, bytes, REMOVE) != 0)
        puts("refused");
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0) {
            printf("byte %zu has come back\n", i);
            return 1;
        }
    check((void *)rest, more, 100000);
    puts("right");
}
"#;
    runs(here.path(), "guards", source);
}

#[test]
fn memory_that_cannot_be_registered() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
int main(void)
{
    size_t bytes = 16 * MIB, more = 100 * MIB;
    uint64_t *at = map(bytes, MAP_PRIVATE), *rest;
    int own = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = { .api = UFFD_API };
    struct uffdio_register range = { .range = { (uintptr_t)at, bytes }, .mode = UFFDIO_REGISTER_MODE_WP };
    if (own < 0 || ioctl(own, UFFDIO_API, &api) != 0 || ioctl(own, UFFDIO_REGISTER, &range) != 0) {
        printf("skip: userfaultfd: %s\n", strerror(errno));
        return 0;
    }
    fill(at, bytes, 1);
    rest = map(more, MAP_PRIVATE);
    fill(rest, more, 100000);
    check(at, bytes, 1);
    check(rest, more, 100000);
    puts("right");
}
"#;
    let begin = std::time::Instant::now();
    if runs(here.path(), "registered", source).is_some() {
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }
}

#[test]
fn an_exec_that_fails_while_paging_begins() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <pthread.h>
static volatile int done;
static char *words[] = { "x", NULL };
static void *try(void *file)
{
    while (!done)
        execve(file, words, words + 1);
    return NULL;
}
int main(int argc, char **argv)
{
    char file[4096];
    size_t bytes = 110 * MIB;
    uint64_t *at = map(bytes, MAP_PRIVATE);
    pthread_t other;
    int fd;
    snprintf(file, sizeof file, "%s.no", argv[0]);
    fd = open(file, O_CREAT | O_WRONLY, 0755);
    if (fd < 0 || write(fd, "no program\n", 11) != 11 || close(fd) != 0 || argc != 1)
        return 1;
    pthread_create(&other, NULL, try, file);
    fill(at, bytes, 1);
    done = 1;
    pthread_join(other, NULL);
    check(at, bytes, 1);
    puts("right");
}
"#;
    for _ in 0..3 {
        let Some(said) = runs(here.path(), "exec", source) else { return };
        assert!(!said.contains("not managed") && !said.contains("exceeded the limit"), "{said}");
    }
}

/// The program's advice about a range (`madvise`) ends when the program maps something else over it.
#[test]
fn mapped_over_what_was_not_to_be_inherited() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <sys/wait.h>
int main(void)
{
    size_t bytes = 110 * MIB;
    uint64_t *at = map(bytes, MAP_PRIVATE);
    int status = -1;
    madvise(at, bytes, MADV_DONTFORK);
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
        return 1;
    fill(at, bytes, 1);
    if (fork() == 0) {
        check(at, bytes, 1);
        _exit(0);
    }
    wait(&status);
    check(at, bytes, 1);
    if (status == 0)
        puts("right");
}
"#;
    runs(here.path(), "over", source);
}

/// A forked child registers the mappings with evicted pages again, each as a whole, but no shared memory
/// between them.
#[test]
fn shared_memory_between_data_after_a_fork() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <sys/wait.h>
#define DATA (3 * MIB)
#define SHARED (64 * 1024)
#define N 40
static uint64_t *piece(char *all, int i) { return (uint64_t *)(all + i * (DATA + SHARED)); }
static void none_shared_is_registered(void)
{
    char line[1024], how[5] = "";
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (maps == NULL) {
        printf("smaps: %s\n", strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %4s", &start, &end, how) < 3 && strstr(line, "VmFlags:") != NULL && how[3] == 's'
            && (strstr(line, " um") != NULL || strstr(line, " uw") != NULL)) {
            printf("shared, and registered: %lx-%lx\n", start, end);
            exit(1);
        }
    fclose(maps);
}
int main(void)
{
    char *all = map(N * (DATA + SHARED), MAP_PRIVATE);
    const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    for (int i = 0; i < N; i++)
        if (mmap((char *)piece(all, i) + DATA, SHARED, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
            return 1;
    for (int i = 0; i < N; i++)
        fill(piece(all, i), DATA, i * 1000);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        none_shared_is_registered();
        for (int i = 0; i < N; i++) {
            memset((char *)piece(all, i) + DATA, i + 1, SHARED);
            uint64_t *moved = mremap(piece(all, i), DATA, DATA + MIB, MREMAP_MAYMOVE);
            if (moved == MAP_FAILED) {
                printf("piece %d: %s\n", i, strerror(errno));
                exit(1);
            }
            check(moved, DATA, i * 1000);
        }
        none_shared_is_registered();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    for (int i = 0; i < N; i++) {
        check(piece(all, i), DATA, i * 1000);
        for (int at = 0; at < SHARED; at++)
            if (((char *)piece(all, i) + DATA)[at] != i + 1)
                return 2;
    }
    if (status == 0)
        printf("right\n");
    return status != 0;
}
"#;
    runs(here.path(), "between", source);
}

/// Near the limit, an address range that the allocator hands out repeatedly is registered once, not each
/// time.
#[test]
fn the_same_place_again_and_again() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
int main(void)
{
    fill(map(48 * MIB, MAP_PRIVATE), 48 * MIB, 1);
    for (int i = 0; i < 100000; i++) {
        char *volatile at = malloc(70000 + i % 7 * 100);
        at[i % 70000] = 1;
        free(at);
    }
    puts("right");
}
"#;
    let Some(program) = compile(here.path(), "again", &format!("{PAGES}{source}"), &[]) else { return };
    let json = here.path().join("s.json");
    let options = ["--limit", "64M", "--stats", json.to_str().unwrap(), "--"];
    let said = finish(run_with(&options, &[program.to_str().unwrap()]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    let cpu = stats(&json)["runtime_cpu_seconds"].as_f64().unwrap();
    assert!(cpu < 1.0, "{cpu} s");
}

#[test]
fn address_sanitizer() {
    let here = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nint main(void) { puts(\"right\"); }\n";
    let options = ["-fsanitize=address"];
    let Some(program) = compile(here.path(), "sanitized", source, &options) else { return };
    let said = finish(run(&[program.to_str().unwrap()]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
}

/// Sanitizers interpose functions that the runtime calls, and LeakSanitizer stops the runtime's threads.
#[test]
fn sanitizers_near_the_limit() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
int main(void)
{
    static uint64_t *volatile kept[200];
    for (int i = 0; i < 200; i++)
        fill(kept[i] = malloc(MIB), MIB, i * 256);
    for (int i = 0; i < 200; i++)
        check(kept[i], MIB, i * 256);
    puts("right");
}
"#;
    for kind in ["address", "leak", "thread"] {
        let option = format!("-fsanitize={kind}");
        let Some(program) = compile(here.path(), kind, &format!("{PAGES}{source}"), &[&option]) else {
            continue;
        };
        let words = ["timeout", "-s", "KILL", "60", program.to_str().unwrap()];
        let said = finish(run_with(&["--limit", "64M", "--"], &words));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{kind}: {}", said.err);
        assert!(said.err.contains("sanitizer"), "{kind}: {}", said.err);
    }
}

/// A tracer that follows threads reads the arguments of system calls while it stops the threads that could
/// restore them.
#[test]
fn traced_by_strace() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
int main(void)
{
    char *at = map(110 * MIB, MAP_PRIVATE);
    fill((uint64_t *)at, 110 * MIB, 1);
    for (size_t page = 0; page < 110 * MIB; page += 4096)
        strcpy(at + page, "/dev/null");
    for (size_t page = 0; page < 110 * MIB; page += 4096 * 61)
        close(open(at + page, O_WRONLY));
    puts("right");
}
"#;
    let Some(program) = compile(here.path(), "traced", &format!("{PAGES}{source}"), &[]) else { return };
    if Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success()) {
        let words =
            ["timeout", "-s", "KILL", "60", "strace", "-f", "-o", "/dev/null", program.to_str().unwrap()];
        let said = finish(run_with(&["--limit", "64M", "--"], &words));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
        assert!(said.err.contains("restored"), "{}", said.err);
    } else {
        eprintln!("skipped: no strace that works");
    }
}

/// The closing line and the statistics for a process in which the runtime has stopped.
#[test]
fn peaks_after_the_runtime_has_stopped() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
int main(void)
{
    uint64_t *first = map(110 * MIB, MAP_PRIVATE);
    fill(first, 110 * MIB, 1);
    mlockall(MCL_FUTURE);
    munlockall();
    sleep(1);
    uint64_t *second = map(40 * MIB, MAP_PRIVATE);
    fill(second, 40 * MIB, 1);
    sleep(2);
    check(first, 110 * MIB, 1);
    puts("right");
}
"#;
    let Some(program) = compile(here.path(), "stopped", &format!("{PAGES}{source}"), &[]) else { return };
    let json = here.path().join("s.json");
    let options = ["--limit", "64M", "--stats", json.to_str().unwrap(), "--"];
    let said = finish(run_with(&options, &[program.to_str().unwrap()]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    assert!(said.err.contains("not every process was managed"), "{}", said.err);
    let stats = stats(&json);
    for field in ["peak_resident_bytes", "peak_logical_bytes"] {
        let peak = stats[field].as_u64().unwrap();
        assert!((150 << 20..180 << 20).contains(&peak), "{field}: {peak}");
    }
}

/// When a thread ends, the kernel marks the robust mutexes that it still holds, and cannot wait for evicted pages
/// then. A mutex without its mark would stay locked for ever.
#[test]
fn robust_mutexes_of_ended_threads_are_marked() {
    let here = tempfile::tempdir().unwrap();
    runs(
        here.path(),
        "robust",
        r#"
#include <pthread.h>
#include <time.h>
enum { COUNT = 64, STEP = 1 << 18 };
static char *place;
static pthread_barrier_t barrier;
static char returns[1], exits[1], cancelled[1];
static pthread_mutex_t *at(int i) { return (pthread_mutex_t *)(place + i * STEP + 1024); }
static void *holds(void *way)
{
    for (int i = 0; i < COUNT; i++)
        pthread_mutex_lock(at(i));
    pthread_barrier_wait(&barrier);
    if (way == cancelled)
        for (;;)
            pause();
    pthread_barrier_wait(&barrier);
    if (way == exits)
        pthread_exit(NULL);
    return NULL;
}
int main(void)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    uint64_t *more = map(100 * MIB, MAP_PRIVATE);
    char *const ways[] = { returns, exits, cancelled };
    for (int round = 0; round < 3; round++) {
        place = map(COUNT * STEP, MAP_PRIVATE);
        fill((uint64_t *)place, COUNT * STEP, 0);
        for (int i = 0; i < COUNT; i++)
            pthread_mutex_init(at(i), &attr);
        pthread_barrier_init(&barrier, NULL, 2);
        pthread_t thread;
        pthread_create(&thread, NULL, holds, ways[round]);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 3; i++)
            fill(more, 100 * MIB, i);
        if (ways[round] == cancelled)
            pthread_cancel(thread);
        else
            pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
        for (int i = 0; i < COUNT; i++) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec++;
            int error = pthread_mutex_timedlock(at(i), &until);
            if (error != EOWNERDEAD) {
                printf("round %d, mutex %d: %s\n", round, i, strerror(error));
                return 1;
            }
            pthread_mutex_consistent(at(i));
            pthread_mutex_unlock(at(i));
        }
    }
    puts("right");
    return 0;
}
"#,
    );
}

/// Some futex operations write to memory inside of the kernel, which cannot wait for evicted pages there and reports
/// EFAULT.
#[test]
fn futex_operations_on_evicted_pages() {
    let here = tempfile::tempdir().unwrap();
    runs(
        here.path(),
        "futex",
        r#"
#include <linux/futex.h>
#include <sys/syscall.h>
enum { COUNT = 64, STEP = 1 << 18 };
static uint32_t *at(char *place, int i) { return (uint32_t *)(place + i * STEP + 1024); }
static void tell(const char *what, int i, long answer)
{
    if (answer < 0) {
        printf("%s, page %d: %s\n", what, i, strerror(errno));
        exit(1);
    }
}
int main(void)
{
    char *place = map(COUNT * STEP, MAP_PRIVATE);
    uint64_t *more = map(100 * MIB, MAP_PRIVATE);
    for (int round = 0; round < 2; round++) {
        fill((uint64_t *)place, COUNT * STEP, 0);
        for (int i = 0; i < COUNT; i++)
            *at(place, i) = 0;
        for (int i = 0; i < 3; i++)
            fill(more, 100 * MIB, i);
        for (int i = 0; i < COUNT; i += 2) {
            uint32_t *one = at(place, i), *two = at(place, i + 1);
            if (round == 0) {
                int add = FUTEX_OP(FUTEX_OP_ADD, 7, FUTEX_OP_CMP_EQ, 0);
                tell("wake", i, syscall(SYS_futex, one, FUTEX_WAKE_OP_PRIVATE, 1, 1, two, add));
                if (*two != 7) {
                    printf("page %d: %u was added\n", i, *two);
                    return 1;
                }
            } else {
                tell("lock", i, syscall(SYS_futex, one, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
                if (*one != (uint32_t)syscall(SYS_gettid)) {
                    printf("page %d: it is not locked\n", i);
                    return 1;
                }
                tell("unlock", i, syscall(SYS_futex, one, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
            }
        }
    }
    puts("right");
    return 0;
}
"#,
    );
}
