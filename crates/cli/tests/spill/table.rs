//! The program that spills, and its protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::common::{self, compile, run_with, said};

#[cfg(feature = "servers")]
use nix::unistd::Pid;

/// Sleeps for `argv[3]` seconds, if that is given. Then fills `argv[1]` MiB, of which `argv[2]` of 64 words
/// are random (`A/B`: A, but every Bth page has only equal words), prints "filled", and obeys lines of input:
///
/// - `look`: checks all memory.
/// - `touch N`: checks N pages, and changes some of them.
/// - `fork N`: N children touch pages, release half of the memory, and check all of it.
/// - `forks N`: forks N children, one after the other, that end immediately.
/// - `free`: releases every other MiB.
/// - `apart`: a thread checks all memory, and a child is forked meanwhile; wrong if the fork takes seconds.
/// - `stopped N`: N children read all memory repeatedly, and are stopped.
/// - `resumed`: those children go on, and check all memory.
/// - `alone`: like `fork 1`, with the child in its own PID namespace, where it forks once more.
/// - `lock`: locks all memory.
/// - `identity`: sets its group to the current one.
/// - `exec`: executes itself again.
/// - `daemon FILE`: continues in the background, checks, and writes the result to the file.
pub const TABLE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define WORDS 512
static uint64_t *table, noise, plain;
static uint32_t *version;
static size_t pages;
static uint64_t seed = 88172645463325252;
static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static uint64_t word(size_t page, size_t i)
{
    uint64_t z = (page * WORDS + i + 1) * (version[page] * 2 + 1) + 0x9e3779b97f4a7c15;
    if (i % 64 >= noise || (plain != 0 && page % plain == 0))
        return version[page] + page;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static void fill(size_t page)
{
    for (size_t i = 0; i < WORDS; i++)
        table[page * WORDS + i] = word(page, i);
}
static int is_wrong(size_t page)
{
    for (size_t i = 0; i < WORDS; i++)
        if (table[page * WORDS + i] != (version[page] == UINT32_MAX ? 0 : word(page, i))) {
            printf("wrong: process %d, page %zu, word %zu\n", getpid(), page, i);
            fflush(stdout);
            return 1;
        }
    return 0;
}
static int look(void)
{
    for (size_t page = 0; page < pages; page++)
        if (is_wrong(page))
            return 1;
    return 0;
}
static int touch(size_t count)
{
    while (count--) {
        size_t page = next() % pages;
        if (is_wrong(page))
            return 1;
        if (version[page] != UINT32_MAX && next() % 2) {
            version[page]++;
            fill(page);
        }
    }
    return 0;
}
static void give_back(size_t first)
{
    for (size_t page = first * 256; page + 256 <= pages; page += 512) {
        madvise(table + page * WORDS, 256 * 4096, MADV_DONTNEED);
        for (size_t i = page; i < page + 256; i++)
            version[i] = UINT32_MAX;
    }
}
static int be_child(int number)
{
    seed += number;
    if (touch(pages / 4))
        return 1;
    give_back(number % 2);
    return look() || touch(pages / 4);
}
static pid_t stopped[64];
static volatile int enough;
static void *look_on(void *unused)
{
    uint64_t at = gettid() * 7919;
    (void)unused;
    for (; !enough; at = at * 6364136223846793005 + 1442695040888963407)
        if (is_wrong((at >> 33) % pages))
            _exit(1);
    return NULL;
}
static void stop_children(int count)
{
    for (int child = 0; child < count; child++) {
        if ((stopped[child] = fork()) == 0) {
            pthread_t thread;
            for (int i = 0; i < 8; i++)
                pthread_create(&thread, NULL, look_on, NULL);
            usleep(1000000);
            enough = 1;
            _exit(look());
        }
        usleep(500000);
        kill(stopped[child], SIGSTOP);
    }
}
static int resume_children(void)
{
    int status, wrong = 0;
    for (int child = 0; stopped[child] != 0; child++) {
        kill(stopped[child], SIGCONT);
        wrong |= waitpid(stopped[child], &status, 0) != stopped[child] || status != 0;
    }
    return wrong;
}
static void *look_apart(void *unused)
{
    (void)unused;
    if (look())
        abort();
    return NULL;
}
static int apart(void)
{
    pthread_t thread;
    struct timespec begin, end;
    int status;
    if (pthread_create(&thread, NULL, look_apart, NULL) != 0)
        abort();
    pthread_detach(thread);
    usleep(1000000);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return child < 0 || waitpid(child, &status, 0) != child || status != 0 || end.tv_sec - begin.tv_sec > 2;
}
int main(int argc, char **argv)
{
    char line[256], name[200];
    int count, status, wrong = 0;
    if (argc > 3)
        sleep(atoi(argv[3]));
    pages = strtoull(argv[1], NULL, 0) * 256;
    sscanf(argv[2], "%lu/%lu", &noise, &plain);
    table = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    version = calloc(pages, sizeof *version);
    if (table == MAP_FAILED || version == NULL)
        abort();
    for (size_t page = 0; page < pages; page++)
        fill(page);
    puts("filled");
    fflush(stdout);
    while (!wrong && fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "look\n") == 0) {
            wrong = look();
        } else if (sscanf(line, "touch %d", &count) == 1) {
            wrong = touch(count);
        } else if (strcmp(line, "free\n") == 0) {
            give_back(0);
        } else if (sscanf(line, "fork %d", &count) == 1) {
            for (int child = 0; child < count; child++)
                if (fork() == 0)
                    _exit(be_child(child));
            wrong = touch(pages / 4);
            while (wait(&status) > 0)
                wrong |= status != 0;
        } else if (strcmp(line, "apart\n") == 0) {
            wrong = apart();
        } else if (sscanf(line, "stopped %d", &count) == 1) {
            stop_children(count);
        } else if (strcmp(line, "resumed\n") == 0) {
            wrong = resume_children();
        } else if (sscanf(line, "forks %d", &count) == 1) {
            while (count-- > 0 && !wrong) {
                pid_t child = fork();
                if (child == 0)
                    _exit(0);
                wrong = child < 0 || waitpid(child, &status, 0) != child || status != 0;
            }
        } else if (strcmp(line, "alone\n") == 0) {
            if (unshare(CLONE_NEWPID) != 0) {
                perror("unshare");
                return 77;
            }
            if (fork() == 0) {
                wrong = be_child(0) || be_child(1);
                if (!wrong && fork() == 0)
                    _exit(be_child(2));
                while (wait(&status) > 0)
                    wrong |= status != 0;
                _exit(wrong);
            }
            wrong = touch(pages / 4);
            while (wait(&status) > 0)
                wrong |= status != 0;
        } else if (strcmp(line, "identity\n") == 0) {
            wrong = setgid(getgid()) != 0;
        } else if (strcmp(line, "lock\n") == 0) {
            wrong = mlockall(MCL_CURRENT) != 0;
        } else if (strcmp(line, "exec\n") == 0) {
            execv("/proc/self/exe", argv);
        } else if (sscanf(line, "daemon %199s", name) == 1) {
            if (fork() != 0)
                return 0;
            setsid();
            close(0);
            close(1);
            usleep(1500000);
            wrong = touch(pages / 2) || look();
            FILE *file = fopen(name, "w");
            fputs(wrong ? "wrong" : "right", file);
            fclose(file);
            return wrong;
        }
        puts(wrong ? "wrong" : "right");
        fflush(stdout);
    }
    return wrong;
}
"#;

/// The program, under memfold.
pub struct Table {
    pub child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Table {
    pub fn start(at: &Path, target: &str, options: &[&str], mib: &str, noise: &str) -> Option<Self> {
        Self::start_with(at, target, options, mib, noise, Stdio::piped())
    }

    /// The same, with another destination for standard error.
    pub fn start_with(
        at: &Path,
        target: &str,
        options: &[&str],
        mib: &str,
        noise: &str,
        words: impl Into<Stdio>,
    ) -> Option<Self> {
        let program = at.join("table");
        if !program.exists() {
            compile(at, "table", TABLE, &["-pthread"])?;
        }
        let stats = at.join("stats.json");
        let mut all = vec!["--spill", target, "--stats", stats.to_str().unwrap()];
        all.extend(options);
        let mut command = run_with(&all, &["--", program.to_str().unwrap(), mib, noise]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(words);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().map(Result::unwrap);
        if first.as_deref() != Some("filled") {
            panic!("{first:?}: {}", said(child.wait_with_output().unwrap()).err);
        }
        Some(Table { child, lines })
    }

    /// The supervisor and its children.
    #[cfg(feature = "servers")]
    pub fn processes(&self) -> Vec<Pid> {
        let own = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
        let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
        std::iter::once(own as i32).chain(children).map(Pid::from_raw).collect()
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn answer(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    #[track_caller]
    pub fn asked(&mut self, line: &str) {
        self.tell(line);
        let answer = self.answer();
        if answer.as_deref() != Some("right") {
            drop(self.child.stdin.take());
            let mut text = String::new();
            std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut text).unwrap();
            panic!("{line}: {answer:?}: {text}");
        }
    }

    pub fn end(mut self) -> common::Said {
        drop(self.child.stdin.take());
        said(self.child.wait_with_output().unwrap())
    }
}
