/*
 * growth: stacks that the kernel extends by itself: the main stack of a new process, in deep recursion and
 * back, and mappings with MAP_GROWSDOWN, which still exist.
 */
#include "torture.h"
#include "stack.h"

#define GROWN_MOST 64 /* pages */

/* Far from where the kernel places mappings without a fixed address, which other threads may make at any
 * time: so nothing is mapped into the room below the mapping, or so near that the kernel stops its growth
 * (stack_guard_gap). */
#define AWAY ((uint8_t *)0x100000000000)

static void grows_down(struct rng *rng)
{
    const size_t room = ((size_t)64 << 20) + 2 * GROWN_MOST * PAGE;
    struct region region;
    step("a mapping that grows down");
    uint8_t *top = AWAY + room - PAGE;
    if (mmap(top, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0) != top)
        return;
    /* Page by page downwards: each touch is in the page below the mapping. */
    region_adopt(&region, top - (GROWN_MOST - 1) * PAGE, GROWN_MOST, rng);
    for (size_t page = GROWN_MOST; page-- > 0;) {
        if (rng_chance(rng, 50))
            zeros_check(region_at(&region, page), PAGE, "a page that a stack has grown by");
        region_write(&region, page, rng);
        if (rng_chance(rng, 30))
            region_check(&region, page + rng_below(rng, GROWN_MOST - page));
    }
    region_check_all(&region);
    region_churn(&region, rng, 200, 50);
    region_check_all(&region);
    region_drop(&region);
}

static int run_growth(const char *arg)
{
    struct rng rng = rng_make(arg ? strtoull(arg, NULL, 0) : 0);
    step("the main stack grows");
    for (int i = 0; i < 3; i++) {
        stack_dive(rng_next(&rng), (unsigned)rng_range(&rng, 50, 300), NULL, NULL);
        stack_big_frame(rng_next(&rng), rng_range(&rng, 100000, 2000000));
    }
    grows_down(&rng);
    return 0;
}
EXEC_MODE(run_growth, "growth")

static void op(struct trial *trial)
{
    struct child child;
    char seed[32];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)rng_next(&trial->rng));
    child_spawn(&child, "growth", seed);
    region_churn(trial->state, &trial->rng, 100, 30);
    child_expect(&child, 0);
}

TORTURE_CASE(growth) = {
    .name = "growth",
    .about = "the main stack of a fresh process and MAP_GROWSDOWN",
    .weight = 1,
    .share = 1,
    .flags = NOT_UNDER_ASAN, /* its frames are several times larger */
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
