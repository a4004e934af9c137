/*
 * A region: a run of pages and, for each, the state it must be in.
 *
 *   base ──► ┌────────┬────────┬────────┬──   pages of the program
 *            │ page 0 │ page 1 │ page 2 │
 *            └────────┴────────┴────────┴──
 *   states ► │ u64    │ u64    │ u64    │     from malloc: as evictable as the pages themselves
 *
 *   a state:  bits 63..32 check (so that a lost state is not taken for a lost page)
 *             bits 31..8  version        bits 7..0  patches
 *
 * A region belongs to one thread at a time. Nothing here locks.
 */
#ifndef TORTURE_REGION_H
#define TORTURE_REGION_H

#include "page.h"
#include "rng.h"

struct region {
    uint8_t *base;
    size_t pages;
    uint64_t id;
    uint64_t *states;
    size_t room; /* states allocated */
};

/* Maps `pages` fresh private anonymous pages, none written yet. */
void region_make(struct region *region, size_t pages, struct rng *rng);

/* Uses zeroed memory that the case has mapped or allocated itself. */
void region_adopt(struct region *region, void *base, size_t pages, struct rng *rng);

/* Unmaps the region and forgets it; only forgets it. */
void region_drop(struct region *region);
void region_abandon(struct region *region);

/* The pages are now at `base`, and there are `pages` of them; new ones must read as zeros. */
void region_resize(struct region *region, void *base, size_t pages);

/* Writes the next version, in one of several ways; changes one word; writes all pages. */
void region_write(struct region *region, size_t page, struct rng *rng);
void region_patch(struct region *region, size_t page);
void region_fill(struct region *region, struct rng *rng);

/* Checks some random pages, and then writes `write_percent` of them. */
void region_churn(struct region *region, struct rng *rng, size_t touches, unsigned write_percent);

/* Verifies one page, a run, all. */
void region_check(const struct region *region, size_t page);
void region_check_run(const struct region *region, size_t page, size_t count);
void region_check_all(const struct region *region);

/* From now on `count` pages must be zeros. */
void region_zeroed(struct region *region, size_t page, size_t count);

/* Gives a page the state of another one (of this or another region), after its contents were copied. */
struct page_key region_key(const struct region *region, size_t page);
void region_set(struct region *region, size_t page, uint32_t version, unsigned patches);

/* The bytes of the next version, for another thread or system call to write. */
void region_next(struct region *region, size_t page, uint64_t out[PAGE_WORDS]);

static inline uint8_t *region_at(const struct region *region, size_t page)
{
    return region->base + page * PAGE;
}

#endif
