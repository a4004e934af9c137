/*
 * direct: O_DIRECT. The device reads and writes the program's pages themselves, which are pinned meanwhile:
 * by pread and pwrite of several threads at once, and by native asynchronous I/O, during which the program
 * uses its other pages.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>

#define FLIGHTS 8     /* requests at once */
#define RUN 8         /* pages each */
#define FILE_PAGES ((size_t)FLIGHTS * RUN)

struct direct {
    struct region from;
    struct mirror to;
    int file;
    aio_context_t context; /* 0: none */
    struct page_key in_file[FILE_PAGES];
};

struct flights {
    struct direct *direct;
    size_t source[FLIGHTS], target[FLIGHTS];
};

static _Atomic bool said, said_aio;

static void setup(struct trial *trial)
{
    size_t pages = trial_pages(trial, 4 * FILE_PAGES) / 2;
    int file = scratch_file(FILE_PAGES * PAGE, O_DIRECT);
    if (file < 0) {
        say_skipped(&said, "direct: the file system of %s refuses O_DIRECT (try --dir)", options.dir);
        trial->skipped = true;
        return;
    }
    struct direct *direct = trial_alloc(trial, sizeof *direct);
    direct->file = file;
    if (syscall(SYS_io_setup, FLIGHTS, &direct->context) != 0) {
        say_skipped(&said_aio, "direct: the part with native asynchronous I/O: %s", strerrordesc_np(errno));
        direct->context = 0;
    }
    region_make(&direct->from, pages, &trial->rng);
    region_fill(&direct->from, &trial->rng);
    mirror_make(&direct->to, pages, 0);
    for (size_t i = 0; i < FILE_PAGES; i++) {
        direct->in_file[i] = region_key(&direct->from, i);
        pwrite_all(file, region_at(&direct->from, i), PAGE, (off_t)(i * PAGE));
    }
}

/* Runs of pages that do not overlap: one in each eighth of the region and of the mirror. */
static void pick_flights(struct flights *flights, struct rng *rng)
{
    size_t part = flights->direct->from.pages / FLIGHTS;
    for (size_t i = 0; i < FLIGHTS; i++) {
        flights->source[i] = i * part + rng_below(rng, part - RUN + 1);
        flights->target[i] = i * part + rng_below(rng, part - RUN + 1);
    }
}

static void written(struct flights *flights, size_t i)
{
    for (size_t k = 0; k < RUN; k++)
        flights->direct->in_file[i * RUN + k] = region_key(&flights->direct->from, flights->source[i] + k);
}

static void arrived(struct flights *flights, size_t i)
{
    for (size_t k = 0; k < RUN; k++)
        mirror_took(&flights->direct->to, flights->target[i] + k, flights->direct->in_file[i * RUN + k]);
}

/* Each thread writes its runs and reads them back, while the others do the same. */
static void by_thread(struct helper *helper)
{
    struct flights *flights = helper->shared;
    struct direct *direct = flights->direct;
    for (size_t i = helper->index; i < FLIGHTS; i += 4) {
        off_t at = (off_t)(i * RUN * PAGE);
        step("O_DIRECT write");
        pwrite_all(direct->file, region_at(&direct->from, flights->source[i]), RUN * PAGE, at);
        written(flights, i);
        step("O_DIRECT read");
        pread_all(direct->file, mirror_at(&direct->to, flights->target[i]), RUN * PAGE, at);
        arrived(flights, i);
    }
}

static void reap(struct direct *direct, size_t count)
{
    while (count > 0) {
        struct io_event events[FLIGHTS];
        long n = syscall(SYS_io_getevents, direct->context, 1, FLIGHTS, events, NULL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            fail_errno("io_getevents gave %ld", n);
        for (long i = 0; i < n; i++)
            if (events[i].res != (long long)(RUN * PAGE))
                fail("an asynchronous request gave %lld, expected %zu bytes", (long long)events[i].res, RUN * PAGE);
        count -= (size_t)n;
        move_on();
    }
}

static void submit(struct flights *flights, bool write)
{
    struct direct *direct = flights->direct;
    struct iocb blocks[FLIGHTS], *list[FLIGHTS];
    memset(blocks, 0, sizeof blocks);
    for (size_t i = 0; i < FLIGHTS; i++) {
        blocks[i].aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
        blocks[i].aio_fildes = (uint32_t)direct->file;
        blocks[i].aio_buf = (uintptr_t)(write ? region_at(&direct->from, flights->source[i])
                                              : mirror_at(&direct->to, flights->target[i]));
        blocks[i].aio_nbytes = RUN * PAGE;
        blocks[i].aio_offset = (long long)(i * RUN * PAGE);
        list[i] = &blocks[i];
    }
    for (long done = 0; done < FLIGHTS;) {
        long n = syscall(SYS_io_submit, direct->context, FLIGHTS - done, list + done);
        if (n <= 0)
            fail_errno("io_submit gave %ld", n);
        done += n;
    }
}

/* While requests are in flight, uses only pages that they do not touch. */
static void meanwhile(struct flights *flights, struct rng *rng)
{
    struct direct *direct = flights->direct;
    size_t part = direct->from.pages / FLIGHTS;
    for (int i = 0; i < 60; i++) {
        size_t page = rng_below(rng, part * FLIGHTS), which = page / part;
        if (page < flights->source[which] || page >= flights->source[which] + RUN)
            region_write(&direct->from, page, rng);
        if (page < flights->target[which] || page >= flights->target[which] + RUN)
            mirror_check(&direct->to, page);
    }
}

static void asynchronous(struct flights *flights, struct rng *rng)
{
    step("asynchronous writes in flight");
    submit(flights, true);
    meanwhile(flights, rng);
    reap(flights->direct, FLIGHTS);
    for (size_t i = 0; i < FLIGHTS; i++)
        written(flights, i);
    step("asynchronous reads in flight");
    submit(flights, false);
    meanwhile(flights, rng);
    reap(flights->direct, FLIGHTS);
    for (size_t i = 0; i < FLIGHTS; i++)
        arrived(flights, i);
}

static void op(struct trial *trial)
{
    struct direct *direct = trial->state;
    struct flights flights = { .direct = direct };
    pick_flights(&flights, &trial->rng);
    if (direct->context && rng_chance(&trial->rng, 50))
        asynchronous(&flights, &trial->rng);
    else
        team_run(4, "direct", &trial->rng, by_thread, &flights);
    region_churn(&direct->from, &trial->rng, 50, 50);
}

static void check(struct trial *trial)
{
    struct direct *direct = trial->state;
    region_check_all(&direct->from);
    mirror_check_all(&direct->to);
}

static void teardown(struct trial *trial)
{
    struct direct *direct = trial->state;
    if (direct->context)
        must(syscall(SYS_io_destroy, direct->context));
    region_drop(&direct->from);
    mirror_drop(&direct->to);
    close(direct->file);
    free(direct);
}

TORTURE_CASE(direct) = {
    .name = "direct",
    .about = "O_DIRECT and native asynchronous I/O in flight",
    .weight = 8,
    .share = 4,
    .instances = 3,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
