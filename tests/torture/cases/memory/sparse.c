/*
 * sparse: a reservation of 1 TiB (MAP_NORESERVE) in which a few pages far apart are used, as garbage
 * collectors and sanitizers do. Untouched pages read as zeros; one call discards or remaps half of it.
 */
#include "torture.h"

#define RESERVED ((size_t)1 << 40)
#define RESERVED_PAGES (RESERVED / PAGE)

struct sparse {
    uint8_t *base;
    uint64_t id;
    size_t room, used;
    struct spot {
        size_t page;
        uint32_t version;
    } *spots;
};

static void setup(struct trial *trial)
{
    struct sparse *sparse = trial_alloc(trial, sizeof *sparse);
    sparse->base = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sparse->base == MAP_FAILED) {
        say("skipped: sparse: no reservation of 1 TiB: %s", strerrordesc_np(errno));
        free(sparse);
        trial->state = NULL;
        trial->skipped = true;
        return;
    }
    sparse->id = rng_next(&trial->rng);
    /* Each spot costs a page, and up to a page of page tables. */
    sparse->room = trial_pages(trial, 64) / 2;
    sparse->spots = calloc(sparse->room, sizeof *sparse->spots);
    if (sparse->spots == NULL)
        fail_errno("calloc");
}

static struct page_key spot_key(const struct sparse *sparse, const struct spot *spot)
{
    struct page_key key = { sparse->id, spot->page, spot->version, 0 };
    return key;
}

static void write_spot(struct sparse *sparse, struct spot *spot)
{
    uint64_t made[PAGE_WORDS];
    spot->version++;
    page_make(made, spot_key(sparse, spot));
    memcpy(sparse->base + spot->page * PAGE, made, PAGE);
    move_on();
}

static void check_spot(const struct sparse *sparse, const struct spot *spot)
{
    page_check(sparse->base + spot->page * PAGE, spot_key(sparse, spot), PAGE);
}

static bool is_used(const struct sparse *sparse, size_t page)
{
    for (size_t i = 0; i < sparse->used; i++)
        if (sparse->spots[i].page == page)
            return true;
    return false;
}

static void touch_new(struct sparse *sparse, struct rng *rng)
{
    /* Alone, or next to a spot that exists. */
    size_t page = sparse->used && rng_chance(rng, 50)
                      ? sparse->spots[rng_below(rng, sparse->used)].page + rng_range(rng, 1, 16)
                      : rng_below(rng, RESERVED_PAGES);
    if (page >= RESERVED_PAGES || is_used(sparse, page))
        return;
    if (rng_chance(rng, 50))
        zeros_check(sparse->base + page * PAGE, PAGE, "an untouched page of a reservation");
    sparse->spots[sparse->used] = (struct spot){ page, 0 };
    write_spot(sparse, &sparse->spots[sparse->used++]);
}

/* All pages of [from, to) were discarded: they must read as zeros. */
static void forget(struct sparse *sparse, size_t from, size_t to)
{
    for (size_t i = 0; i < sparse->used;) {
        struct spot *spot = &sparse->spots[i];
        if (spot->page < from || spot->page >= to) {
            i++;
            continue;
        }
        zeros_check(sparse->base + spot->page * PAGE, PAGE, "a discarded page of a reservation");
        *spot = sparse->spots[--sparse->used];
    }
}

static void op(struct trial *trial)
{
    struct sparse *sparse = trial->state;
    struct rng *rng = &trial->rng;
    step("touches far apart");
    for (int i = 0; i < 100; i++) {
        if (sparse->used < sparse->room && rng_chance(rng, 30))
            touch_new(sparse, rng);
        if (sparse->used == 0)
            continue;
        struct spot *spot = &sparse->spots[rng_below(rng, sparse->used)];
        check_spot(sparse, spot);
        if (rng_chance(rng, 30))
            write_spot(sparse, spot);
    }
    if (sparse->used == sparse->room || rng_chance(rng, 5)) {
        size_t count = RESERVED_PAGES / rng_range(rng, 2, 50), from = rng_below(rng, RESERVED_PAGES - count + 1);
        uint8_t *at = sparse->base + from * PAGE;
        if (rng_chance(rng, 50)) {
            step("DONTNEED of a large part");
            must(madvise(at, count * PAGE, MADV_DONTNEED));
        } else {
            step("MAP_FIXED over a large part");
            must(mmap(at, count * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
        }
        forget(sparse, from, from + count);
    }
}

static void check(struct trial *trial)
{
    struct sparse *sparse = trial->state;
    for (size_t i = 0; i < sparse->used; i++)
        check_spot(sparse, &sparse->spots[i]);
}

static void teardown(struct trial *trial)
{
    struct sparse *sparse = trial->state;
    must(munmap(sparse->base, RESERVED));
    free(sparse->spots);
    free(sparse);
}

TORTURE_CASE(sparse) = {
    .name = "sparse",
    .about = "a reservation of 1 TiB, sparsely touched",
    .weight = 12,
    .share = 3,
    .instances = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
