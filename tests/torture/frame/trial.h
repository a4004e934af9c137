/*
 * Cases and trials. A case is one way of using memory; a trial is one case with memory of its own.
 *
 * A worker takes a free trial at random, does one operation on it and releases it. So the memory of a trial
 * rests between two operations (it becomes old), and moves from thread to thread. A worker that forks may
 * freeze further trials: no other worker changes them meanwhile, so the child can verify them all.
 */
#ifndef TORTURE_TRIAL_H
#define TORTURE_TRIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

struct trial;

enum case_flags {
    OFF_BY_DEFAULT = 1, /* only when named by --only */
    NOT_UNDER_ASAN = 2, /* does something that the sanitizer's runtime does not survive */
    NEEDS_ROOT = 4,
};

struct torture_case {
    const char *name;
    const char *about;
    unsigned weight;    /* how often, compared with others */
    unsigned share;     /* how much of the memory, compared with others */
    unsigned instances; /* trials of this case; 0: half as many as threads, at least two */
    unsigned flags;
    /* Makes trial->state, or prints why not and sets trial->skipped. */
    void (*setup)(struct trial *trial);
    /* One operation, some milliseconds. */
    void (*op)(struct trial *trial);
    /* Verifies everything and changes nothing. */
    void (*check)(struct trial *trial);
    void (*teardown)(struct trial *trial);
};

struct trial {
    const struct torture_case *kind;
    unsigned index;
    size_t bytes; /* memory it should use */
    struct rng rng;
    void *state;
    bool skipped;
    _Atomic bool taken;
    uint64_t ops;
};

void case_add(const struct torture_case *kind);
#define TORTURE_CASE(id)                                                                           \
    static const struct torture_case case_##id;                                                    \
    __attribute__((constructor)) static void case_add_##id(void)                                   \
    {                                                                                              \
        case_add(&case_##id);                                                                      \
    }                                                                                              \
    static const struct torture_case case_##id

/* Prints the cases; makes the trials of those in `only` (a comma list; NULL: the default set). */
void cases_list(void);
void trials_make(const char *only);

/* Takes a free trial; releases it; runs one operation on it. */
struct trial *trial_take(struct rng *rng);
void trial_release(struct trial *trial);
void trial_op(struct trial *trial);

/* Takes up to `most` resting trials, so that no other worker changes them. */
#define FREEZE_MOST 16
struct frozen {
    struct trial *trials[FREEZE_MOST];
    unsigned count;
};
void trials_freeze(struct frozen *frozen, unsigned most, struct rng *rng);
void trials_thaw(struct frozen *frozen);
void trials_check(struct frozen *frozen);

/* At the end, in one thread: verifies all remaining trials and frees them. */
void trials_finish(void);

/* Zeroed memory for a trial's state. */
void *trial_alloc(struct trial *trial, size_t size);
static inline size_t trial_pages(const struct trial *trial, size_t least)
{
    size_t pages = trial->bytes / 4096;
    return pages < least ? least : pages;
}

/* For cases whose state is one region. */
void one_region_make(struct trial *trial);
void one_region_check(struct trial *trial);
void one_region_drop(struct trial *trial);

#endif
