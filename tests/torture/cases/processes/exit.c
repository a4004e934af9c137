/*
 * exit: processes that end in every possible way while their threads are busy with old memory. The status
 * must be the usual one, and nothing may hang.
 */
#include "torture.h"

#include <signal.h>

#define BUSY 3

enum how {
    BY_EXIT,         /* exit(3) */
    BY_QUICK_EXIT,   /* _exit(4) */
    BY_ABORT,        /* abort() */
    BY_SIGTERM,      /* raise(SIGTERM) */
    BY_THREAD_EXIT,  /* exit(6) from another thread */
    BY_LAST_THREAD,  /* pthread_exit of the first thread; the last one to end ends the process */
    BY_SEGV,         /* a real one */
    BY_KILL,         /* kill -9 from outside */
    HOWS
};

static const struct {
    int exit_status, signal;
    const char *name;
} endings[HOWS] = {
    { 3, 0, "exit" },
    { 4, 0, "_exit" },
    { 0, SIGABRT, "abort" },
    { 0, SIGTERM, "SIGTERM" },
    { 6, 0, "exit from a thread" },
    { 0, 0, "end of the last thread" },
    { 0, SIGSEGV, "SIGSEGV" },
    { 0, SIGKILL, "kill -9" },
};

struct busy {
    struct region regions[BUSY];
    struct helper helpers[BUSY];
    enum how how;
    _Atomic bool stop;
};

static void keep_busy(struct helper *helper)
{
    struct busy *busy = helper->shared;
    struct region *region = &busy->regions[helper->index];
    step("busy until the end");
    while (!atomic_load(&busy->stop)) {
        region_churn(region, &helper->rng, 50, 50);
        must(madvise(region_at(region, 0), 4 * PAGE, MADV_DONTNEED));
        region_zeroed(region, 0, 4);
        if (helper->index == 1 && busy->how == BY_THREAD_EXIT && rng_chance(&helper->rng, 10))
            exit(6);
    }
    region_check_all(region);
}

static _Noreturn void end_busily(enum how how, uint64_t seed)
{
    struct rng rng = rng_make(seed);
    struct busy *busy = calloc(1, sizeof *busy);
    if (busy == NULL)
        fail_errno("calloc");
    busy->how = how;
    for (unsigned i = 0; i < BUSY; i++) {
        region_make(&busy->regions[i], 128, &rng);
        region_fill(&busy->regions[i], &rng);
        busy->helpers[i] = (struct helper){ .run = keep_busy, .shared = busy, .index = i,
                                            .rng = rng_make(rng_next(&rng)) };
        helper_start(&busy->helpers[i], "busy", NULL);
    }
    usleep((unsigned)rng_below(&rng, 15000));
    step(endings[how].name);
    switch (how) {
    case BY_EXIT:
        exit(3);
    case BY_QUICK_EXIT:
        _exit(4);
    case BY_ABORT:
        abort();
    case BY_SIGTERM:
        raise(SIGTERM);
        break;
    case BY_LAST_THREAD:
        atomic_store(&busy->stop, true);
        pthread_exit(NULL);
    case BY_SEGV:
        signal(SIGSEGV, SIG_DFL);
        *(volatile uint8_t *)must(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
        break;
    default:
        break;
    }
    /* Another thread or the parent ends this process. */
    for (;;) {
        move_on();
        usleep(100000);
    }
}

static int run_busy(const char *arg)
{
    unsigned how = 0;
    unsigned long long seed = 0;
    if (arg == NULL || sscanf(arg, "%u:%llu", &how, &seed) != 2 || how >= HOWS)
        fail("bad --arg of the busy mode");
    end_busily((enum how)how, seed);
}
EXEC_MODE(run_busy, "busy")

static void op(struct trial *trial)
{
    struct rng *rng = &trial->rng;
    enum how how = (enum how)rng_below(rng, HOWS);
    uint64_t seed = rng_next(rng);
    struct child child;
    /* Forked from this busy process, or newly started. */
    if (!UNDER_ASAN && rng_chance(rng, 60)) {
        if (child_fork(&child, "exit-child")) {
            region_churn(trial->state, rng, 20, 80);
            end_busily(how, seed);
        }
    } else {
        char arg[48];
        snprintf(arg, sizeof arg, "%u:%llu", how, (unsigned long long)seed);
        child_spawn(&child, "busy", arg);
    }
    region_churn(trial->state, rng, 50, 50);
    if (how == BY_KILL) {
        usleep((unsigned)rng_below(rng, 30000));
        step("kill -9");
        must(kill(child.pid, SIGKILL));
    }
    if (endings[how].signal)
        child_expect_signal(&child, endings[how].signal);
    else
        child_expect(&child, endings[how].exit_status);
    region_check_all(trial->state);
}

TORTURE_CASE(exit) = {
    .name = "exit",
    .about = "exit, abort, signals and kill -9 in the middle of everything, with their statuses",
    .weight = 4,
    .share = 1,
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
