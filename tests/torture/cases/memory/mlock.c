/*
 * mlock: old pages are locked, must then be resident (mincore tells) and right, and are unlocked again;
 * mlock2 with MLOCK_ONFAULT locks pages that are touched later; a program may lock everything when it
 * starts.
 */
#include "torture.h"

#include <fcntl.h>

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif
#define LOCKED_MOST 32 /* pages per trial: RLIMIT_MEMLOCK may be small */

struct locked {
    struct region region;
    size_t first, count; /* locked now, also between two operations */
    bool on_fault;
};

static _Atomic bool said;

/* Without CAP_IPC_LOCK a limit applies (RLIMIT_MEMLOCK) that others may have used up. */
static bool unlimited(void)
{
    char status[4096];
    unsigned long long capabilities = 0;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, status, sizeof status - 1) : 0;
    if (fd >= 0)
        close(fd);
    status[n > 0 ? n : 0] = 0;
    const char *line = strstr(status, "\nCapEff:");
    return line && sscanf(line + 8, "%llx", &capabilities) == 1 && (capabilities >> 14 & 1);
}

/* A program that locks all its current and future memory, so that no page of it may ever be evicted. */
static int run_lock_all(const char *arg)
{
    struct rng rng = rng_make(arg ? strtoull(arg, NULL, 0) : 0);
    struct region before, after;
    unsigned char resident[64];
    region_make(&before, 256, &rng);
    region_fill(&before, &rng);
    step("mlockall");
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        if (unlimited() || (errno != ENOMEM && errno != EPERM))
            fail_errno("mlockall");
        return 0;
    }
    region_make(&after, 64, &rng);
    for (int round = 0; round < 3; round++) {
        struct region *region = round % 2 ? &after : &before;
        must(mincore(region->base, 64 * PAGE, resident));
        for (size_t i = 0; i < 64; i++)
            if (!(resident[i] & 1) && !UNDER_ASAN)
                fail("  page at address %p is not resident in spite of mlockall", (void *)region_at(region, i));
        region_churn(region, &rng, 200, 50);
        region_check_all(region);
    }
    must(munlockall());
    region_churn(&before, &rng, 200, 50);
    region_check_all(&before);
    region_check_all(&after);
    return 0;
}
EXEC_MODE(run_lock_all, "lock-all")

static void setup(struct trial *trial)
{
    struct locked *locked = trial_alloc(trial, sizeof *locked);
    region_make(&locked->region, trial_pages(trial, 64), &trial->rng);
    region_fill(&locked->region, &trial->rng);
}

/* Under AddressSanitizer mlock and its relatives do nothing, so there is nothing to check. */
static void check_resident(struct locked *locked)
{
    if (UNDER_ASAN)
        return;
    unsigned char resident[LOCKED_MOST];
    must(mincore(region_at(&locked->region, locked->first), locked->count * PAGE, resident));
    for (size_t i = 0; i < locked->count; i++)
        if (!(resident[i] & 1))
            fail("  page at address %p is locked but not resident",
                 (void *)region_at(&locked->region, locked->first + i));
}

static void op(struct trial *trial)
{
    struct locked *locked = trial->state;
    struct region *region = &locked->region;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 4; i++) {
        if (locked->count) {
            step("locked pages");
            if (!locked->on_fault)
                check_resident(locked);
            region_check_run(region, locked->first, locked->count);
            for (size_t k = 0; k < locked->count; k++)
                if (rng_chance(rng, 30))
                    region_write(region, locked->first + k, rng);
            check_resident(locked);
            if (rng_chance(rng, 50)) {
                step("munlock");
                must(munlock(region_at(region, locked->first), locked->count * PAGE));
                locked->count = 0;
            }
        } else {
            step("mlock of old pages");
            locked->count = rng_range(rng, 1, LOCKED_MOST);
            locked->first = rng_below(rng, region->pages - locked->count + 1);
            locked->on_fault = rng_chance(rng, 30);
            void *at = region_at(region, locked->first);
            int result = locked->on_fault ? mlock2(at, locked->count * PAGE, MLOCK_ONFAULT)
                                          : mlock(at, locked->count * PAGE);
            if (result != 0 && (errno == ENOMEM || errno == EPERM || errno == EAGAIN) && !unlimited()) {
                say_skipped(&said, "mlock: the limit of locked memory is reached (ulimit -l)");
                locked->count = 0;
            } else if (result != 0) {
                fail_errno("mlock of %zu pages at %p", locked->count, at);
            } else if (!locked->on_fault) {
                check_resident(locked);
            }
        }
        region_churn(region, rng, 40, 40);
    }
    if (rng_chance(rng, 4)) {
        struct child child;
        char seed[32];
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)rng_next(rng));
        child_spawn(&child, "lock-all", seed);
        child_expect(&child, 0);
    }
}

static void check(struct trial *trial)
{
    struct locked *locked = trial->state;
    region_check_all(&locked->region);
}

static void teardown(struct trial *trial)
{
    struct locked *locked = trial->state;
    region_drop(&locked->region);
    free(locked);
}

TORTURE_CASE(mlock) = {
    .name = "mlock",
    .about = "mlock, mlock2 and munlock of old pages, which must then be resident",
    .weight = 10,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
