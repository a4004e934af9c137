/*
 * threads: threads start and end all the time, joined and detached, on stacks of the library and on stacks
 * made of old pages; thread-local variables, thread-specific data and everything on their stacks are
 * checked. Some threads, the sleepers, stay: they block deep in recursion while their stacks grow old, and
 * check every frame when they are woken.
 */
#include "torture.h"
#include "stack.h"

#include <semaphore.h>

#define SLEEPERS 3
#define OWN_STACK ((size_t)256 << 10)
#define KEYS 8

/* Large and initialised: the loader's image of it must reach every new thread. */
#define TLS_WORDS 1536
static __thread uint64_t tls_big[TLS_WORDS];
static __thread uint64_t tls_tagged[4] = { 0x1111, 0x2222, 0x3333, 0x4444 };
static pthread_key_t keys[KEYS];
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;

struct sleeper {
    struct helper helper;
    sem_t wake, done;
    _Atomic bool end;
    uint64_t id;
    bool alive;
};

struct threads {
    struct sleeper sleepers[SLEEPERS];
    struct region stacks; /* old pages for stacks */
    pid_t owner;          /* in a forked child there are no sleepers */
};

struct visit {
    uint64_t id;
    sem_t *finished; /* detached: tells the end */
    struct slot *slot;
    _Atomic unsigned destroyed;
};

static void key_destroy(void *value)
{
    struct visit *visit = value;
    atomic_fetch_add(&visit->destroyed, 1);
}

static void keys_make(void)
{
    for (int i = 0; i < KEYS; i++)
        must_zero(pthread_key_create(&keys[i], key_destroy));
}

/* Hidden from the compiler: GCC 12 folds the constants of mix64 into an offset that overflows. */
static uint64_t *tls_words(void)
{
    uint64_t *words = tls_big;
    __asm__("" : "+r"(words));
    return words;
}

static void check_tls(uint64_t id)
{
    const uint64_t *words = tls_words();
    for (size_t i = 0; i < TLS_WORDS; i++)
        if (words[i] != mix64(id + i))
            fail("  thread-local word %zu at address %p: got %016llx, expected %016llx", i, (const void *)&words[i],
                 (unsigned long long)words[i], (unsigned long long)mix64(id + i));
}

/* A new thread must find zeros and the image of the initialised variables. */
static void check_fresh_tls(void)
{
    zeros_check(tls_big, sizeof tls_big, "a new thread's uninitialised thread-local variables");
    for (uint64_t i = 0; i < 4; i++)
        if (tls_tagged[i] != 0x1111 * (i + 1))
            fail("  a new thread found its initialised thread-local variable %llu at %p as %llx",
                 (unsigned long long)i, (void *)&tls_tagged[i], (unsigned long long)tls_tagged[i]);
}

static void fill_tls(uint64_t id)
{
    uint64_t *words = tls_words();
    for (size_t i = 0; i < TLS_WORDS; i++)
        words[i] = mix64(id + i);
    tls_tagged[0] = id;
}

static void *visitor(void *arg)
{
    struct visit *visit = arg;
    slot_become(visit->slot);
    step("a thread lives");
    check_fresh_tls();
    fill_tls(visit->id);
    for (int i = 0; i < KEYS; i++) {
        if (pthread_getspecific(keys[i]) != NULL)
            fail("a new thread found thread-specific data in key %d", i);
        must_zero(pthread_setspecific(keys[i], visit));
    }
    stack_dive(visit->id, (unsigned)(visit->id % 12), NULL, NULL);
    if (visit->id % 4 == 0)
        stack_big_frame(visit->id, 100000);
    check_tls(visit->id);
    /* malloc in a short-lived thread: its arena and cache are made and freed. */
    void *block = malloc(5000);
    if (block == NULL)
        fail_errno("malloc");
    bytes_make(block, 5000, visit->id, 1);
    bytes_check(block, 5000, visit->id, 1);
    free(block);
    step("a thread ends");
    struct slot *slot = visit->slot;
    if (visit->finished) {
        slot_release(slot);
        sem_post(visit->finished);
        return NULL;
    }
    return visit;
}

/* Waits for a semaphore, which is in old memory, and then moves on. */
static void sem_wait_moving(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        if (errno != EINTR)
            fail_errno("sem_wait");
    move_on();
}

static void bottom_of_sleeper(void *arg)
{
    struct sleeper *sleeper = arg;
    for (;;) {
        step("sleeps deep in recursion");
        /* A sleeper that is not woken does not count as hung: its slot is not watched while it sleeps. */
        atomic_store(&me->tid, 0);
        sem_wait_moving(&sleeper->wake);
        slot_become(me);
        check_tls(sleeper->id);
        if (atomic_load(&sleeper->end))
            return;
        stack_dive(sleeper->id + 7, 3, NULL, NULL);
        sem_post(&sleeper->done);
    }
}

static void sleeper_main(struct helper *helper)
{
    struct sleeper *sleeper = helper->shared;
    fill_tls(sleeper->id);
    uint64_t sum = stack_dive(sleeper->id, 12, bottom_of_sleeper, sleeper);
    if (sum != stack_dive(sleeper->id, 12, NULL, NULL))
        fail("the frames of a sleeper changed");
    check_tls(sleeper->id);
}

static void sleeper_start(struct sleeper *sleeper, struct rng *rng)
{
    pthread_attr_t attr;
    memset(sleeper, 0, sizeof *sleeper);
    sleeper->id = rng_next(rng);
    must(sem_init(&sleeper->wake, 0, 0));
    must(sem_init(&sleeper->done, 0, 0));
    sleeper->helper = (struct helper){ .run = sleeper_main, .shared = sleeper };
    must_zero(pthread_attr_init(&attr));
    must_zero(pthread_attr_setstacksize(&attr, 1 << 20));
    helper_start(&sleeper->helper, "sleeper", &attr);
    must_zero(pthread_attr_destroy(&attr));
    sleeper->alive = true;
}

static void sleeper_end(struct sleeper *sleeper)
{
    step("a sleeper ends");
    atomic_store(&sleeper->end, true);
    must(sem_post(&sleeper->wake));
    helper_join(&sleeper->helper);
    sleeper->alive = false;
}

static void setup(struct trial *trial)
{
    struct threads *threads = trial_alloc(trial, sizeof *threads);
    pthread_once(&keys_once, keys_make);
    threads->owner = getpid();
    region_make(&threads->stacks, 2 * OWN_STACK / PAGE, &trial->rng);
    region_fill(&threads->stacks, &trial->rng);
    for (int i = 0; i < SLEEPERS; i++)
        sleeper_start(&threads->sleepers[i], &trial->rng);
}

static void joined(struct threads *threads, struct rng *rng)
{
    struct visit visits[6];
    pthread_t handles[6];
    unsigned count = (unsigned)rng_range(rng, 1, 6);
    step("threads start");
    for (unsigned i = 0; i < count; i++) {
        pthread_attr_t attr;
        must_zero(pthread_attr_init(&attr));
        visits[i] = (struct visit){ .id = rng_next(rng), .slot = slot_take("visitor") };
        /* The first two may have stacks in pages of the trial, full of old data. */
        if (i < 2 && rng_chance(rng, 50))
            must_zero(pthread_attr_setstack(&attr, threads->stacks.base + i * OWN_STACK, OWN_STACK));
        must_zero(pthread_create(&handles[i], &attr, visitor, &visits[i]));
        must_zero(pthread_attr_destroy(&attr));
    }
    step("threads are joined");
    for (unsigned i = 0; i < count; i++) {
        if (thread_join(handles[i], visits[i].slot) != &visits[i])
            fail("pthread_join gave another value than the thread returned");
        slot_release(visits[i].slot);
        if (atomic_load(&visits[i].destroyed) != KEYS)
            fail("%u of %d destructors of thread-specific data ran", atomic_load(&visits[i].destroyed), KEYS);
    }
    /* The threads have overwritten the stacks, so these get new contents. */
    region_fill(&threads->stacks, rng);
}

static void detached(struct rng *rng)
{
    struct detached {
        sem_t finished;
        struct visit visits[4];
    } *d = calloc(1, sizeof *d);
    unsigned count = (unsigned)rng_range(rng, 1, 4), destroyed;
    pthread_attr_t attr;
    if (d == NULL)
        fail_errno("calloc");
    step("detached threads");
    must(sem_init(&d->finished, 0, 0));
    must_zero(pthread_attr_init(&attr));
    must_zero(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED));
    for (unsigned i = 0; i < count; i++) {
        pthread_t handle;
        d->visits[i] = (struct visit){ .id = rng_next(rng), .finished = &d->finished, .slot = slot_take("detached") };
        must_zero(pthread_create(&handle, &attr, visitor, &d->visits[i]));
    }
    for (unsigned i = 0; i < count; i++)
        sem_wait_moving(&d->finished);
    /* They may still be in their destructors, which write to the visits. */
    do {
        destroyed = 0;
        for (unsigned i = 0; i < count; i++)
            destroyed += atomic_load(&d->visits[i].destroyed);
        sched_yield();
    } while (destroyed != count * KEYS);
    must_zero(pthread_attr_destroy(&attr));
    free(d);
    move_on();
}

static void op(struct trial *trial)
{
    struct threads *threads = trial->state;
    struct rng *rng = &trial->rng;
    struct sleeper *sleeper = &threads->sleepers[rng_below(rng, SLEEPERS)];
    switch (rng_below(rng, 4)) {
    case 0:
        step("waking a sleeper");
        must(sem_post(&sleeper->wake));
        sem_wait_moving(&sleeper->done);
        if (rng_chance(rng, 20)) {
            sleeper_end(sleeper);
            sleeper_start(sleeper, rng);
        }
        break;
    case 1:
        detached(rng);
        break;
    default:
        region_check_all(&threads->stacks);
        joined(threads, rng);
    }
}

static void check(struct trial *trial)
{
    struct threads *threads = trial->state;
    region_check_all(&threads->stacks);
    if (threads->owner != getpid())
        return;
    for (int i = 0; i < SLEEPERS; i++) {
        must(sem_post(&threads->sleepers[i].wake));
        sem_wait_moving(&threads->sleepers[i].done);
    }
}

static void teardown(struct trial *trial)
{
    struct threads *threads = trial->state;
    for (int i = 0; i < SLEEPERS; i++)
        sleeper_end(&threads->sleepers[i]);
    region_drop(&threads->stacks);
    free(threads);
}

TORTURE_CASE(threads) = {
    .name = "threads",
    .about = "threads that start, end and sleep; TLS, keys, detached, own stacks, deep recursion",
    .weight = 20,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
