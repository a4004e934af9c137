//! What becomes of a limit: held while a program grows at full speed on all
//! CPUs, given up when the data do not compress, and what a damaged block does.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{alone, compile, finish, run_with, start, stats, watched};

const MIB: u64 = 1 << 20;

/// Fills `argv[1]` MiB in blocks of 1 MiB, by two threads; every page differs,
/// and `argv[2]` of 64 words are random. Reads all of it back.
const GROW: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define BLOCKS 4096
#define WORDS (1 << 17)
static uint64_t *blocks[BLOCKS];
static size_t wanted, noise, next;
static uint64_t word(size_t block, size_t i)
{
    uint64_t z = block * WORDS + i + 0x9e3779b97f4a7c15;
    if (i % 64 >= noise)
        return (block * WORDS + i) / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static void *fill(void *unused)
{
    for (size_t block; (block = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < wanted;) {
        uint64_t *at = malloc(WORDS * sizeof *at);
        if (at == NULL)
            abort();
        for (size_t i = 0; i < WORDS; i++)
            at[i] = word(block, i);
        blocks[block] = at;
    }
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t threads[2];
    wanted = strtoull(argv[1], NULL, 0);
    noise = strtoull(argv[2], NULL, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, fill, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (size_t block = 0; block < wanted; block++)
        for (size_t i = 0; i < WORDS; i++)
            if (blocks[block][i] != word(block, i)) {
                printf("wrong: block %zu, word %zu\n", block, i);
                return 1;
            }
    puts("right");
    return argc == 0;
}
"#;

/// Fills `argv[1]` MiB, of which 10 of 64 words are random, and forks
/// `argv[2]` children. They and the parent write to every page at once, and
/// look three times whether all the rest is as it was.
const SHARE: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static uint64_t *table;
static size_t words;
static uint64_t word(size_t i)
{
    uint64_t z = i + 0x9e3779b97f4a7c15;
    if (i % 64 >= 10)
        return i / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static int work(uint64_t number)
{
    for (size_t i = 0; i < words; i += 512)
        table[i + 7] += number;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < words; i++)
            if (table[i] != word(i) + (i % 512 == 7 ? number : 0)) {
                printf("wrong: process %d, word %zu\n", (int)number, i);
                fflush(stdout);
                return 1;
            }
    return 0;
}
int main(int argc, char **argv)
{
    int status, wrong = 0, children = atoi(argv[2]);
    words = strtoull(argv[1], NULL, 0) << 17;
    if ((table = malloc(words * sizeof *table)) == NULL)
        abort();
    for (size_t i = 0; i < words; i++)
        table[i] = word(i);
    for (int child = 1; child <= children; child++)
        if (fork() == 0)
            _exit(work(child * 1000));
    wrong = work(argc);
    while (wait(&status) > 0)
        wrong |= status;
    if (!wrong)
        puts("right");
    return wrong;
}
"#;

/// Fills 4 MiB of pages of which three quarters are noise, which LZ4 keeps as it is, and then far more of what
/// compresses; looks for those pages of noise that are away, flips a bit in each copy of one outside of
/// its own memory, and reads it.
const DAMAGE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define PAGES 1024
#define MORE ((size_t)160 << 20)
static uint64_t page_word(size_t page, size_t i)
{
    uint64_t z = page * 512 + i + 0x9e3779b97f4a7c15;
    if (i >= 384)
        return 1;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
int main(void)
{
    uint64_t *noise = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *more = mmap(NULL, MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < PAGES * 512; i++)
        noise[i] = page_word(i / 512, i % 512);
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < MORE / 8; i++)
            more[i] = i / 16 + round;
    int pagemap = open("/proc/self/pagemap", O_RDONLY), memory = open("/proc/self/mem", O_RDWR);
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t entry;
        if (pread(pagemap, &entry, 8, ((uintptr_t)noise / 4096 + page) * 8) != 8)
            return 3;
        if (entry >> 63)
            continue;
        /* In the middle of the page; made anew where no other copy is left of it. */
        size_t found = 0;
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512];
        while (fgets(line, sizeof line, maps)) {
            uintptr_t start, end;
            char mode[8];
            if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[0] != 'r' || mode[1] != 'w')
                continue;
            if (strstr(line, "stack") || strstr(line, "heap") || start == (uintptr_t)noise || start == (uintptr_t)more)
                continue;
            static char buffer[1 << 16];
            for (uintptr_t at = start; at < end; at += sizeof buffer) {
                size_t length = end - at < sizeof buffer ? end - at : sizeof buffer;
                /* The buffers of this very search are no copies. */
                if (at < (uintptr_t)buffer + sizeof buffer && (uintptr_t)buffer < at + length)
                    continue;
                if (pread(memory, buffer, length, at) != (ssize_t)length)
                    continue;
                uint64_t first = page_word(page, 256), second = page_word(page, 257);
                for (size_t i = 0; i + 16 <= length; i++)
                    if (memcmp(buffer + i, &first, 8) == 0 && memcmp(buffer + i + 8, &second, 8) == 0) {
                        char changed = buffer[i] ^ 4;
                        if (pwrite(memory, &changed, 1, at + i) == 1)
                            found++;
                    }
            }
        }
        fclose(maps);
        fprintf(stderr, "page %zu: %zu copies\n", page, found);
        if (found != 1)
            continue;
        uint64_t got = noise[page * 512 + 256];
        printf("%s\n", got == page_word(page, 256) ? "as it was" : "a wrong word");
        return 4;
    }
    puts("no page was away");
    return 5;
}
"#;

/// Has `argv[1]` MiB filled by the kernel at once, three times; writes and reads them.
const POPULATE: &str = r#"
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    size_t bytes = strtoull(argv[1], NULL, 0) << 20;
    for (size_t round = 0; round < 3; round++) {
        uint64_t *at =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (at == MAP_FAILED)
            return 2;
        for (size_t i = 0; i < bytes / 8; i++) {
            if (at[i] != 0)
                return 3;
            at[i] = i / 16 * 7 + round;
        }
        for (size_t i = 0; i < bytes / 8; i++)
            if (at[i] != i / 16 * 7 + round)
                return 4;
        munmap(at, bytes);
    }
    puts("right");
    return argc == 0;
}
"#;

/// Four times, a forked child unmaps the `argv[1]` MiB that it shares with its parent and fills as much of its own.
const ANEW: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static size_t words;
static uint64_t word(size_t i, uint64_t seed)
{
    uint64_t z = i + seed + 0x9e3779b97f4a7c15;
    if (i % 64 >= 10)
        return seed + i / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static uint64_t *filled(uint64_t seed)
{
    uint64_t *at = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    for (size_t i = 0; i < words; i++)
        at[i] = word(i, seed);
    return at;
}
static int is_wrong(const uint64_t *at, uint64_t seed)
{
    for (size_t i = 0; i < words; i++)
        if (at[i] != word(i, seed))
            return 1;
    return 0;
}
int main(int argc, char **argv)
{
    words = strtoull(argv[1], NULL, 0) << 17;
    uint64_t *own = filled(argc);
    int status = 0;
    for (uint64_t round = 1; round <= 4; round++) {
        if (fork() == 0) {
            munmap(own, words * 8);
            _exit(is_wrong(filled(round * 1000), round * 1000));
        }
        int one;
        wait(&one);
        status |= one;
    }
    if (status == 0 && !is_wrong(own, argc))
        puts("right");
    return 0;
}
"#;

/// Makes a file of so many MiB and reads it back by as few system calls as the kernel lets it.
const READ: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    size_t bytes = strtoull(argv[1], NULL, 0) << 20, done = 0;
    FILE *file = tmpfile();
    if (ftruncate(fileno(file), bytes))
        return 2;
    for (uint64_t page = 0; page < bytes / 4096; page += 7)
        if (pwrite(fileno(file), &page, 8, page * 4096 + 2040) != 8)
            return puts("no room for the file"), 2;
    char *at = malloc(bytes);
    for (ssize_t got; done < bytes && (got = pread(fileno(file), at + done, bytes - done, done)) > 0; done += got) {
    }
    for (size_t page = 0; page < bytes / 4096; page++)
        if (*(uint64_t *)(at + page * 4096 + 2040) != (page % 7 ? 0 : page))
            return printf("wrong: page %zu\n", page);
    puts("right");
    return done != bytes;
}
"#;

fn program(directory: &Path) -> Option<String> {
    Some(compile(directory, "grow", GROW, &["-pthread"])?.to_str()?.to_owned())
}

/// Samples the memory of what was started until it ends, and insists that it
/// gives the right answer and holds its limit. Returns the number of samples.
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

#[test]
fn memory_that_the_kernel_fills_at_once() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(populate) = compile(here.path(), "populate", POPULATE, &[]) else { return };
    holds(64 * MIB, start(&["--limit", "64M", "--"], &[populate.to_str().unwrap(), "160"]));
}

/// A thread in a system call cannot be stopped. So paging starts before a call that could exceed the limit, even
/// where the limit is too far away to be watched closely.
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

/// Copies that the kernel makes, without telling, when forked processes write to what they share.
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

/// The parent still has what the child unmaps, so what the child fills afterwards comes on top.
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

    // It passes its limit for longer than half a second.
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
    // Long enough that the compressor gets its turn on a busy machine.
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
