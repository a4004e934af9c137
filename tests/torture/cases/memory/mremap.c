/*
 * mremap: the program moves its memory itself: growing, shrinking, moving to an address of its choice,
 * leaving an empty mapping behind (MREMAP_DONTUNMAP), and exchanging runs of pages between two regions.
 */
#include "torture.h"

#define REGIONS 4

struct moves {
    struct region regions[REGIONS];
    /* Made of runs from other regions: to the kernel these are several mappings, which mremap refuses. */
    bool pieced[REGIONS];
    size_t most;
};

static void setup(struct trial *trial)
{
    struct moves *moves = trial_alloc(trial, sizeof *moves);
    moves->most = trial_pages(trial, 128) / REGIONS;
    for (int i = 0; i < REGIONS; i++) {
        region_make(&moves->regions[i], moves->most / 2, &trial->rng);
        region_fill(&moves->regions[i], &trial->rng);
    }
}

static void resize(struct moves *moves, struct region *region, struct rng *rng)
{
    size_t before = region->pages, pages = rng_range(rng, 4, moves->most);
    int flags = rng_chance(rng, 80) ? MREMAP_MAYMOVE : 0;
    step(pages > before ? "mremap grows" : "mremap shrinks");
    void *at = mremap(region->base, before * PAGE, pages * PAGE, flags);
    if (at == MAP_FAILED) {
        /* Without MAYMOVE there may be no room after the mapping. */
        if (flags == 0 && errno == ENOMEM)
            return;
        fail_errno("mremap from %zu to %zu pages", before, pages);
    }
    region_resize(region, at, pages);
    if (pages > before) {
        region_check_run(region, before, pages - before);
        for (size_t page = before; page < pages; page++)
            if (rng_chance(rng, 70))
                region_write(region, page, rng);
    }
}

static void *reserve(size_t pages)
{
    return must(mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

static void move_whole(struct region *region, struct rng *rng)
{
    void *to = reserve(region->pages);
    step("mremap to a chosen place");
    void *at = mremap(region->base, region->pages * PAGE, region->pages * PAGE,
                      MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (at != to)
        fail_errno("mremap to %p gave %p", to, at);
    region_resize(region, at, region->pages);
    region_churn(region, rng, 20, 50);
}

/* The old place stays mapped and must be empty; the data are at the new one. */
static void leave_behind(struct region *region, struct rng *rng)
{
    uint8_t *old = region->base;
    size_t pages = region->pages;
    int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    void *at;
    step("mremap with DONTUNMAP");
    if (rng_chance(rng, 50)) {
        void *to = reserve(pages);
        at = mremap(old, pages * PAGE, pages * PAGE, flags | MREMAP_FIXED, to);
    } else {
        /* The kernel looks at the fifth argument even without MREMAP_FIXED, so it must be given. */
        at = mremap(old, pages * PAGE, pages * PAGE, flags, NULL);
    }
    if (at == MAP_FAILED)
        fail_errno("mremap with DONTUNMAP of %zu pages", pages);
    region_resize(region, at, pages);
    step("DONTUNMAP: the old place");
    if (rng_chance(rng, 50))
        zeros_check(old, pages * PAGE, "the range that MREMAP_DONTUNMAP leaves mapped");
    /* Use the old place as new memory: each place must keep its own bytes. */
    struct region other;
    region_adopt(&other, old, pages, rng);
    region_churn(&other, rng, 40, 80);
    step("DONTUNMAP: the new place");
    region_check_all(region);
    region_check_all(&other);
    if (rng_chance(rng, 50)) {
        region_drop(&other);
    } else {
        region_drop(region);
        *region = other;
    }
}

/* Two runs of equal length change places, by way of a third; the holes stay mapped meanwhile. */
static void exchange(struct moves *moves, struct rng *rng)
{
    struct region *one = &moves->regions[0], *two = &moves->regions[1];
    size_t most = one->pages < two->pages ? one->pages : two->pages;
    size_t count = rng_range(rng, 1, most < 32 ? most : 32), length = count * PAGE;
    size_t a = rng_below(rng, one->pages - count + 1), b = rng_below(rng, two->pages - count + 1);
    uint8_t *at_a = region_at(one, a), *at_b = region_at(two, b), *between = reserve(count);
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;

    step("exchange of two runs");
    if (mremap(at_a, length, length, flags | MREMAP_DONTUNMAP, between) != between ||
        mremap(at_b, length, length, flags | MREMAP_DONTUNMAP, at_a) != at_a ||
        mremap(between, length, length, flags, at_b) != at_b)
        fail_errno("mremap of %zu pages between two regions", count);
    for (size_t i = 0; i < count; i++) {
        page_check(at_a + i * PAGE, region_key(two, b + i), PAGE);
        page_check(at_b + i * PAGE, region_key(one, a + i), PAGE);
    }
    for (size_t i = 0; i < count; i++) {
        region_write(one, a + i, rng);
        region_write(two, b + i, rng);
    }
    moves->pieced[0] = moves->pieced[1] = true;
}

static void begin_anew(struct moves *moves, int which, struct rng *rng)
{
    struct region *region = &moves->regions[which];
    step("a region begins anew");
    region_check_all(region);
    region_drop(region);
    region_make(region, moves->most / 2, rng);
    region_fill(region, rng);
    moves->pieced[which] = false;
}

static void op(struct trial *trial)
{
    struct moves *moves = trial->state;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 6; i++) {
        int which = (int)rng_below(rng, REGIONS);
        struct region *region = &moves->regions[which];
        if (moves->pieced[which])
            begin_anew(moves, which, rng);
        switch (rng_below(rng, 5)) {
        case 0:
        case 1:
            resize(moves, region, rng);
            break;
        case 2:
            move_whole(region, rng);
            break;
        case 3:
            leave_behind(region, rng);
            break;
        default:
            exchange(moves, rng);
        }
        step("checks after a move");
        region_churn(&moves->regions[rng_below(rng, REGIONS)], rng, 40, 30);
    }
}

static void check(struct trial *trial)
{
    struct moves *moves = trial->state;
    for (int i = 0; i < REGIONS; i++)
        region_check_all(&moves->regions[i]);
}

static void teardown(struct trial *trial)
{
    struct moves *moves = trial->state;
    for (int i = 0; i < REGIONS; i++)
        region_drop(&moves->regions[i]);
    free(moves);
}

TORTURE_CASE(mremap) = {
    .name = "mremap",
    .about = "grow, shrink, move, MREMAP_FIXED, MREMAP_DONTUNMAP, exchange of runs",
    .weight = 24,
    .share = 4,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
