/*
 * protect: runs of pages become PROT_NONE or read-only, rest for a while, and become accessible again.
 * Touching them faults exactly where it should; a handler may repair the protection; a system call with
 * such a page returns EFAULT; and the data stay the same all the time.
 */
#include "torture.h"

#include <fcntl.h>

enum guard { OPEN, READ_ONLY, CLOSED };

struct guarded {
    struct region region;
    uint8_t *guards; /* enum guard of each page */
    int pipe[2];
};

static const int protections[] = { PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE };

static void setup(struct trial *trial)
{
    struct guarded *guarded = trial_alloc(trial, sizeof *guarded);
    region_make(&guarded->region, trial_pages(trial, 64), &trial->rng);
    region_fill(&guarded->region, &trial->rng);
    guarded->guards = calloc(guarded->region.pages, 1);
    if (guarded->guards == NULL)
        fail_errno("calloc");
    must(pipe2(guarded->pipe, O_CLOEXEC | O_NONBLOCK));
}

static void set_guard(struct guarded *guarded, size_t page, size_t count, enum guard guard)
{
    must(mprotect(region_at(&guarded->region, page), count * PAGE, protections[guard]));
    memset(guarded->guards + page, guard, count);
}

/* Passes a page to the kernel: it is allowed, or EFAULT; never a signal, never other bytes. */
static void through_kernel(struct guarded *guarded, size_t page)
{
    uint8_t *at = region_at(&guarded->region, page);
    enum guard guard = guarded->guards[page];
    uint8_t back[PAGE];
    ssize_t n = write(guarded->pipe[1], at, PAGE);
    if (guard == CLOSED ? n != -1 || errno != EFAULT : n != (ssize_t)PAGE)
        fail_errno("write from a page with guard %d at %p gave %zd", guard, (void *)at, n);
    if (n < 0 && (n = write(guarded->pipe[1], back, memset(back, 1, PAGE) ? PAGE : 0)) < 0)
        fail_errno("write to a pipe");
    /* Read back: into the page itself if it may be written, otherwise EFAULT. */
    if (guard != OPEN) {
        n = read(guarded->pipe[0], at, PAGE);
        if (n != -1 || errno != EFAULT)
            fail_errno("read into a page with guard %d at %p gave %zd", guard, (void *)at, n);
    }
    /* The pipe may have dropped the page that it could not copy; read what is left. */
    while ((n = read(guarded->pipe[0], guard == OPEN ? at : back, PAGE)) > 0)
        ;
}

static void touch(struct guarded *guarded, struct rng *rng, size_t page)
{
    uint8_t *at = region_at(&guarded->region, page), *inside = at + rng_below(rng, PAGE);
    enum guard guard = guarded->guards[page];
    if (guard == OPEN) {
        region_check(&guarded->region, page);
        if (rng_chance(rng, 40))
            region_write(&guarded->region, page, rng);
        return;
    }
    if (faults_on_read(inside) != (guard == CLOSED))
        fail("a read at %p with guard %d %s", (void *)inside, guard,
             guard == CLOSED ? "did not fault" : "faulted");
    if (!faults_on_write(inside, 0x55))
        fail("a write at %p with guard %d did not fault", (void *)inside, guard);
    if (guard == READ_ONLY)
        region_check(&guarded->region, page);
}

/* The handler makes page after page accessible while a run is verified or written. */
static void repair(struct guarded *guarded, struct rng *rng)
{
    size_t count = rng_range(rng, 1, 24);
    size_t page = rng_below(rng, guarded->region.pages - count + 1);
    bool write = rng_chance(rng, 50);
    unsigned faults = 0, repaired;
    step("a handler that repairs");
    set_guard(guarded, page, count, write && rng_chance(rng, 50) ? READ_ONLY : CLOSED);
    faults_repair_begin(region_at(&guarded->region, page), count * PAGE, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < count; i++) {
        if (rng_chance(rng, 20))
            continue;
        faults++;
        if (write)
            region_write(&guarded->region, page + i, rng);
        else
            region_check(&guarded->region, page + i);
        guarded->guards[page + i] = OPEN;
    }
    repaired = faults_repair_end();
    if (repaired != faults)
        fail("%u pages were touched under protection, but the handler saw %u faults", faults, repaired);
}

static void op(struct trial *trial)
{
    struct guarded *guarded = trial->state;
    struct rng *rng = &trial->rng;
    size_t pages = guarded->region.pages;
    for (int i = 0; i < 6; i++) {
        size_t count = rng_range(rng, 1, 32), page = rng_below(rng, pages - count + 1);
        step("mprotect of a run");
        set_guard(guarded, page, count, (enum guard)rng_below(rng, 3));
        step("touching guarded pages");
        for (int k = 0; k < 25; k++)
            touch(guarded, rng, rng_below(rng, pages));
        step("guarded pages in system calls");
        for (int k = 0; k < 6; k++)
            through_kernel(guarded, rng_below(rng, pages));
        repair(guarded, rng);
        step("opening a run");
        count = rng_range(rng, 1, 48 < pages ? 48 : pages);
        page = rng_below(rng, pages - count + 1);
        set_guard(guarded, page, count, OPEN);
        region_check_run(&guarded->region, page, count);
    }
}

static void check(struct trial *trial)
{
    struct guarded *guarded = trial->state;
    for (size_t page = 0; page < guarded->region.pages; page++)
        if (guarded->guards[page] != CLOSED)
            region_check(&guarded->region, page);
}

static void teardown(struct trial *trial)
{
    struct guarded *guarded = trial->state;
    set_guard(guarded, 0, guarded->region.pages, OPEN);
    region_check_all(&guarded->region);
    region_drop(&guarded->region);
    close(guarded->pipe[0]);
    close(guarded->pipe[1]);
    free(guarded->guards);
    free(guarded);
}

TORTURE_CASE(protect) = {
    .name = "protect",
    .about = "mprotect to PROT_NONE, PROT_READ and back, with faults only where they belong",
    .weight = 24,
    .share = 4,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
