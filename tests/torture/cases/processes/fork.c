/*
 * fork: child and parent both verify everything that they share and continue writing, while the other
 * threads of the parent are busy. The child also has resting trials of other cases and verifies them; it
 * forks again, and starts threads of its own.
 */
#include "torture.h"

struct family {
    struct region region;
};

static void setup(struct trial *trial)
{
    struct family *family = trial_alloc(trial, sizeof *family);
    region_make(&family->region, trial_pages(trial, 64), &trial->rng);
    region_fill(&family->region, &trial->rng);
}

/* Each thread of the child owns every fourth page. */
static void child_thread(struct helper *helper)
{
    struct family *family = helper->shared;
    for (int i = 0; i < 150; i++) {
        size_t page = rng_below(&helper->rng, family->region.pages / 4) * 4 + helper->index;
        region_check(&family->region, page);
        if (rng_chance(&helper->rng, 50))
            region_write(&family->region, page, &helper->rng);
        else
            region_patch(&family->region, page);
    }
}

static void live(struct trial *trial, struct family *family, struct frozen *frozen,
                 unsigned generation)
{
    struct rng *rng = &trial->rng;
    step("child: changes before checking");
    /* The first action of a child may be a write to a page that is shared and evicted. */
    region_churn(&family->region, rng, 30, 80);
    trials_check(frozen);
    step("child: checks its own");
    region_check_all(&family->region);
    if (generation < 3 && rng_chance(rng, 35)) {
        struct child child;
        struct slot *own = me;
        if (child_fork(&child, "grandchild")) {
            live(trial, family, frozen, generation + 1);
            child_end();
        }
        if (me != own)
            fail("the slot of this thread changed over fork");
        region_churn(&family->region, rng, 30, 50);
        child_expect(&child, 0);
    }
    /* The sanitizer's runtime does not support threads in a forked child of a threaded process. */
    if (!UNDER_ASAN && rng_chance(rng, 50)) {
        step("child: threads of its own");
        team_run(4, "child-thread", rng, child_thread, family);
    }
    step("child: goes on");
    region_churn(&family->region, rng, 100, 50);
    void *fresh = malloc(300000);
    if (fresh == NULL)
        fail_errno("malloc in a forked child");
    bytes_make(fresh, 300000, 1, 1);
    region_check_all(&family->region);
    bytes_check(fresh, 300000, 1, 1);
    free(fresh);
}

static void op(struct trial *trial)
{
    struct family *family = trial->state;
    struct rng *rng = &trial->rng;
    struct frozen frozen;
    struct child children[3];
    unsigned count = (unsigned)rng_range(rng, 1, 3);

    trials_freeze(&frozen, (unsigned)rng_below(rng, 8), rng);
    for (unsigned i = 0; i < count; i++) {
        if (child_fork(&children[i], "fork-child")) {
            /* Siblings must not make the same choices. */
            trial->rng = rng_make(rng_next(rng) + i);
            live(trial, family, &frozen, 1);
            child_end();
        }
        step("parent: goes on writing");
        region_churn(&family->region, rng, 40, 60);
    }
    trials_thaw(&frozen);
    region_check_all(&family->region);
    for (unsigned i = 0; i < count; i++)
        child_expect(&children[i], 0);
    step("parent: checks after the children ended");
    region_check_all(&family->region);
}

static void check(struct trial *trial)
{
    struct family *family = trial->state;
    region_check_all(&family->region);
}

static void teardown(struct trial *trial)
{
    struct family *family = trial->state;
    region_drop(&family->region);
    free(family);
}

TORTURE_CASE(fork) = {
    .name = "fork",
    .about = "children and grandchildren that verify and go on writing, also with threads",
    .weight = 3,
    .share = 4,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
