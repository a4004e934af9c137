/*
 * filemap: anonymous memory with private and shared file mappings in it, which replace each other by
 * MAP_FIXED. Private file pages that were written keep their contents; the others show the file.
 */
#include "torture.h"
#include "mirror.h"

enum kind { ANONYMOUS, PRIVATE_FILE, SHARED_FILE };

struct mixed {
    struct region region; /* the states of anonymous and written private pages */
    enum kind *kinds;
    bool *pristine; /* of a private file page: not written, so it shows the file */
    uint32_t *file_versions;
    uint64_t file_id;
    int file;
    pid_t owner; /* the process that writes the file; a forked child does not know its current contents */
};

static struct page_key file_key(const struct mixed *mixed, size_t page)
{
    struct page_key key = { mixed->file_id, page, mixed->file_versions[page], 0 };
    return key;
}

static void setup(struct trial *trial)
{
    struct mixed *mixed = trial_alloc(trial, sizeof *mixed);
    size_t pages = trial_pages(trial, 64);
    region_make(&mixed->region, pages, &trial->rng);
    region_fill(&mixed->region, &trial->rng);
    mixed->kinds = calloc(pages, sizeof *mixed->kinds);
    mixed->pristine = calloc(pages, sizeof *mixed->pristine);
    mixed->file_versions = calloc(pages, sizeof *mixed->file_versions);
    if (!mixed->kinds || !mixed->pristine || !mixed->file_versions)
        fail_errno("calloc");
    mixed->owner = getpid();
    mixed->file_id = rng_next(&trial->rng);
    mixed->file = scratch_file(pages * PAGE, 0);
    for (size_t page = 0; page < pages; page++) {
        uint64_t made[PAGE_WORDS];
        mixed->file_versions[page] = 1;
        page_make(made, file_key(mixed, page));
        pwrite_all(mixed->file, made, PAGE, (off_t)(page * PAGE));
    }
}

static void check_one(const struct mixed *mixed, size_t page)
{
    if (mixed->kinds[page] == ANONYMOUS || (mixed->kinds[page] == PRIVATE_FILE && !mixed->pristine[page]))
        region_check(&mixed->region, page);
    else if (mixed->owner == getpid())
        page_check(region_at(&mixed->region, page), file_key(mixed, page), PAGE);
}

/* Replaces pages by ones of a random kind. */
static void replace(struct mixed *mixed, struct rng *rng, size_t page, size_t count)
{
    enum kind kind = (enum kind)rng_below(rng, 3);
    void *at = region_at(&mixed->region, page);
    int flags = MAP_FIXED | (kind == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE) | (kind == ANONYMOUS ? MAP_ANONYMOUS : 0);
    step(kind == ANONYMOUS ? "anonymous over anything" : "a file over anything");
    must(mmap(at, count * PAGE, PROT_READ | PROT_WRITE, flags, kind == ANONYMOUS ? -1 : mixed->file,
              kind == ANONYMOUS ? 0 : (off_t)(page * PAGE)));
    for (size_t i = page; i < page + count; i++) {
        mixed->kinds[i] = kind;
        mixed->pristine[i] = kind == PRIVATE_FILE;
        region_set(&mixed->region, i, 0, 0);
        if (rng_chance(rng, 40))
            check_one(mixed, i);
    }
}

static void write_one(struct mixed *mixed, struct rng *rng, size_t page)
{
    uint64_t made[PAGE_WORDS];
    switch (mixed->kinds[page]) {
    case SHARED_FILE:
        mixed->file_versions[page]++;
        page_make(made, file_key(mixed, page));
        memcpy(region_at(&mixed->region, page), made, PAGE);
        move_on();
        break;
    case PRIVATE_FILE:
        mixed->pristine[page] = false;
        region_write(&mixed->region, page, rng);
        break;
    default:
        region_write(&mixed->region, page, rng);
    }
}

static void op(struct trial *trial)
{
    struct mixed *mixed = trial->state;
    struct rng *rng = &trial->rng;
    size_t pages = mixed->region.pages;
    for (int i = 0; i < 6; i++) {
        size_t count = rng_range(rng, 1, 24), page = rng_below(rng, pages - count + 1);
        replace(mixed, rng, page, count);
        step("a mixture of mappings");
        for (int k = 0; k < 40; k++) {
            page = rng_below(rng, pages);
            check_one(mixed, page);
            if (rng_chance(rng, 40))
                write_one(mixed, rng, page);
        }
        if (rng_chance(rng, 30)) {
            /* Discarding a private file page shows the file again. */
            page = rng_below(rng, pages);
            step("DONTNEED in a mixture of mappings");
            must(madvise(region_at(&mixed->region, page), PAGE, MADV_DONTNEED));
            mixed->pristine[page] = mixed->kinds[page] == PRIVATE_FILE;
            region_set(&mixed->region, page, 0, 0);
            check_one(mixed, page);
        }
    }
}

static void check(struct trial *trial)
{
    struct mixed *mixed = trial->state;
    for (size_t page = 0; page < mixed->region.pages; page++)
        check_one(mixed, page);
}

static void teardown(struct trial *trial)
{
    struct mixed *mixed = trial->state;
    region_drop(&mixed->region);
    close(mixed->file);
    free(mixed->kinds);
    free(mixed->pristine);
    free(mixed->file_versions);
    free(mixed);
}

TORTURE_CASE(filemap) = {
    .name = "filemap",
    .about = "anonymous memory mixed with private and shared file mappings",
    .weight = 12,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
