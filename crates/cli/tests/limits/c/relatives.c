/*
 * relatives MIB CHILDREN SECONDS SEED: a process and its children share MIB of memory since the forks. Each of
 * them reads, writes, discards, moves and protects pages at random, or forks, and knows what each of its pages
 * must hold. Prints "right" if every page held that.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, PIECE = 64, LONGEST = 48 };

/* The version that each page was filled with; 0 means zeros. */
static uint32_t *known;
/* Where each piece of pages is mapped. */
static uint64_t **place;
static size_t pages;
static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t *at(size_t page)
{
    return place[page / PIECE] + page % PIECE * WORDS;
}

static uint64_t word(size_t page, uint32_t version, size_t index)
{
    uint64_t x = page * 1000003 + version * 7919ull;
    return version == 0 ? 0 : index % 8 != 0 ? x : (x + index) * 0x9E3779B97F4A7C15u;
}

static void fill(size_t page, uint32_t version)
{
    known[page] = version;
    for (size_t index = 0; index < WORDS; index++)
        at(page)[index] = word(page, version, index);
}

static void look(size_t page, const char *when)
{
    for (size_t index = 0; index < WORDS; index++)
        if (at(page)[index] != word(page, known[page], index)) {
            fprintf(stderr, "%s: page %zu, word %zu: %#lx instead of %#lx\n", when, page, index, (unsigned long)at(page)[index],
                    (unsigned long)word(page, known[page], index));
            _exit(3);
        }
}

static void look_at_all(const char *when)
{
    for (size_t page = 0; page < pages; page++)
        look(page, when);
}

static void expect(int well, const char *what)
{
    if (!well) {
        perror(what);
        _exit(4);
    }
}

static void act(void)
{
    size_t from = next() % pages, count = 1 + next() % LONGEST;
    if (from + count > pages)
        count = pages - from;
    size_t piece = from / PIECE;
    switch (next() % 24) {
    default:
        for (size_t page = from; page < from + count; page++)
            look(page, "looked");
        break;
    case 0:
    case 1:
        for (size_t page = from; page < from + count; page++) {
            /* Read first, and then written. */
            look(page, "before a write");
            fill(page, known[page] + 1);
        }
        break;
    case 2:
        for (size_t page = from; page < from + count / 4; page++)
            fill(page, 1 + (uint32_t)(next() & 0xffff));
        break;
    case 3:
        if (from / PIECE != (from + count - 1) / PIECE)
            break;
        expect(madvise(at(from), count * PAGE, MADV_DONTNEED) == 0, "madvise");
        memset(known + from, 0, count * sizeof *known);
        break;
    case 4: {
        void *moved = mmap(NULL, PIECE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect(moved != MAP_FAILED, "mmap");
        moved = mremap(place[piece], PIECE * PAGE, PIECE * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, moved);
        expect(moved != MAP_FAILED, "mremap");
        place[piece] = moved;
        break;
    }
    case 5: {
        /* The kernel writes, perhaps to a page that was only read so far. */
        look(from, "before the kernel writes");
        uint64_t one = word(from, known[from] + 1, 0);
        struct iovec local = { &one, 8 }, remote = { at(from), 8 };
        for (size_t index = 0; index < WORDS; index++) {
            one = word(from, known[from] + 1, index);
            remote.iov_base = at(from) + index;
            if (process_vm_writev(getpid(), &local, 1, &remote, 1, 0) != 8)
                at(from)[index] = one;
        }
        known[from]++;
        break;
    }
    case 6:
        expect(mprotect(place[piece], PIECE * PAGE, PROT_READ) == 0, "mprotect");
        for (size_t page = piece * PIECE; page < piece * PIECE + PIECE; page++)
            look(page, "read-only");
        expect(mprotect(place[piece], PIECE * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
        break;
    case 7:
        if (next() % 8 == 0) {
            pid_t pid = fork();
            expect(pid >= 0, "fork");
            if (pid == 0) {
                for (int round = 0; round < 20; round++) {
                    size_t page = next() % pages;
                    look(page, "a child's child");
                    fill(page, known[page] + 1);
                }
                look_at_all("a child's child at its end");
                _exit(0);
            }
            for (int round = 0; round < 20; round++) {
                size_t page = next() % pages;
                fill(page, known[page] + 1);
            }
            int status = -1;
            expect(waitpid(pid, &status, 0) == pid && status == 0, "a child's child");
        }
        break;
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *sleep_on(void *none)
{
    pause();
    return none;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    pages = strtoul(words[1], NULL, 10) << 8;
    int children = atoi(words[2]);
    double end = now() + atof(words[3]);
    seed = strtoull(words[4], NULL, 10) * 2 + 1;
    known = calloc(pages, sizeof *known);
    place = calloc(pages / PIECE, sizeof *place);
    for (size_t piece = 0; piece < pages / PIECE; piece++) {
        place[piece] = mmap(NULL, PIECE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect(place[piece] != MAP_FAILED, "mmap");
    }
    for (size_t page = 0; page < pages; page++)
        fill(page, 1);
    int number = 0;
    while (number < children) {
        number++;
        pid_t pid = fork();
        expect(pid >= 0, "fork");
        if (pid == 0) {
            seed = seed * 31 + (uint64_t)number * 2;
            /* Half of them with a second thread. */
            pthread_t thread;
            if (number % 2 == 0)
                pthread_create(&thread, NULL, sleep_on, NULL);
            while (now() < end)
                act();
            look_at_all("at the end");
            _exit(0);
        }
    }
    while (now() < end)
        act();
    int status, wrong = 0;
    while (wait(&status) > 0)
        wrong |= status;
    look_at_all("at the end");
    if (wrong == 0)
        puts("right");
    return wrong != 0;
}
