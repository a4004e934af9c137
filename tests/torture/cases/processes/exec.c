/*
 * exec: a forked child, or a second thread of it, executes another program in the middle of memory work;
 * that program makes memory of its own, forks, and executes another one again.
 */
#include "torture.h"

static void become(struct helper *helper)
{
    child_exec(helper->shared, "memory", "1");
}

/* The started program: memory work, a fork, and for depth > 0 the same again. */
static int run_memory(const char *arg)
{
    int depth = arg ? atoi(arg) : 0;
    struct rng rng = rng_make(options.seed ^ mix64((uint64_t)getpid() + (uint64_t)depth));
    struct region region;
    struct child child;
    char deeper[16];
    /* Under a small limit this is enough to be evicted, and little enough for many such children. */
    region_make(&region, 384, &rng);
    region_fill(&region, &rng);
    region_churn(&region, &rng, 200, 50);
    if (child_fork(&child, "exec-fork")) {
        region_churn(&region, &rng, 100, 50);
        region_check_all(&region);
        child_end();
    }
    region_churn(&region, &rng, 100, 50);
    child_expect(&child, 0);
    region_check_all(&region);
    if (depth <= 0)
        return 0;
    snprintf(deeper, sizeof deeper, "%d", depth - 1);
    child_exec(me, "memory", deeper);
}
EXEC_MODE(run_memory, "memory")

static void op(struct trial *trial)
{
    struct region *region = trial->state;
    struct rng *rng = &trial->rng;
    struct child child;
    unsigned how = (unsigned)rng_below(rng, 3);
    if (how == 0) {
        child_spawn(&child, "memory", "2");
    } else if (child_fork(&child, "exec-child")) {
        region_churn(region, rng, 100, 50);
        if (how == 1 || UNDER_ASAN)
            child_exec(me, "memory", "1");
        /* exec by a second thread, which ends the first one without warning. */
        struct helper helper = { .run = become, .shared = me };
        helper_start(&helper, "exec-thread", NULL);
        for (;;)
            region_churn(region, rng, 100, 50);
    }
    region_churn(region, rng, 200, 30);
    child_expect(&child, 0);
}

TORTURE_CASE(exec) = {
    .name = "exec",
    .about = "exec in the middle of memory work, by any thread, again and again",
    .weight = 2,
    .share = 1,
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
