/*
 * torture: an ordinary Linux program that uses memory in every possible way and checks every byte. It knows
 * nothing of paging: it must pass when run plainly, and whatever evicts its pages must restore the same
 * bytes.
 *
 * The parts, bottom up:
 *
 *   pages/rng.h      one small generator; every choice of the program comes from --seed
 *   frame/board.h    shared memory with one slot per thread: where it is and whether it moves
 *   frame/fail.h     the exact description of what went wrong
 *   pages/page.h     the bytes a page must hold, derived from (seed, region, page, version, patches)
 *   pages/region.h   a run of pages with their expected contents
 *   frame/child.h    fork, spawn and wait with a watch on the child
 *   frame/faults.h   SIGSEGV where it belongs, and a failure where it does not
 *   frame/team.h     helper threads of a case
 *   frame/trial.h    the cases, their state, and who may use it when
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "rng.h"
#include "board.h"
#include "fail.h"
#include "page.h"
#include "region.h"
#include "child.h"
#include "faults.h"
#include "team.h"
#include "trial.h"

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

/* The options on the command line. */
struct options {
    uint64_t seed;
    unsigned seconds;
    unsigned threads;
    unsigned watchdog;  /* seconds without movement that count as a hang */
    unsigned pressure;  /* percent of the operations that go over the big regions */
    unsigned random;    /* percent of the pages that do not compress */
    size_t memory;
    bool halt;          /* stop at a failure, so that a debugger can look */
    const char *sabotage; /* damage done on purpose, to see that it is found; NULL: none */
    char dir[256];      /* for files */
    char self[256];     /* path of this program, for exec */
};
extern struct options options;

#endif
