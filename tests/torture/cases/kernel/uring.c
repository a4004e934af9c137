/*
 * uring: io_uring requests that stay in flight while pages are evicted and restored: reads from pipes that
 * have no data yet into plain old buffers, and file I/O through registered buffers. Pages of those stay
 * pinned for the life of the ring, while the program still reads and writes them itself.
 *
 *   registered ► │ out: what goes to the file │ in: what comes from it │   one half each
 */
#include "torture.h"
#include "mirror.h"
#include "ring.h"

#include <fcntl.h>

#define FIXED_PAGES 16 /* in each half: RLIMIT_MEMLOCK may be small */
#define PIPES 4
#define PIPE_PAGES 4

struct rings {
    struct uring uring;
    bool fixed; /* registration worked */
    struct region out;
    struct mirror in;
    struct page_key in_file[FIXED_PAGES];
    struct region from; /* plain buffers */
    struct mirror to;
    int file, pipes[PIPES][2];
};

static _Atomic bool said, said_fixed;

static void setup(struct trial *trial)
{
    struct uring uring;
    if (!uring_make(&uring, 64)) {
        say_skipped(&said, "uring: no io_uring here: %s", strerrordesc_np(errno));
        trial->skipped = true;
        return;
    }
    struct rings *rings = trial_alloc(trial, sizeof *rings);
    struct rng *rng = &trial->rng;
    size_t pages = trial_pages(trial, 128) / 2;
    rings->uring = uring;
    region_make(&rings->from, pages, rng);
    region_fill(&rings->from, rng);
    mirror_make(&rings->to, pages, rng_below(rng, PAGE));
    region_make(&rings->out, FIXED_PAGES, rng);
    region_fill(&rings->out, rng);
    mirror_make(&rings->in, FIXED_PAGES, 0);
    rings->file = scratch_file(FIXED_PAGES * PAGE, O_DIRECT);
    if (rings->file < 0)
        rings->file = scratch_file(FIXED_PAGES * PAGE, 0);
    pwrite_all(rings->file, rings->out.base, FIXED_PAGES * PAGE, 0);
    for (size_t i = 0; i < FIXED_PAGES; i++)
        rings->in_file[i] = region_key(&rings->out, i);
    for (int i = 0; i < PIPES; i++)
        must(pipe2(rings->pipes[i], O_CLOEXEC));
    struct iovec buffers[2] = { { rings->out.base, FIXED_PAGES * PAGE }, { rings->in.base, FIXED_PAGES * PAGE } };
    rings->fixed = uring_register(&rings->uring, buffers, 2);
    if (!rings->fixed)
        say_skipped(&said_fixed, "uring: the part with registered buffers: %s", strerrordesc_np(errno));
}

static void reap_all(struct rings *rings, unsigned count, size_t expected)
{
    while (count-- > 0) {
        uint64_t tag;
        int result = uring_reap(&rings->uring, &tag);
        if (result != (int)expected)
            fail("io_uring request %llu gave %d, expected %zu", (unsigned long long)tag, result, expected);
    }
}

/* Uses both halves as registered buffers, or as plain ones where registering was refused. */
static void file_request(struct rings *rings, bool write, size_t page, size_t file_page, bool fixed)
{
    void *at = write ? region_at(&rings->out, page) : mirror_at(&rings->in, page);
    int opcode = write ? (fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE)
                       : (fixed ? IORING_OP_READ_FIXED : IORING_OP_READ);
    uring_submit(&rings->uring, opcode, rings->file, at, PAGE, file_page * PAGE, fixed ? !write : -1, page);
}

static void through_file(struct rings *rings, struct rng *rng)
{
    unsigned sent = 0;
    bool fixed = rings->fixed && rng_chance(rng, 80);
    step("registered pages written by the program");
    /* The device must see the program's own writes: it has the same pages, not copies. */
    for (size_t i = 0; i < FIXED_PAGES; i++) {
        region_check(&rings->out, i);
        if (rng_chance(rng, 60))
            region_write(&rings->out, i, rng);
        else if (rng_chance(rng, 30))
            region_patch(&rings->out, i);
    }
    step("io_uring writes in flight");
    for (size_t i = 0; i < FIXED_PAGES; i++)
        if (rng_chance(rng, 70)) {
            file_request(rings, true, i, i, fixed);
            rings->in_file[i] = region_key(&rings->out, i);
            sent++;
        }
    region_churn(&rings->from, rng, 40, 50);
    reap_all(rings, sent, PAGE);
    step("io_uring reads in flight");
    for (size_t i = 0; i < FIXED_PAGES; i++)
        file_request(rings, false, i, FIXED_PAGES - 1 - i, fixed);
    region_churn(&rings->from, rng, 40, 50);
    reap_all(rings, FIXED_PAGES, PAGE);
    step("registered pages read by the program");
    for (size_t i = 0; i < FIXED_PAGES; i++)
        mirror_took(&rings->in, i, rings->in_file[FIXED_PAGES - 1 - i]);
}

/* Reads wait in the kernel, with nothing pinned, until data comes. */
static void through_pipes(struct rings *rings, struct rng *rng)
{
    size_t source[PIPES], target[PIPES], part = rings->to.pages / PIPES, length = PIPE_PAGES * PAGE;
    step("io_uring reads that wait for data");
    for (size_t i = 0; i < PIPES; i++) {
        source[i] = rng_below(rng, rings->from.pages - PIPE_PAGES + 1);
        target[i] = i * part + rng_below(rng, part - PIPE_PAGES + 1);
        uring_submit(&rings->uring, IORING_OP_READ, rings->pipes[i][0], mirror_at(&rings->to, target[i]), length, 0,
                     -1, i);
    }
    for (int k = 0; k < 40; k++) {
        size_t page = rng_below(rng, part * PIPES), which = page / part;
        region_check(&rings->from, rng_below(rng, rings->from.pages));
        if (page < target[which] || page >= target[which] + PIPE_PAGES)
            mirror_check(&rings->to, page);
    }
    /* In one write each, so that a read gets everything: it fits into the pipe. */
    for (size_t i = PIPES; i-- > 0;)
        write_all(rings->pipes[i][1], region_at(&rings->from, source[i]), length);
    for (size_t i = 0; i < PIPES; i++) {
        uint64_t tag;
        int got = uring_reap(&rings->uring, &tag);
        if (got <= 0 || tag >= PIPES)
            fail("an io_uring read of a pipe gave %d", got);
        /* A read that was woken in the middle of the write got only a part. */
        read_all(rings->pipes[tag][0], mirror_at(&rings->to, target[tag]) + got, length - (size_t)got);
    }
    for (size_t i = 0; i < PIPES; i++)
        for (size_t k = 0; k < PIPE_PAGES; k++)
            mirror_took(&rings->to, target[i] + k, region_key(&rings->from, source[i] + k));
}

static void op(struct trial *trial)
{
    struct rings *rings = trial->state;
    for (int i = 0; i < 3; i++) {
        if (rng_chance(&trial->rng, 50))
            through_file(rings, &trial->rng);
        else
            through_pipes(rings, &trial->rng);
        region_churn(&rings->from, &trial->rng, 20, 50);
    }
}

static void check(struct trial *trial)
{
    struct rings *rings = trial->state;
    region_check_all(&rings->out);
    region_check_all(&rings->from);
    mirror_check_all(&rings->in);
    mirror_check_all(&rings->to);
}

static void teardown(struct trial *trial)
{
    struct rings *rings = trial->state;
    uring_drop(&rings->uring);
    region_drop(&rings->out);
    region_drop(&rings->from);
    mirror_drop(&rings->in);
    mirror_drop(&rings->to);
    close(rings->file);
    for (int i = 0; i < PIPES; i++) {
        close(rings->pipes[i][0]);
        close(rings->pipes[i][1]);
    }
    free(rings);
}

TORTURE_CASE(uring) = {
    .name = "uring",
    .about = "io_uring in flight, with plain and with registered buffers",
    .weight = 10,
    .share = 3,
    .instances = 3,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
