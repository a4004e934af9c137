/*
 * huge: memory for which huge pages are requested (MADV_HUGEPAGE), and parts of which are then discarded,
 * protected, unmapped in the middle, forked, or collapsed (MADV_COLLAPSE).
 */
#include "torture.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE ((size_t)2 << 20)

struct huge {
    struct region region;
    uint8_t *mapping;
    size_t length;
};

static void begin(struct huge *huge, size_t blocks, struct rng *rng)
{
    huge->length = (blocks + 1) * HUGE;
    huge->mapping = must(mmap(NULL, huge->length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    uint8_t *aligned = (uint8_t *)(((uintptr_t)huge->mapping + HUGE - 1) & ~(HUGE - 1));
    /* A kernel without huge pages refuses; then these are plain pages, which is fine. */
    if (madvise(aligned, blocks * HUGE, MADV_HUGEPAGE) != 0 && errno != EINVAL)
        fail_errno("MADV_HUGEPAGE");
    region_adopt(&huge->region, aligned, blocks * HUGE / PAGE, rng);
    for (size_t page = 0; page < huge->region.pages; page += rng_range(rng, 1, 3))
        region_write(&huge->region, page, rng);
}

static void setup(struct trial *trial)
{
    size_t blocks = trial->bytes / HUGE;
    begin(trial_alloc(trial, sizeof(struct huge)), blocks < 2 ? 2 : blocks, &trial->rng);
}

static void op(struct trial *trial)
{
    struct huge *huge = trial->state;
    struct region *region = &huge->region;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 4; i++) {
        size_t count = rng_chance(rng, 20) ? HUGE / PAGE : rng_range(rng, 1, 64);
        size_t page = rng_below(rng, region->pages - count + 1);
        if (count == HUGE / PAGE)
            page &= ~(HUGE / PAGE - 1);
        uint8_t *at = region_at(region, page), *block = (uint8_t *)((uintptr_t)at & ~(HUGE - 1));
        switch (rng_below(rng, 6)) {
        case 0:
            step("DONTNEED in huge pages");
            must(madvise(at, count * PAGE, MADV_DONTNEED));
            region_zeroed(region, page, count);
            region_check_run(region, page, count);
            break;
        case 1:
            step("mprotect in huge pages");
            must(mprotect(at, count * PAGE, PROT_READ));
            region_check_run(region, page, count);
            must(mprotect(at, count * PAGE, PROT_READ | PROT_WRITE));
            break;
        case 2:
            step("MADV_COLLAPSE");
            /* This may fail for many good reasons; the contents must stay in any case. */
            (void)madvise(block, HUGE, MADV_COLLAPSE);
            break;
        case 3:
            step("MAP_FIXED into huge pages");
            must(mmap(at, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
            region_zeroed(region, page, count);
            (void)madvise(block, HUGE, MADV_HUGEPAGE);
            break;
        case 4:
            step("huge pages off and on");
            (void)madvise(block, HUGE, MADV_NOHUGEPAGE);
            region_churn(region, rng, 30, 50);
            (void)madvise(block, HUGE, MADV_HUGEPAGE);
            break;
        default:
            step("writes all over huge pages");
            for (size_t k = 0; k < count; k++)
                region_write(region, page + k, rng);
        }
        region_churn(region, rng, 60, 40);
    }
    if (rng_chance(rng, 10)) {
        struct child child;
        if (child_fork(&child, "huge-child")) {
            region_churn(region, rng, 100, 50);
            region_check_all(region);
            child_end();
        }
        region_churn(region, rng, 100, 50);
        child_expect(&child, 0);
    }
    if (rng_chance(rng, 3)) {
        size_t blocks = region->pages * PAGE / HUGE;
        step("new huge pages");
        region_check_all(region);
        must(munmap(huge->mapping, huge->length));
        region_abandon(region);
        begin(huge, blocks, rng);
    }
}

static void check(struct trial *trial)
{
    struct huge *huge = trial->state;
    region_check_all(&huge->region);
}

static void teardown(struct trial *trial)
{
    struct huge *huge = trial->state;
    must(munmap(huge->mapping, huge->length));
    region_abandon(&huge->region);
    free(huge);
}

TORTURE_CASE(huge) = {
    .name = "huge",
    .about = "MADV_HUGEPAGE memory, in pieces, collapsed, forked",
    .weight = 8,
    .share = 6,
    .instances = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
