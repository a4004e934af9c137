/*
 * madvise: advice that discards pages (DONTNEED, FREE), that concerns forks (DONTFORK, WIPEONFORK), that
 * makes guard pages (GUARD_INSTALL), and that must change nothing visible (COLD, PAGEOUT, WILLNEED,
 * POPULATE).
 */
#include "torture.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

struct advised {
    struct region region;
    bool *freed; /* given to MADV_FREE and not written since: each word is the old one or zero */
};

static void setup(struct trial *trial)
{
    struct advised *advised = trial_alloc(trial, sizeof *advised);
    region_make(&advised->region, trial_pages(trial, 64), &trial->rng);
    region_fill(&advised->region, &trial->rng);
    advised->freed = calloc(advised->region.pages, sizeof *advised->freed);
    if (advised->freed == NULL)
        fail_errno("calloc");
}

/* The page may be discarded at any moment, also during this check, so each word is checked on its own. */
static void check_freed(const struct region *region, size_t page)
{
    uint64_t old[PAGE_WORDS];
    const volatile uint64_t *words = (const volatile uint64_t *)region_at(region, page);
    page_make(old, region_key(region, page));
    for (size_t i = 0; i < PAGE_WORDS; i++) {
        uint64_t word = words[i];
        if (word != 0 && word != old[i])
            fail("  word %zu of page %zu at address %p after MADV_FREE: got %016llx, expected %016llx or 0",
                 i, page, (const void *)&words[i], (unsigned long long)word, (unsigned long long)old[i]);
    }
    move_on();
}

static void check_page(const struct advised *advised, size_t page)
{
    if (advised->freed[page])
        check_freed(&advised->region, page);
    else
        region_check(&advised->region, page);
}

/* A write ends the uncertainty: afterwards the rest of the page has its old contents or zeros, for good. */
static void settle(struct advised *advised, size_t page, struct rng *rng)
{
    struct region *region = &advised->region;
    uint64_t old[PAGE_WORDS], empty[PAGE_WORDS] = { 0 };
    struct page_key key = region_key(region, page);
    size_t word = rng_below(rng, PAGE_WORDS);
    if (rng_chance(rng, 50)) {
        page_make(old, key);
        old[word] = empty[word] = mix64(word);
        ((volatile uint64_t *)region_at(region, page))[word] = mix64(word);
        if (memcmp(region_at(region, page), old, PAGE) != 0 &&
            memcmp(region_at(region, page), empty, PAGE) != 0)
            fail("  page %zu at address %p, given to MADV_FREE and then written at word %zu, is neither "
                 "the old one nor zeros but for that word",
                 page, (void *)region_at(region, page), word);
    }
    region_write(region, page, rng);
    advised->freed[page] = false;
}

static void dontneed(struct advised *advised, struct rng *rng, size_t page, size_t count)
{
    step("MADV_DONTNEED");
    must(madvise(region_at(&advised->region, page), count * PAGE, MADV_DONTNEED));
    region_zeroed(&advised->region, page, count);
    memset(advised->freed + page, 0, count);
    for (size_t i = 0; i < count; i++) {
        if (rng_chance(rng, 40))
            region_check(&advised->region, page + i);
        if (rng_chance(rng, 50))
            region_patch(&advised->region, page + i);
        else if (rng_chance(rng, 50))
            region_write(&advised->region, page + i, rng);
    }
}

static void give_free(struct advised *advised, struct rng *rng, size_t page, size_t count)
{
    step("MADV_FREE");
    must(madvise(region_at(&advised->region, page), count * PAGE, MADV_FREE));
    memset(advised->freed + page, 1, count);
    for (size_t i = 0; i < count; i++)
        if (rng_chance(rng, 50))
            settle(advised, page + i, rng);
        else if (rng_chance(rng, 50))
            check_freed(&advised->region, page + i);
}

static void hint(struct advised *advised, struct rng *rng, size_t page, size_t count)
{
    static const struct {
        int advice;
        const char *name;
    } hints[] = {
        { MADV_COLD, "MADV_COLD" },
        { MADV_PAGEOUT, "MADV_PAGEOUT" },
        { MADV_WILLNEED, "MADV_WILLNEED" },
        { MADV_POPULATE_READ, "MADV_POPULATE_READ" },
        { MADV_POPULATE_WRITE, "MADV_POPULATE_WRITE" },
        { MADV_SEQUENTIAL, "MADV_SEQUENTIAL" },
        { MADV_RANDOM, "MADV_RANDOM" },
        { MADV_NORMAL, "MADV_NORMAL" },
        { MADV_DONTDUMP, "MADV_DONTDUMP" },
        { MADV_DODUMP, "MADV_DODUMP" },
    };
    unsigned i = (unsigned)rng_below(rng, sizeof hints / sizeof hints[0]);
    step(hints[i].name);
    /* Older kernels do not know all of them. */
    if (madvise(region_at(&advised->region, page), count * PAGE, hints[i].advice) != 0 && errno != EINVAL)
        fail_errno("madvise %s", hints[i].name);
    for (size_t k = 0; k < count; k++)
        check_page(advised, page + k);
}

static void over_fork(struct advised *advised, struct rng *rng, size_t page, size_t count)
{
    bool wipe = rng_chance(rng, 50);
    uint8_t *at = region_at(&advised->region, page);
    struct child child;
    step(wipe ? "MADV_WIPEONFORK" : "MADV_DONTFORK");
    must(madvise(at, count * PAGE, wipe ? MADV_WIPEONFORK : MADV_DONTFORK));
    if (child_fork(&child, wipe ? "wipeonfork" : "dontfork")) {
        if (wipe)
            zeros_check(at, count * PAGE, "MADV_WIPEONFORK gives the child zeros");
        else
            for (size_t i = 0; i < count; i++)
                if (!faults_on_read(at + i * PAGE))
                    fail("  address %p is there in the child in spite of MADV_DONTFORK", (void *)(at + i * PAGE));
        for (size_t k = 0; k < advised->region.pages; k++)
            if (k < page || k >= page + count)
                check_page(advised, k);
        if (wipe) {
            /* The child's writes are its own, and its own child gets zeros again. */
            struct child grandchild;
            bytes_make(at, count * PAGE, 7, 7);
            if (child_fork(&grandchild, "wipeonfork-2")) {
                zeros_check(at, count * PAGE, "MADV_WIPEONFORK is inherited");
                child_end();
            }
            bytes_check(at, count * PAGE, 7, 7);
            child_expect(&grandchild, 0);
        }
        child_end();
    }
    for (size_t i = 0; i < count; i++) {
        check_page(advised, page + i);
        if (rng_chance(rng, 30))
            settle(advised, page + i, rng);
    }
    child_expect(&child, 0);
    step("parent after MADV_*FORK");
    must(madvise(at, count * PAGE, wipe ? MADV_KEEPONFORK : MADV_DOFORK));
    for (size_t i = 0; i < count; i++)
        check_page(advised, page + i);
}

/* Guard pages, while pages around them are evicted and restored. */
static void guard(struct advised *advised, struct rng *rng, size_t page, size_t count)
{
    uint8_t *at = region_at(&advised->region, page);
    struct child child;
    step("MADV_GUARD_INSTALL");
    if (madvise(at, count * PAGE, MADV_GUARD_INSTALL) != 0) {
        if (errno != EINVAL)
            fail_errno("MADV_GUARD_INSTALL");
        return; /* before Linux 6.13 */
    }
    region_zeroed(&advised->region, page, count);
    memset(advised->freed + page, 0, count);
    for (int i = 0; i < 100; i++) {
        size_t other = rng_below(rng, advised->region.pages);
        if (other < page || other >= page + count)
            check_page(advised, other);
    }
    for (size_t i = 0; i < count; i++)
        if (!faults_on_read(at + i * PAGE))
            fail("  the guard page at address %p is gone", (void *)(at + i * PAGE));
    if (rng_chance(rng, 10)) {
        if (child_fork(&child, "guard")) {
            for (size_t i = 0; i < count; i++)
                if (!faults_on_read(at + i * PAGE))
                    fail("  the guard page at address %p is gone in the child", (void *)(at + i * PAGE));
            child_end();
        }
        child_expect(&child, 0);
    }
    step("MADV_GUARD_REMOVE");
    must(madvise(at, count * PAGE, MADV_GUARD_REMOVE));
    for (size_t i = 0; i < count; i++) {
        region_check(&advised->region, page + i);
        if (rng_chance(rng, 70))
            region_write(&advised->region, page + i, rng);
    }
}

static void op(struct trial *trial)
{
    struct advised *advised = trial->state;
    struct rng *rng = &trial->rng;
    size_t pages = advised->region.pages;
    for (int i = 0; i < 8; i++) {
        size_t count = rng_range(rng, 1, 48), page = rng_below(rng, pages - count + 1);
        unsigned roll = (unsigned)rng_below(rng, 100);
        if (roll < 35)
            dontneed(advised, rng, page, count);
        else if (roll < 65)
            give_free(advised, rng, page, count);
        else if (roll < 75)
            guard(advised, rng, page, count);
        else if (roll < 97)
            hint(advised, rng, page, count);
        else
            over_fork(advised, rng, page, count);
        step("churn");
        for (int k = 0; k < 20; k++) {
            page = rng_below(rng, pages);
            check_page(advised, page);
            if (rng_chance(rng, 40))
                settle(advised, page, rng);
        }
    }
}

static void check(struct trial *trial)
{
    struct advised *advised = trial->state;
    for (size_t page = 0; page < advised->region.pages; page++)
        check_page(advised, page);
}

static void teardown(struct trial *trial)
{
    struct advised *advised = trial->state;
    region_drop(&advised->region);
    free(advised->freed);
    free(advised);
}

TORTURE_CASE(madvise) = {
    .name = "madvise",
    .about = "DONTNEED, FREE, DONTFORK, WIPEONFORK, and hints that must change nothing",
    .weight = 20,
    .share = 4,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
