/*
 * Two processes that send each other messages by process_vm_writev, as the ranks of an MPI program do on one
 * machine. Each fills a buffer of its own, both write at the same time into the other's memory, and each then looks at
 * every word that it got. A write that was lost shows as the contents of the round before.
 *
 * exchange MIB ROUNDS     each process has two buffers of so many MiB
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, MESSAGE = 256 * PAGE };

struct meeting {
    _Atomic uint32_t arrived[2]; /* rounds that this side has come to */
    char *inbox[2];
    _Atomic uint32_t wrong;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    return x * 0xc4ceb9fe1a85ec53ull;
}

/* A sixth of it does not compress; the rest counts. */
static uint64_t word(uint64_t key, int i)
{
    return i % 6 ? key + i : mix(key * WORDS + i);
}

static uint64_t key_of(int side, unsigned round, size_t page)
{
    return ((uint64_t)side << 60) + ((uint64_t)round << 40) + page * WORDS;
}

static void meet(struct meeting *meeting, int side, unsigned when)
{
    meeting->arrived[side] = when;
    while (meeting->arrived[!side] < when)
        usleep(100);
}

static char *buffer(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return at;
}

static void run(struct meeting *meeting, int side, pid_t other, size_t bytes, unsigned rounds)
{
    char *outbox = buffer(bytes);
    meeting->inbox[side] = buffer(bytes);
    unsigned when = 0;
    meet(meeting, side, ++when);
    for (unsigned round = 1; round <= rounds; round++) {
        for (size_t page = 0; page < bytes / PAGE; page++)
            for (int i = 0; i < WORDS; i++)
                ((uint64_t *)(outbox + page * PAGE))[i] = word(key_of(side, round, page), i);
        meet(meeting, side, ++when);
        for (size_t at = 0; at < bytes; at += MESSAGE) {
            struct iovec here = { outbox + at, MESSAGE }, there = { meeting->inbox[!side] + at, MESSAGE };
            ssize_t sent = process_vm_writev(other, &here, 1, &there, 1, 0);
            if (sent != MESSAGE) {
                fprintf(stderr, "process_vm_writev gave %zd: %s\n", sent, strerror(errno));
                exit(errno == EPERM || errno == ENOSYS ? 77 : 3);
            }
        }
        meet(meeting, side, ++when);
        for (size_t page = 0; page < bytes / PAGE; page++) {
            const uint64_t *got = (const uint64_t *)(meeting->inbox[side] + page * PAGE);
            for (int i = 0; i < WORDS; i++)
                if (got[i] != word(key_of(!side, round, page), i)) {
                    meeting->wrong++;
                    break;
                }
        }
        meet(meeting, side, ++when);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t bytes = strtoul(argv[1], NULL, 10) << 20;
    unsigned rounds = (unsigned)strtoul(argv[2], NULL, 10);
    struct meeting *meeting = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    /* A child may write to its parent where only descendants may be traced. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0);
        run(meeting, 1, parent, bytes, rounds);
        _exit(0);
    }
    run(meeting, 0, child, bytes, rounds);
    int status = 0;
    waitpid(child, &status, 0);
    printf("wrong pages: %u\n", meeting->wrong);
    return meeting->wrong != 0 || status != 0;
}
