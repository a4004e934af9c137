/*
 * births: threads begin and end all the time, on new stacks, while another thread forks; each child
 * starts many threads at once. The C library keeps the stacks of current and former threads in lists
 * whose links are in the stacks, and walks these in a child before anything else runs.
 */
#include "torture.h"

#define PARENTS 3
#define BROOD 12

struct births {
    _Atomic bool stop;
    _Atomic unsigned ready;
};

static void *newborn(void *arg)
{
    uint64_t id = (uintptr_t)arg;
    /* Enough pages that the stack is worth evicting. */
    volatile uint8_t deep[192 << 10];
    for (size_t i = 0; i < sizeof deep; i += PAGE)
        deep[i] = (uint8_t)(id + i / PAGE);
    for (size_t i = 0; i < sizeof deep; i += PAGE)
        if (deep[i] != (uint8_t)(id + i / PAGE))
            fail("the stack of a short thread changed at %p", (void *)&deep[i]);
    return arg;
}

static void parent_thread(struct helper *helper)
{
    struct births *births = helper->shared;
    while (!atomic_load(&births->stop)) {
        pthread_attr_t attr;
        pthread_t thread;
        void *result = NULL, *id = (void *)(uintptr_t)rng_next(&helper->rng);
        must_zero(pthread_attr_init(&attr));
        /* The C library has seldom kept a stack of this size, so most stacks are mapped and unmapped. */
        must_zero(pthread_attr_setstacksize(&attr, (rng_range(&helper->rng, 2, 60)) << 18));
        must_zero(pthread_create(&thread, &attr, newborn, id));
        must_zero(pthread_join(thread, &result));
        if (result != id)
            fail("a short thread returned %p for %p", result, id);
        pthread_attr_destroy(&attr);
        move_on();
    }
}

/* All are alive at the same time, so that the C library walks its whole list of stacks. */
static void sibling(struct helper *helper)
{
    struct births *births = helper->shared;
    atomic_fetch_add(&births->ready, 1);
    while (atomic_load(&births->ready) < BROOD) {
        usleep(200);
        move_on();
    }
}

static void setup(struct trial *trial)
{
    trial_alloc(trial, sizeof(struct births));
}

static void op(struct trial *trial)
{
    struct births *births = trial->state;
    struct helper parents[PARENTS];
    atomic_store(&births->stop, false);
    for (unsigned i = 0; i < PARENTS; i++) {
        parents[i] = (struct helper){ .run = parent_thread, .shared = births, .index = i,
                                      .rng = rng_make(rng_next(&trial->rng)) };
        helper_start(&parents[i], "births-parent", NULL);
    }
    for (unsigned i = 0; i < 4; i++) {
        struct child child;
        if (child_fork(&child, "births-child")) {
            step("child: many threads at once");
            atomic_store(&births->ready, 0);
            team_run(BROOD, "sibling", &trial->rng, sibling, births);
            child_end();
        }
        child_expect(&child, 0);
        usleep((unsigned)rng_below(&trial->rng, 2000));
    }
    atomic_store(&births->stop, true);
    for (unsigned i = 0; i < PARENTS; i++)
        helper_join(&parents[i]);
}

static void check(struct trial *trial)
{
    (void)trial;
}

static void teardown(struct trial *trial)
{
    free(trial->state);
}

TORTURE_CASE(births) = {
    .name = "births",
    .about = "threads on new stacks begin and end during forks; children start many at once",
    .weight = 1,
    .share = 1,
    .flags = NOT_UNDER_ASAN,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
