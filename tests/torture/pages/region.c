/* Regions; see region.h. */
#include "torture.h"

static uint64_t state_make(const struct region *region, size_t page, uint32_t version, unsigned patches)
{
    uint64_t low = (uint64_t)version << 8 | patches;
    return low | (mix64(region->id ^ mix64(page ^ mix64(low))) << 32);
}

struct page_key region_key(const struct region *region, size_t page)
{
    uint64_t state = region->states[page];
    struct page_key key = { region->id, page, (uint32_t)(state >> 8) & 0xffffff, state & 0xff };
    if (state != state_make(region, page, key.version, key.patches))
        fail("  the state of page %zu of region %llx, at address %p, is broken: got %016llx", page,
             (unsigned long long)region->id, (void *)&region->states[page], (unsigned long long)state);
    return key;
}

void region_set(struct region *region, size_t page, uint32_t version, unsigned patches)
{
    /* Version 0 means zeros, so the count leaves it out when it wraps. */
    if (version > 0xffffff)
        version = 1;
    region->states[page] = state_make(region, page, version, patches);
}

void region_adopt(struct region *region, void *base, size_t pages, struct rng *rng)
{
    memset(region, 0, sizeof *region);
    region->id = rng_next(rng);
    region_resize(region, base, pages);
}

void region_make(struct region *region, size_t pages, struct rng *rng)
{
    void *base = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        fail_errno("mmap of %zu pages", pages);
    region_adopt(region, base, pages, rng);
}

void region_resize(struct region *region, void *base, size_t pages)
{
    region->base = base;
    if (pages > region->room) {
        size_t room = pages + pages / 4;
        region->states = realloc(region->states, room * sizeof *region->states);
        if (region->states == NULL)
            fail_errno("realloc of %zu page states", room);
        region->room = room;
    }
    for (size_t page = region->pages; page < pages; page++)
        region_set(region, page, 0, 0);
    region->pages = pages;
}

void region_abandon(struct region *region)
{
    free(region->states);
    memset(region, 0, sizeof *region);
}

void region_drop(struct region *region)
{
    if (region->pages)
        must(munmap(region->base, region->pages * PAGE));
    region_abandon(region);
}

void region_next(struct region *region, size_t page, uint64_t out[PAGE_WORDS])
{
    struct page_key key = region_key(region, page);
    region_set(region, page, key.version + 1, 0);
    page_make(out, region_key(region, page));
}

void region_write(struct region *region, size_t page, struct rng *rng)
{
    uint64_t made[PAGE_WORDS];
    /* Volatile, so that the words are stored one by one in this order: each store may fault. */
    volatile uint64_t *to = (volatile uint64_t *)region_at(region, page);
    region_next(region, page, made);
    switch (rng_below(rng, 4)) {
    case 0:
        for (size_t i = 0; i < PAGE_WORDS; i++)
            to[i] = made[i];
        break;
    case 1:
        for (size_t i = PAGE_WORDS; i-- > 0;)
            to[i] = made[i];
        break;
    default:
        memcpy(region_at(region, page), made, PAGE);
    }
    move_on();
}

void region_patch(struct region *region, size_t page)
{
    struct page_key key = region_key(region, page);
    size_t word;
    uint64_t value;
    if (key.patches >= MOST_PATCHES) {
        uint64_t made[PAGE_WORDS];
        region_next(region, page, made);
        memcpy(region_at(region, page), made, PAGE);
        return;
    }
    page_patch(key, key.patches + 1, &word, &value);
    ((volatile uint64_t *)region_at(region, page))[word] = value;
    region_set(region, page, key.version, key.patches + 1);
    move_on();
}

void region_fill(struct region *region, struct rng *rng)
{
    for (size_t page = 0; page < region->pages; page++)
        region_write(region, page, rng);
}

void region_check(const struct region *region, size_t page)
{
    page_check(region_at(region, page), region_key(region, page), PAGE);
}

void region_check_run(const struct region *region, size_t page, size_t count)
{
    for (size_t i = 0; i < count; i++)
        region_check(region, page + i);
}

void region_check_all(const struct region *region)
{
    region_check_run(region, 0, region->pages);
}

void region_zeroed(struct region *region, size_t page, size_t count)
{
    for (size_t i = 0; i < count; i++)
        region_set(region, page + i, 0, 0);
}

void region_churn(struct region *region, struct rng *rng, size_t touches, unsigned write_percent)
{
    for (size_t i = 0; i < touches; i++) {
        size_t page = rng_below(rng, region->pages);
        /* Half of the writes go to a page that was not read before, and so cause a write fault. */
        bool write = rng_chance(rng, write_percent);
        if (!write || rng_chance(rng, 50))
            region_check(region, page);
        if (write && rng_chance(rng, 50))
            region_patch(region, page);
        else if (write)
            region_write(region, page, rng);
    }
}
