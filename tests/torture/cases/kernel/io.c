/*
 * io: the kernel reads from old pages and writes into old pages. Contents go from a region into a mirror
 * through pipes, sockets and files, in pieces of odd sizes at odd addresses, and must arrive byte for byte;
 * also while a thread waits in its system call for data.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PIPE_ROOM ((size_t)32 << 10) /* less than a pipe or socket takes at once */
#define RUN_MOST 24

struct io {
    struct region from;
    struct mirror to;
    int pipe[2], stream[2], packets[2], file;
};

struct run {
    struct io *io;
    size_t source, target, count;
};

static void setup(struct trial *trial)
{
    struct io *io = trial_alloc(trial, sizeof *io);
    size_t pages = trial_pages(trial, 128) / 2;
    region_make(&io->from, pages, &trial->rng);
    region_fill(&io->from, &trial->rng);
    /* Every second trial receives at addresses that are not even word-aligned. */
    mirror_make(&io->to, pages, trial->index % 2 ? 1 + rng_below(&trial->rng, PAGE - 1) : 0);
    must(pipe2(io->pipe, O_CLOEXEC));
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, io->stream));
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, io->packets));
    io->file = scratch_file(RUN_MOST * PAGE, 0);
}

static struct run pick_run(struct io *io, struct rng *rng)
{
    struct run run = { .io = io, .count = rng_range(rng, 1, RUN_MOST) };
    run.source = rng_below(rng, io->from.pages - run.count + 1);
    run.target = rng_below(rng, io->to.pages - run.count + 1);
    return run;
}

static void arrived(struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        mirror_took(&run->io->to, run->target + i, region_key(&run->io->from, run->source + i));
}

/* Writes some bytes and reads as many, alternately. */
static void ping_pong(struct run *run, struct rng *rng, int in, int out)
{
    uint8_t *source = region_at(&run->io->from, run->source), *target = mirror_at(&run->io->to, run->target);
    for (size_t done = 0, length = run->count * PAGE; done < length;) {
        size_t n = rng_range(rng, 1, PIPE_ROOM);
        n = n < length - done ? n : length - done;
        write_all(in, source + done, n);
        read_all(out, target + done, n);
        done += n;
    }
    arrived(run);
}

/* Splits a range into pieces of odd lengths. */
static int split(struct iovec *pieces, int most, uint8_t *at, size_t length, struct rng *rng)
{
    int n = 0;
    while (length > 0) {
        size_t piece = n == most - 1 ? length : rng_range(rng, 1, 2 * length / (size_t)(most - n) + 1);
        piece = piece < length ? piece : length;
        pieces[n++] = (struct iovec){ at, piece };
        at += piece;
        length -= piece;
    }
    return n;
}

static void vectors(struct run *run, struct rng *rng)
{
    struct iovec out[16], in[16];
    size_t count = run->count < PIPE_ROOM / PAGE ? run->count : PIPE_ROOM / PAGE;
    uint8_t *source = region_at(&run->io->from, run->source), *target = mirror_at(&run->io->to, run->target);
    size_t length = count * PAGE;
    int outs = split(out, 16, source, length, rng), ins = split(in, 16, target, length, rng);
    run->count = count;
    if (rng_chance(rng, 50)) {
        step("writev and readv");
        ssize_t n = TEMP_FAILURE_RETRY(writev(run->io->pipe[1], out, outs));
        ssize_t m = TEMP_FAILURE_RETRY(readv(run->io->pipe[0], in, ins));
        if (n != (ssize_t)length || m != (ssize_t)length)
            fail_errno("writev gave %zd, readv gave %zd of %zu bytes", n, m, length);
    } else {
        step("sendmsg and recvmsg");
        struct msghdr send = { .msg_iov = out, .msg_iovlen = (size_t)outs };
        struct msghdr receive = { .msg_iov = in, .msg_iovlen = (size_t)ins };
        ssize_t n = TEMP_FAILURE_RETRY(sendmsg(run->io->packets[0], &send, 0));
        ssize_t m = TEMP_FAILURE_RETRY(recvmsg(run->io->packets[1], &receive, 0));
        if (n != (ssize_t)length || m != (ssize_t)length)
            fail_errno("sendmsg gave %zd, recvmsg gave %zd of %zu bytes", n, m, length);
    }
    arrived(run);
}

static void through_file(struct run *run, struct rng *rng)
{
    struct iovec pieces[16];
    uint8_t *source = region_at(&run->io->from, run->source), *target = mirror_at(&run->io->to, run->target);
    size_t length = run->count * PAGE;
    step("a file, written and read");
    if (rng_chance(rng, 50)) {
        int n = split(pieces, 16, source, length, rng);
        if (TEMP_FAILURE_RETRY(pwritev(run->io->file, pieces, n, 0)) != (ssize_t)length)
            fail_errno("pwritev of %zu bytes", length);
        pread_all(run->io->file, target, length, 0);
    } else {
        int n = split(pieces, 16, target, length, rng);
        pwrite_all(run->io->file, source, length, 0);
        if (TEMP_FAILURE_RETRY(preadv(run->io->file, pieces, n, 0)) != (ssize_t)length)
            fail_errno("preadv of %zu bytes", length);
    }
    arrived(run);
}

/* The kernel moves pages from a file into a pipe; read or vmsplice copies them into old memory. */
static void spliced(struct run *run, struct rng *rng)
{
    uint8_t *source = region_at(&run->io->from, run->source), *target = mirror_at(&run->io->to, run->target);
    size_t length = run->count * PAGE;
    step("splice and vmsplice");
    pwrite_all(run->io->file, source, length, 0);
    for (size_t done = 0; done < length;) {
        off_t at = (off_t)done;
        loff_t at64 = at;
        size_t want = length - done < PIPE_ROOM ? length - done : PIPE_ROOM;
        ssize_t n = rng_chance(rng, 50)
                        ? TEMP_FAILURE_RETRY(splice(run->io->file, &at64, run->io->pipe[1], NULL, want, 0))
                        : TEMP_FAILURE_RETRY(sendfile(run->io->pipe[1], run->io->file, &at, want));
        if (n <= 0)
            fail_errno("splice of %zu bytes of a file", want);
        for (size_t got = 0; got < (size_t)n;) {
            struct iovec into = { target + done + got, (size_t)n - got };
            ssize_t m = rng_chance(rng, 60)
                            ? TEMP_FAILURE_RETRY(vmsplice(run->io->pipe[0], &into, 1, 0))
                            : TEMP_FAILURE_RETRY(read(run->io->pipe[0], into.iov_base, into.iov_len));
            if (m <= 0)
                fail_errno("vmsplice from a pipe into %p", into.iov_base);
            got += (size_t)m;
        }
        done += (size_t)n;
    }
    arrived(run);
}

/* A thread waits in its system call, and its buffer grows old, until data comes. */
static void reader(struct helper *helper)
{
    struct run *run = helper->shared;
    step("waits for data to come");
    read_all(run->io->stream[1], mirror_at(&run->io->to, run->target), run->count * PAGE);
}

static void waiting_reader(struct run *run, struct rng *rng)
{
    struct helper helper = { .run = reader, .shared = run, .rng = rng_make(rng_next(rng)) };
    uint8_t *source = region_at(&run->io->from, run->source);
    size_t length = run->count * PAGE;
    step("a reader that waits");
    helper_start(&helper, "reader", NULL);
    /* Meanwhile use other pages. */
    for (int i = 0; i < 60; i++) {
        size_t page = rng_below(rng, run->io->to.pages);
        if (page < run->target || page >= run->target + run->count)
            mirror_check(&run->io->to, page);
    }
    for (size_t done = 0; done < length;) {
        size_t n = rng_range(rng, 1, 3 * PAGE);
        n = n < length - done ? n : length - done;
        write_all(run->io->stream[0], source + done, n);
        done += n;
        if (rng_chance(rng, 20))
            usleep(200);
    }
    helper_join(&helper);
    arrived(run);
}

static void op(struct trial *trial)
{
    struct io *io = trial->state;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 8; i++) {
        struct run run = pick_run(io, rng);
        switch (rng_below(rng, 6)) {
        case 0:
            step("write and read over a pipe");
            ping_pong(&run, rng, io->pipe[1], io->pipe[0]);
            break;
        case 1:
            step("write and read over a socket");
            ping_pong(&run, rng, io->stream[0], io->stream[1]);
            break;
        case 2:
            vectors(&run, rng);
            break;
        case 3:
            through_file(&run, rng);
            break;
        case 4:
            spliced(&run, rng);
            break;
        default:
            waiting_reader(&run, rng);
        }
        step("between two transfers");
        region_churn(&io->from, rng, 10, 60);
        mirror_check(&io->to, rng_below(rng, io->to.pages));
    }
}

static void check(struct trial *trial)
{
    struct io *io = trial->state;
    region_check_all(&io->from);
    mirror_check_all(&io->to);
}

static void teardown(struct trial *trial)
{
    struct io *io = trial->state;
    region_drop(&io->from);
    mirror_drop(&io->to);
    for (int i = 0; i < 2; i++) {
        close(io->pipe[i]);
        close(io->stream[i]);
        close(io->packets[i]);
    }
    close(io->file);
    free(io);
}

TORTURE_CASE(io) = {
    .name = "io",
    .about = "read, write, readv, writev, sendmsg, recvmsg, splice, vmsplice out of and into old pages",
    .weight = 24,
    .share = 4,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
