/*
 * neighbours: four threads in one mapping. Each owns every fourth stripe of a few pages; it discards,
 * maps, protects, moves and writes its stripes while the others do the same with the adjacent ones.
 */
#include "torture.h"

#define OWNERS 4

struct stripes {
    struct region region;
    size_t width; /* pages in a stripe */
};

static void setup(struct trial *trial)
{
    struct stripes *stripes = trial_alloc(trial, sizeof *stripes);
    stripes->width = 1 + trial->index % 3;
    region_make(&stripes->region, trial_pages(trial, 96), &trial->rng);
    region_fill(&stripes->region, &trial->rng);
}

static void owner(struct helper *helper)
{
    struct stripes *stripes = helper->shared;
    struct region *region = &stripes->region;
    struct rng *rng = &helper->rng;
    size_t count = region->pages / stripes->width / OWNERS;
    for (int i = 0; i < 120; i++) {
        size_t page = (rng_below(rng, count) * OWNERS + helper->index) * stripes->width;
        uint8_t *at = region_at(region, page);
        size_t length = stripes->width * PAGE;
        region_check_run(region, page, stripes->width);
        switch (rng_below(rng, 6)) {
        case 0:
            step("DONTNEED beside others");
            must(madvise(at, length, MADV_DONTNEED));
            region_zeroed(region, page, stripes->width);
            break;
        case 1:
            step("MAP_FIXED beside others");
            must(mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
            region_zeroed(region, page, stripes->width);
            break;
        case 2:
            step("mprotect beside others");
            must(mprotect(at, length, PROT_NONE));
            if (!faults_on_read(at))
                fail("a read of a PROT_NONE page at %p did not fault", (void *)at);
            must(mprotect(at, length, PROT_READ));
            region_check_run(region, page, stripes->width);
            must(mprotect(at, length, PROT_READ | PROT_WRITE));
            break;
        case 3: {
            /* The stripe moves away and back. DONTUNMAP keeps its addresses reserved meanwhile. */
            step("mremap beside others");
            void *away = mremap(at, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
            if (away == MAP_FAILED)
                fail_errno("mremap with DONTUNMAP");
            zeros_check(at, length, "the range that MREMAP_DONTUNMAP leaves mapped");
            if (mremap(away, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
                fail_errno("mremap back");
            break;
        }
        default:
            step("writes beside others");
            for (size_t k = 0; k < stripes->width; k++)
                region_write(region, page + k, rng);
        }
        region_check_run(region, page, stripes->width);
        if (rng_chance(rng, 50))
            region_patch(region, page);
    }
}

static void op(struct trial *trial)
{
    team_run(OWNERS, "neighbour", &trial->rng, owner, trial->state);
}

static void check(struct trial *trial)
{
    struct stripes *stripes = trial->state;
    region_check_all(&stripes->region);
}

static void teardown(struct trial *trial)
{
    struct stripes *stripes = trial->state;
    region_drop(&stripes->region);
    free(stripes);
}

TORTURE_CASE(neighbours) = {
    .name = "neighbours",
    .about = "threads that discard, map, protect and move adjacent stripes of one mapping",
    .weight = 12,
    .share = 3,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
