//! Never more memory than without memfold: incompressible memory, and limits that the data do not allow.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::group::Group;
use crate::common::{Said, compile, finish, run_with, stats};

const MIB: u64 = 1 << 20;
/// No limit, as the limit of a memory cgroup.
const NO_LIMIT: u64 = 1 << 60;

/// Fills `argv[1]` MiB with pages of three kinds: `r` random, `h` half random, `t` a third random. `argv[2]`
/// is the sequence of kinds, which repeats. Writes all pages `argv[3]` times with different contents. Two
/// threads check every word each time.
const KINDS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define MIB ((size_t)1 << 20)
static uint64_t *at;
static size_t pages, round_;
static const char *kinds;
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static uint64_t word(size_t page, size_t i)
{
    uint64_t name = (round_ * pages + page) * 512 + i;
    switch (kinds[page % strlen(kinds)]) {
    case 'r':
        return mix(name + 0x9e3779b97f4a7c15);
    case 'h':
        return i % 2 ? 0x11 : mix(name);
    default:
        return i % 3 ? 0x11 : mix(name);
    }
}
static void *fill(void *first)
{
    for (size_t page = (size_t)first; page < pages; page += 2)
        for (size_t i = 0; i < 512; i++)
            at[page * 512 + i] = word(page, i);
    return NULL;
}
static void *check(void *first)
{
    for (size_t page = (size_t)first; page < pages; page += 2)
        for (size_t i = 0; i < 512; i++)
            if (at[page * 512 + i] != word(page, i)) {
                printf("wrong: page %zu, word %zu\n", page, i);
                exit(1);
            }
    return NULL;
}
static void both(void *(*of)(void *))
{
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, of, (void *)i);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
static void map(const char *mib)
{
    pages = strtoull(mib, NULL, 0) * MIB / 4096;
    at = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
}
"#;

/// The plain `main` for `KINDS`.
const ROUNDS: &str = r#"
int main(int argc, char **argv)
{
    map(argv[1]);
    kinds = argv[2];
    for (size_t rounds = strtoull(argv[3], NULL, 0); round_ < rounds; round_++) {
        both(fill);
        both(check);
    }
    puts("right");
    return argc != 4;
}
"#;

fn kinds(directory: &Path, name: &str, main: &str) -> Option<PathBuf> {
    compile(directory, name, &format!("{KINDS}{main}"), &["-pthread"])
}

/// A memory cgroup with a limit, if the test may make one. The kernel records its peak.
fn memory(name: &str, limit: u64) -> Option<Group> {
    Group::limited(&["/sys/fs/cgroup/memory"], name, ("memory.limit_in_bytes", limit))
}

/// The peak of the cgroup, which includes its page cache.
fn peak(group: &Group) -> u64 {
    let text = fs::read_to_string(group.0.join("memory.max_usage_in_bytes")).unwrap();
    text.trim().parse().unwrap()
}

/// The output of a run, and its peak according to memfold and, if possible, the kernel.
struct Run {
    said: Said,
    peaks: Vec<(&'static str, u64)>,
}

impl Run {
    fn of(directory: &Path, limit: u64, words: &[&str]) -> Self {
        let json = directory.join("s.json");
        let limit = limit.to_string();
        let command = run_with(&["--limit", &limit, "--stats", json.to_str().unwrap(), "--"], words);
        let group = memory("bounds", NO_LIMIT);
        let said = finish(match &group {
            Some(group) => group.enter(&command),
            None => command,
        });
        let mut peaks = vec![("memfold", stats(&json)["peak_resident_bytes"].as_u64().unwrap())];
        peaks.extend(group.map(|group| ("cgroup", peak(&group))));
        Run { said, peaks }
    }

    #[track_caller]
    fn is_right_and_below(&self, bound: u64) {
        assert_eq!((self.said.status, self.said.out.as_str()), (0, "right\n"), "{}", self.said.err);
        for (who, peak) in &self.peaks {
            assert!(*peak <= bound, "{who}: {} of {} MiB; {}", peak / MIB, bound / MIB, self.said.err);
        }
    }
}

/// A limit plus its tolerance.
fn tolerated(bytes: u64) -> u64 {
    bytes + bytes / 20 + 8 * MIB
}

/// Serializes tests with large peaks, which would disturb each other.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn incompressible_data_take_no_more_memory_than_in_a_plain_run() {
    let (here, _alone) = (tempfile::tempdir().unwrap(), alone());
    let Some(program) = kinds(here.path(), "random", ROUNDS) else { return };
    let program = program.to_str().unwrap();
    for percent in [20, 50, 80] {
        let run = Run::of(here.path(), 128 * MIB * percent / 100, &[program, "128", "r", "3"]);
        run.is_right_and_below(tolerated(128 * MIB));
    }
}

/// A part of the pages compresses, in single pages or in runs. The limit is held, and incompressible pages
/// stay resident.
#[test]
fn compressible_data_beside_incompressible_data() {
    let (here, _alone) = (tempfile::tempdir().unwrap(), alone());
    let Some(program) = kinds(here.path(), "mixed", ROUNDS) else { return };
    let program = program.to_str().unwrap();
    for kinds in ["rt", "rrrrrrrrtttttttt", "tttttttttttr"] {
        let limit = 128 * MIB * 85 / 100;
        Run::of(here.path(), limit, &[program, "128", kinds, "2"]).is_right_and_below(tolerated(limit));
    }
}

/// Incompressible pages are tried again later, because their contents may have changed.
#[test]
fn contents_that_compress_later() {
    let (here, _alone) = (tempfile::tempdir().unwrap(), alone());
    let source = r#"
static size_t resident(void)
{
    size_t size, resident = 0, shared = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%zu %zu %zu", &size, &resident, &shared) != 3)
        exit(3);
    fclose(statm);
    return (resident - shared) * 4096;
}
int main(int argc, char **argv)
{
    size_t least = SIZE_MAX;
    map("96");
    kinds = "r";
    both(fill);
    usleep(300000);
    both(check);
    round_ = 1;
    kinds = "t";
    both(fill);
    for (int i = 0; i < 1000 && least > 72 * MIB; i++) {
        usleep(20000);
        least = resident() < least ? resident() : least;
    }
    if (least > 72 * MIB)
        printf("%zu MiB are resident\n", least / MIB);
    both(check);
    puts("right");
    return argc != 1 || argv == NULL;
}
"#;
    let Some(program) = kinds(here.path(), "later", source) else { return };
    let run = Run::of(here.path(), 64 * MIB, &[program.to_str().unwrap()]);
    run.is_right_and_below(tolerated(96 * MIB));
}

/// Children inherit both incompressible pages and compressed ones.
#[test]
fn forks_beside_what_does_not_compress() {
    let (here, _alone) = (tempfile::tempdir().unwrap(), alone());
    let source = r#"
int main(int argc, char **argv)
{
    map("48");
    kinds = "rrt";
    for (; round_ < 4; round_++) {
        int status = 1;
        both(fill);
        pid_t child = fork();
        if (child == 0) {
            both(check);
            both(fill);
            both(check);
            _exit(0);
        }
        both(check);
        if (waitpid(child, &status, 0) != child || status != 0)
            printf("the child: %x\n", status);
    }
    puts("right");
    return argc != 1 || argv == NULL;
}
"#;
    let Some(program) = kinds(here.path(), "forks", source) else { return };
    let run = Run::of(here.path(), 40 * MIB, &[program.to_str().unwrap()]);
    run.is_right_and_below(tolerated(96 * MIB));
}

/// A container in which the program just fits is large enough with memfold, too.
#[test]
fn a_container_that_just_fits() {
    let (here, _alone) = (tempfile::tempdir().unwrap(), alone());
    let Some(program) = kinds(here.path(), "fits", ROUNDS) else { return };
    let Some(group) = memory("fits", tolerated(128 * MIB)) else {
        eprintln!("skipped: no memory cgroup can be made");
        return;
    };
    for (kinds, percent) in [("r", 50), ("rt", 50), ("h", 30)] {
        let limit = (128 * MIB * percent / 100).to_string();
        let command = run_with(&["--limit", &limit, "--"], &[program.to_str().unwrap(), "128", kinds, "2"]);
        let said = finish(group.enter(&command));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{kinds}: {}", said.err);
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    /// If the data do not compress enough for the limit, memory use settles at the least that they need.
    #[test]
    fn a_limit_out_of_reach() {
        let (here, _alone) = (tempfile::tempdir().unwrap(), alone());
        let Some(program) = kinds(here.path(), "half", ROUNDS) else { return };
        let program = program.to_str().unwrap();
        // 8 of each 16 bytes are random, so with headers and rounding 0.52 is the best ratio.
        let least = 192 * MIB * 52 / 100 + 4 * MIB;
        for percent in [30, 50] {
            let limit = 192 * MIB * percent / 100;
            let run = Run::of(here.path(), limit, &[program, "192", "h", "2"]);
            run.is_right_and_below(least + least * 15 / 100);
        }
    }
}
