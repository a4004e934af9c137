/* Helper threads of a case: each has a slot on the board and makes its own choices. */
#ifndef TORTURE_TEAM_H
#define TORTURE_TEAM_H

#include <pthread.h>

#include "board.h"
#include "rng.h"

#define TEAM_MOST 16

struct helper {
    pthread_t thread;
    struct slot *slot;
    void (*run)(struct helper *helper);
    void *shared;   /* of the whole team */
    unsigned index; /* of this one */
    struct rng rng;
    void *result;
};

/* Starts one helper (attr may be NULL); waits for it, and moves as it moves. */
void helper_start(struct helper *helper, const char *name, const pthread_attr_t *attr);
void *helper_join(struct helper *helper);

/* Starts `count` helpers on the same work and waits for all. */
void team_run(unsigned count, const char *name, struct rng *rng, void (*run)(struct helper *),
              void *shared);

/* Joins any thread, and moves as `slot` moves. Returns the thread's result. */
void *thread_join(pthread_t thread, struct slot *slot);

#endif
