/*
 * map: munmap, and mmap with MAP_FIXED over memory that has grown old. A new mapping must read as zeros,
 * never as the old contents, and the neighbouring pages must not change.
 */
#include "torture.h"

struct maps {
    struct region region;
    bool *lost; /* pages unmapped and then taken by another thread's mmap: no longer ours */
    size_t lost_count;
};

static void begin(struct maps *maps, size_t pages, struct rng *rng)
{
    region_make(&maps->region, pages, rng);
    region_fill(&maps->region, rng);
    maps->lost = calloc(pages, sizeof *maps->lost);
    if (maps->lost == NULL)
        fail_errno("calloc");
    maps->lost_count = 0;
}

static void setup(struct trial *trial)
{
    begin(trial_alloc(trial, sizeof(struct maps)), trial_pages(trial, 128), &trial->rng);
}

static void check_maps(const struct maps *maps)
{
    for (size_t page = 0; page < maps->region.pages; page++)
        if (!maps->lost[page])
            region_check(&maps->region, page);
}

static void end(struct maps *maps)
{
    for (size_t page = 0; page < maps->region.pages; page++)
        if (!maps->lost[page])
            must(munmap(region_at(&maps->region, page), PAGE));
    region_abandon(&maps->region);
    free(maps->lost);
}

/* Picks a run without lost pages. */
static size_t pick_run(struct maps *maps, struct rng *rng, size_t most, size_t *count)
{
    for (;;) {
        size_t page = rng_below(rng, maps->region.pages), n = 0;
        size_t wish = rng_range(rng, 1, most);
        while (n < wish && page + n < maps->region.pages && !maps->lost[page + n])
            n++;
        if (n) {
            *count = n;
            return page;
        }
    }
}

/* Fresh pages: zeros at once, or only after writing a part of them, or left alone for later. */
static void use_fresh(struct maps *maps, struct rng *rng, size_t page, size_t count)
{
    region_zeroed(&maps->region, page, count);
    for (size_t i = 0; i < count; i++) {
        switch (rng_below(rng, 4)) {
        case 0:
            zeros_check(region_at(&maps->region, page + i), PAGE, "a fresh mapping reads as zeros");
            break;
        case 1:
            region_patch(&maps->region, page + i);
            break;
        case 2:
            region_write(&maps->region, page + i, rng);
            break;
        }
    }
}

static void fixed_over(struct maps *maps, struct rng *rng)
{
    size_t count, page = pick_run(maps, rng, 64, &count);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | (rng_chance(rng, 20) ? MAP_POPULATE : 0);
    void *at = region_at(&maps->region, page);
    step("MAP_FIXED over old pages");
    if (rng_chance(rng, 30)) {
        must(mmap(at, count * PAGE, PROT_NONE, flags & ~MAP_POPULATE, -1, 0));
        if (rng_chance(rng, 50))
            must(mprotect(at, count * PAGE, PROT_READ | PROT_WRITE));
        else
            must(mmap(at, count * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0));
    } else {
        must(mmap(at, count * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0));
    }
    use_fresh(maps, rng, page, count);
}

/* Between munmap and mmap another thread may map the range: so ask for it, but never replace a mapping. */
static void map_again(struct maps *maps, struct rng *rng, size_t page, size_t count)
{
    void *at = region_at(&maps->region, page);
    void *got = mmap(at, count * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == at) {
        use_fresh(maps, rng, page, count);
        return;
    }
    if (got != MAP_FAILED)
        fail("mmap with MAP_FIXED_NOREPLACE at %p gave %p", at, got);
    if (errno != EEXIST)
        fail_errno("mmap with MAP_FIXED_NOREPLACE");
    memset(&maps->lost[page], 1, count);
    maps->lost_count += count;
}

static void unmap_and_map(struct maps *maps, struct rng *rng)
{
    size_t count, page = pick_run(maps, rng, 64, &count);
    step("munmap of old pages");
    must(munmap(region_at(&maps->region, page), count * PAGE));
    map_again(maps, rng, page, count);
}

/* Unmaps every second page, so the mapping falls into as many pieces. */
static void comb(struct maps *maps, struct rng *rng)
{
    size_t count, page = pick_run(maps, rng, 32, &count);
    step("munmap of every second page");
    for (size_t i = 0; i < count; i += 2)
        must(munmap(region_at(&maps->region, page + i), PAGE));
    for (size_t i = 1; i < count; i += 2)
        region_check(&maps->region, page + i);
    for (size_t i = 0; i < count; i += 2)
        map_again(maps, rng, page + i, 1);
}

/* Short-lived mappings; the kernel usually gives them the same addresses. */
static void short_lived(struct rng *rng)
{
    step("short-lived mappings");
    for (int i = 0; i < 8; i++) {
        struct region region;
        region_make(&region, rng_range(rng, 1, 48), rng);
        zeros_check(region.base, region.pages * PAGE, "a fresh mapping reads as zeros");
        region_fill(&region, rng);
        region_check_all(&region);
        region_drop(&region);
    }
}

static void op(struct trial *trial)
{
    struct maps *maps = trial->state;
    struct rng *rng = &trial->rng;
    if (maps->lost_count > maps->region.pages / 2) {
        size_t pages = maps->region.pages;
        step("a new region");
        check_maps(maps);
        end(maps);
        begin(maps, pages, rng);
    }
    for (int i = 0; i < 8; i++) {
        size_t count, page;
        switch (rng_below(rng, 5)) {
        case 0:
        case 1:
            fixed_over(maps, rng);
            break;
        case 2:
            unmap_and_map(maps, rng);
            break;
        case 3:
            comb(maps, rng);
            break;
        default:
            short_lived(rng);
        }
        step("neighbours");
        page = pick_run(maps, rng, 64, &count);
        region_check_run(&maps->region, page, count);
    }
}

static void check(struct trial *trial)
{
    check_maps(trial->state);
}

static void teardown(struct trial *trial)
{
    end(trial->state);
    free(trial->state);
}

TORTURE_CASE(map) = {
    .name = "map",
    .about = "munmap and MAP_FIXED over old memory; fresh mappings read as zeros",
    .weight = 24,
    .share = 4,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
