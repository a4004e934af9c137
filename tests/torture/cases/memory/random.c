/*
 * random: the big regions, half of the memory. Reads, writes and single-word patches in typical orders of
 * programs: uniform, sweeps up and down, strides, a hot set. It is a case of its own, and it also makes the
 * memory of all other cases old.
 */
#include "torture.h"

struct random {
    struct region region;
    size_t sweep; /* where the next sweep continues */
};

static void setup(struct trial *trial)
{
    struct random *random = trial_alloc(trial, sizeof *random);
    region_make(&random->region, trial_pages(trial, 64), &trial->rng);
    region_fill(&random->region, &trial->rng);
}

/*
 * --sabotage: does once on purpose what broken paging would do, so that a test of this program can see
 * whether it is found.
 */
static void sabotage(struct region *region, struct rng *rng)
{
    static _Atomic bool done;
    size_t page = rng_below(rng, region->pages);
    struct page_key key = region_key(region, page);
    uint64_t made[PAGE_WORDS];
    /* On a page of zeros most kinds of damage would not show. */
    uint64_t empty[PAGE_WORDS] = { 0 };
    page_make(made, key);
    if (memcmp(made, empty, PAGE) == 0 || atomic_exchange(&done, true))
        return;
    if (strcmp(options.sabotage, "flip") == 0) {
        region_at(region, page)[rng_below(rng, PAGE)] ^= 0x10;
    } else if (strcmp(options.sabotage, "zero") == 0) {
        memset(region_at(region, page), 0, PAGE);
    } else if (strcmp(options.sabotage, "stale") == 0) {
        do
            region_next(region, page, made);
        while (memcmp(made, empty, PAGE) == 0);
    } else if (strcmp(options.sabotage, "lost") == 0) {
        region_patch(region, page);
        key = region_key(region, page);
        page_make(made, (struct page_key){ key.region, key.page, key.version, key.patches ? key.patches - 1 : 0 });
        memcpy(region_at(region, page), made, PAGE);
    } else {
        step("hangs on purpose");
        for (;;)
            pause();
    }
}

static void op(struct trial *trial)
{
    struct random *random = trial->state;
    struct region *region = &random->region;
    struct rng *rng = &trial->rng;
    size_t pages = region->pages, page;

    if (options.sabotage && trial->ops > 3)
        sabotage(region, rng);
    switch (rng_below(rng, 6)) {
    case 0:
        step("uniform");
        region_churn(region, rng, 200, 30);
        break;
    case 1:
        step("sweep up");
        for (size_t i = 0; i < 400; i++) {
            region_check(region, random->sweep);
            if (rng_chance(rng, 10))
                region_patch(region, random->sweep);
            random->sweep = (random->sweep + 1) % pages;
        }
        break;
    case 2:
        step("sweep down");
        for (size_t i = 0; i < 400; i++) {
            random->sweep = (random->sweep + pages - 1) % pages;
            region_check(region, random->sweep);
        }
        break;
    case 3:
        step("stride");
        page = rng_below(rng, pages);
        for (size_t i = 0, stride = rng_range(rng, 2, 17); i < 200; i++) {
            region_check(region, page);
            page = (page + stride) % pages;
        }
        break;
    case 4:
        step("overwrite a run");
        /* Blind writes: to pages that were not read since they grew old. */
        page = rng_below(rng, pages);
        for (size_t i = 0; i < 100; i++)
            region_write(region, (page + i) % pages, rng);
        break;
    default:
        step("hot set");
        page = rng_below(rng, pages);
        for (size_t i = 0; i < 300; i++)
            if (rng_chance(rng, 20))
                region_patch(region, (page + rng_below(rng, 16)) % pages);
            else
                region_check(region, (page + rng_below(rng, 16)) % pages);
    }
}

static void check(struct trial *trial)
{
    struct random *random = trial->state;
    region_check_all(&random->region);
}

static void teardown(struct trial *trial)
{
    struct random *random = trial->state;
    region_drop(&random->region);
    free(random);
}

TORTURE_CASE(random) = {
    .name = "random",
    .about = "reads, writes and patches over big regions, in many orders",
    .weight = 0, /* chosen by --pressure */
    .share = 0,  /* half of the memory */
    .instances = 24,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
