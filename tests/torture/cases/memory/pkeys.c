/*
 * pkeys: pages with a memory protection key that only one thread at a time may touch, and that rest in this
 * state. Access rights belong to a thread: a new thread has none unless it sets them.
 */
#include "torture.h"

struct keyed {
    struct region region;
    int key;
};

static void setup(struct trial *trial)
{
    int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key < 0) {
        say("skipped: pkeys: no protection keys here: %s", strerrordesc_np(errno));
        trial->skipped = true;
        return;
    }
    struct keyed *keyed = trial_alloc(trial, sizeof *keyed);
    keyed->key = key;
    region_make(&keyed->region, trial_pages(trial, 32), &trial->rng);
    region_fill(&keyed->region, &trial->rng);
    must(pkey_mprotect(keyed->region.base, keyed->region.pages * PAGE, PROT_READ | PROT_WRITE, key));
}

static void op(struct trial *trial)
{
    struct keyed *keyed = trial->state;
    struct rng *rng = &trial->rng;
    uint8_t *inside = keyed->region.base + rng_below(rng, keyed->region.pages * PAGE);
    step("no rights");
    must(pkey_set(keyed->key, PKEY_DISABLE_ACCESS));
    if (!faults_on_read(inside))
        fail("a read at %p without rights did not fault", (void *)inside);
    step("all rights");
    must(pkey_set(keyed->key, 0));
    region_churn(&keyed->region, rng, 100, 40);
    step("rights to read");
    must(pkey_set(keyed->key, PKEY_DISABLE_WRITE));
    region_check(&keyed->region, (size_t)(inside - keyed->region.base) / PAGE);
    if (!faults_on_write(inside, 1))
        fail("a write at %p with rights to read did not fault", (void *)inside);
    must(pkey_set(keyed->key, PKEY_DISABLE_ACCESS));
}

static void check(struct trial *trial)
{
    struct keyed *keyed = trial->state;
    must(pkey_set(keyed->key, 0));
    region_check_all(&keyed->region);
    must(pkey_set(keyed->key, PKEY_DISABLE_ACCESS));
}

static void teardown(struct trial *trial)
{
    struct keyed *keyed = trial->state;
    region_drop(&keyed->region);
    pkey_free(keyed->key);
    free(keyed);
}

TORTURE_CASE(pkeys) = {
    .name = "pkeys",
    .about = "pages behind memory protection keys",
    .weight = 8,
    .share = 1,
    .instances = 1,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
