/*
 * brk: the end of the heap moves up and down. Memory below it stays; memory that was returned and taken
 * again reads as zeros. This runs in a process of its own, forked or newly started, because malloc uses the
 * same heap: nothing here calls malloc while the end moves.
 */
#include "torture.h"

static uint64_t page_id(size_t round)
{
    return mix64(options.seed ^ (round * 977 + 5));
}

/* The states of the pages are in a mapping, not in the heap that moves. */
static void move_break(struct rng *rng, size_t most)
{
    uint8_t *base = sbrk(0);
    size_t pad = (PAGE - (uintptr_t)base % PAGE) % PAGE, pages = 0;
    uint32_t *versions = must(mmap(NULL, (most + 1) * sizeof *versions, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    uint64_t made[PAGE_WORDS];
    must(sbrk((intptr_t)pad));
    base += pad;
    for (int i = 0; i < 40; i++) {
        size_t want = rng_below(rng, most + 1), before = pages;
        step(want > pages ? "sbrk grows" : "sbrk shrinks");
        /* Page by page, or at once. */
        if (sbrk(0) != base + pages * PAGE)
            fail("sbrk(0) gave %p, expected %p", sbrk(0), (void *)(base + pages * PAGE));
        must(sbrk(((intptr_t)want - (intptr_t)pages) * (intptr_t)PAGE));
        pages = want;
        for (size_t page = before; page < pages; page++) {
            if (rng_chance(rng, 50))
                zeros_check(base + page * PAGE, PAGE, "new memory at the end of the heap");
            versions[page] = 0;
        }
        step("the heap is used");
        for (size_t k = 0; k < pages; k++) {
            size_t page = rng_below(rng, pages);
            struct page_key key = { page_id(0), page, versions[page], 0 };
            page_check(base + page * PAGE, key, PAGE);
            if (rng_chance(rng, 50)) {
                key.version = ++versions[page];
                page_make(made, key);
                memcpy(base + page * PAGE, made, PAGE);
            }
        }
    }
    for (size_t page = 0; page < pages; page++) {
        struct page_key key = { page_id(0), page, versions[page], 0 };
        page_check(base + page * PAGE, key, PAGE);
    }
    must(sbrk(-(intptr_t)(pages * PAGE + pad)));
    must(munmap(versions, (most + 1) * sizeof *versions));
}

static int run_brk(const char *arg)
{
    struct rng rng = rng_make(arg ? strtoull(arg, NULL, 0) : 0);
    move_break(&rng, 512);
    return 0;
}
EXEC_MODE(run_brk, "brk")

static void op(struct trial *trial)
{
    struct region *region = trial->state;
    struct rng *rng = &trial->rng;
    struct child child;
    if (rng_chance(rng, 50)) {
        if (child_fork(&child, "brk-child")) {
            move_break(rng, 256);
            region_check_all(region);
            child_end();
        }
    } else {
        char seed[32];
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)rng_next(rng));
        child_spawn(&child, "brk", seed);
    }
    region_churn(region, rng, 100, 30);
    child_expect(&child, 0);
}

TORTURE_CASE(brk) = {
    .name = "brk",
    .about = "sbrk up and down in a process of its own",
    .weight = 2,
    .share = 1,
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
