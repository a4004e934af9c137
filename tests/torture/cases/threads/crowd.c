/*
 * crowd: hundreds of threads at once. Most read old pages, all at the same moment; the others meanwhile
 * change their memory again and again: they map and unmap, discard, and move. A handler of their faults gets
 * more waiting threads, and more changes, than fit into any small queue.
 */
#include "torture.h"

#include <pthread.h>
#include <sched.h>

#define MOST 300
#define OWN_PAGES 32
#define WORDS (PAGE / sizeof(uint64_t))

struct crowd {
    pthread_mutex_t gate;
    pthread_cond_t opens;
    bool is_open;
    uint64_t *pages; /* page i holds mix64(seed + i) where i % 8 == 0, and counts up from there */
    size_t count;
    uint64_t seed;
    unsigned threads;
    _Atomic unsigned looking;
    _Atomic size_t bad_page;
    _Atomic unsigned bad_changes;
};

struct one {
    struct crowd *crowd;
    unsigned index;
};

static void fill(uint64_t *words, uint64_t id)
{
    for (size_t i = 0; i < WORDS; i++)
        words[i] = i % 8 ? id + i : mix64(id + i);
}

static bool is_right(const uint64_t *words, uint64_t id)
{
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != (i % 8 ? id + i : mix64(id + i)))
            return false;
    return true;
}

static bool is_zero(const uint64_t *words)
{
    for (size_t i = 0; i < WORDS; i++)
        if (words[i])
            return false;
    return true;
}

/* Lets all threads begin at the same time. */
static void wait_at_gate(struct crowd *crowd)
{
    pthread_mutex_lock(&crowd->gate);
    while (!crowd->is_open)
        pthread_cond_wait(&crowd->opens, &crowd->gate);
    pthread_mutex_unlock(&crowd->gate);
}

static void set_gate(struct crowd *crowd, bool is_open)
{
    pthread_mutex_lock(&crowd->gate);
    crowd->is_open = is_open;
    pthread_cond_broadcast(&crowd->opens);
    pthread_mutex_unlock(&crowd->gate);
}

static void *looker(void *arg)
{
    struct one *one = arg;
    struct crowd *crowd = one->crowd;
    wait_at_gate(crowd);
    /* Each thread begins at another page; together they read each page several times. */
    size_t at = crowd->count / crowd->threads * one->index;
    for (size_t i = 0; i < 24; i++) {
        size_t page = (at + i * 7) % crowd->count;
        if (!is_right(crowd->pages + page * WORDS, crowd->seed + page))
            atomic_store(&crowd->bad_page, page + 1);
    }
    atomic_fetch_sub(&crowd->looking, 1);
    return NULL;
}

/* Changes memory of its own: kept pages must stay, and fresh ones must be zeros. */
static bool change(uint64_t **own, unsigned kind, uint64_t id)
{
    const size_t half = OWN_PAGES / 2 * PAGE;
    if (kind == 0) {
        uint64_t *fresh = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fresh == MAP_FAILED || !is_zero(fresh) || !is_zero(fresh + half / sizeof *fresh))
            return false;
        fresh[0] = 1;
        return munmap(fresh, 2 * half) == 0;
    }
    if (kind == 1) {
        uint64_t *second = *own + half / sizeof **own;
        if (madvise(second, half, MADV_DONTNEED) != 0 || !is_zero(second))
            return false;
        for (size_t page = OWN_PAGES / 2; page < OWN_PAGES; page++)
            fill(*own + page * WORDS, id + page);
        return true;
    }
    uint64_t *grown = mremap(*own, 2 * half, 4 * half, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED)
        return false;
    *own = grown;
    return mremap(grown, 4 * half, 2 * half, 0) == (void *)grown;
}

static void *changer(void *arg)
{
    struct one *one = arg;
    struct crowd *crowd = one->crowd;
    uint64_t id = mix64(crowd->seed + one->index), *own;
    own = mmap(NULL, OWN_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool right = own != MAP_FAILED;
    for (size_t page = 0; right && page < OWN_PAGES; page++)
        fill(own + page * WORDS, id + page);
    wait_at_gate(crowd);
    for (unsigned round = 0; right && (round < 4 || atomic_load(&crowd->looking)); round++) {
        right = change(&own, (one->index + round / 16) % 3, id);
        for (size_t page = 0; right && page < OWN_PAGES; page += 5)
            right = is_right(own + page * WORDS, id + page);
    }
    if (!right)
        atomic_fetch_add(&crowd->bad_changes, 1);
    if (own != MAP_FAILED)
        munmap(own, OWN_PAGES * PAGE);
    return NULL;
}

static void setup(struct trial *trial)
{
    struct crowd *crowd = trial_alloc(trial, sizeof *crowd);
    crowd->count = trial_pages(trial, MOST);
    crowd->seed = rng_next(&trial->rng);
    must_zero(pthread_mutex_init(&crowd->gate, NULL));
    must_zero(pthread_cond_init(&crowd->opens, NULL));
    crowd->pages = must(mmap(NULL, crowd->count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t page = 0; page < crowd->count; page++) {
        fill(crowd->pages + page * WORDS, crowd->seed + page);
        move_on();
    }
}

static void op(struct trial *trial)
{
    static _Atomic bool said;
    struct crowd *crowd = trial->state;
    struct one ones[MOST];
    pthread_t threads[MOST];
    pthread_attr_t attr;
    unsigned made = 0;
    step("hundreds of threads");
    set_gate(crowd, false);
    crowd->threads = (unsigned)rng_range(&trial->rng, 100, MOST);
    atomic_store(&crowd->looking, 0);
    must_zero(pthread_attr_init(&attr));
    must_zero(pthread_attr_setstacksize(&attr, 64 << 10));
    for (; made < crowd->threads; made++) {
        ones[made] = (struct one){ crowd, made };
        bool looks = made % 10 != 0;
        int error = pthread_create(&threads[made], &attr, looks ? looker : changer, &ones[made]);
        if (error != 0) {
            say_skipped(&said, "crowd: no more than %u threads are allowed here", made);
            break;
        }
        atomic_fetch_add(&crowd->looking, looks);
        move_on();
    }
    set_gate(crowd, true);
    for (unsigned i = 0; i < made; i++)
        thread_join(threads[i], me);
    pthread_attr_destroy(&attr);
    size_t bad = atomic_load(&crowd->bad_page);
    if (bad)
        fail("one of %u threads found page %zu at %p wrong", crowd->threads, bad - 1, (void *)(crowd->pages + (bad - 1) * WORDS));
    if (atomic_load(&crowd->bad_changes))
        fail("%u of %u threads found wrong what they had mapped, discarded or moved", atomic_load(&crowd->bad_changes), crowd->threads);
}

static void check(struct trial *trial)
{
    struct crowd *crowd = trial->state;
    for (size_t page = 0; page < crowd->count; page++) {
        if (!is_right(crowd->pages + page * WORDS, crowd->seed + page))
            fail("page %zu at %p is wrong", page, (void *)(crowd->pages + page * WORDS));
        move_on();
    }
}

static void teardown(struct trial *trial)
{
    struct crowd *crowd = trial->state;
    must(munmap(crowd->pages, crowd->count * PAGE));
    free(crowd);
}

TORTURE_CASE(crowd) = {
    .name = "crowd",
    .about = "hundreds of threads look at old pages at once, others change their memory meanwhile",
    .weight = 1,
    .share = 2,
    .instances = 1,
    .flags = NOT_UNDER_ASAN,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
