/*
 * sync: everything that threads wait on is in old pages: mutexes of all kinds (also priority-inheriting and
 * robust ones, which the kernel itself accesses), condition variables, semaphores, a rwlock, a barrier, and
 * bare futexes.
 */
#include "torture.h"

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>

#define LOCKS 8
#define TEAM 4

/* One lock in each page, at any offset; the contents around it are verified. */
struct guarded_lock {
    pthread_mutex_t mutex;
    uint64_t count; /* under the mutex */
};

struct sync {
    struct region pages; /* page i holds lock i at its offset */
    size_t offsets[LOCKS];
    uint64_t expected[LOCKS];
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    pthread_rwlock_t *rwlock;
    pthread_barrier_t *barrier;
    sem_t *ping, *pong;
    _Atomic uint32_t *futexes;
    uint64_t *turn, *shared; /* under mutex; under rwlock */
    uint8_t *objects;        /* where these are: one per page */
    struct region around;
};

static struct guarded_lock *lock_at(struct sync *sync, unsigned i)
{
    return (struct guarded_lock *)(region_at(&sync->pages, i) + sync->offsets[i]);
}

static void make_mutex(pthread_mutex_t *mutex, unsigned kind)
{
    static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                 PTHREAD_MUTEX_ADAPTIVE_NP };
    pthread_mutexattr_t attr;
    must_zero(pthread_mutexattr_init(&attr));
    must_zero(pthread_mutexattr_settype(&attr, types[kind % 4]));
    if (kind == 4 || kind == 5)
        must_zero(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT));
    if (kind == 5 || kind == 6)
        must_zero(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    if (kind == 7)
        must_zero(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
    must_zero(pthread_mutex_init(mutex, &attr));
    must_zero(pthread_mutexattr_destroy(&attr));
}

static void *object(struct sync *sync, unsigned page, struct rng *rng)
{
    return sync->objects + page * PAGE + rng_below(rng, (PAGE - 256) / 64) * 64;
}

static void setup(struct trial *trial)
{
    struct sync *sync = trial_alloc(trial, sizeof *sync);
    struct rng *rng = &trial->rng;
    region_make(&sync->pages, LOCKS, rng);
    region_fill(&sync->pages, rng);
    for (unsigned i = 0; i < LOCKS; i++) {
        sync->offsets[i] = rng_below(rng, (PAGE - sizeof(struct guarded_lock)) / 8) * 8;
        make_mutex(&lock_at(sync, i)->mutex, i);
        lock_at(sync, i)->count = 0;
    }
    sync->objects = must(mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    sync->mutex = object(sync, 0, rng);
    sync->cond = object(sync, 2, rng);
    sync->rwlock = object(sync, 4, rng);
    sync->barrier = object(sync, 6, rng);
    sync->ping = object(sync, 8, rng);
    sync->pong = object(sync, 10, rng);
    sync->futexes = object(sync, 12, rng);
    sync->turn = object(sync, 14, rng);
    sync->shared = object(sync, 15, rng);
    make_mutex(sync->mutex, 0);
    must_zero(pthread_cond_init(sync->cond, NULL));
    must_zero(pthread_rwlock_init(sync->rwlock, NULL));
    must_zero(pthread_barrier_init(sync->barrier, NULL, TEAM));
    must(sem_init(sync->ping, 0, 0));
    must(sem_init(sync->pong, 0, 0));
    region_make(&sync->around, trial_pages(trial, 64), rng);
    region_fill(&sync->around, rng);
}

/* Checks that the page around the lock is as written, without the lock itself. */
static void check_around(struct sync *sync, unsigned i)
{
    uint64_t expected[PAGE_WORDS];
    const uint8_t *got = region_at(&sync->pages, i), *want = (const uint8_t *)expected;
    size_t low = sync->offsets[i], high = low + sizeof(struct guarded_lock);
    page_make(expected, region_key(&sync->pages, i));
    for (size_t k = 0; k < PAGE; k++)
        if ((k < low || k >= high) && got[k] != want[k])
            fail("  byte %zu of the page with lock %u at address %p: got %02x, expected %02x", k, i,
                 (const void *)(got + k), got[k], want[k]);
    move_on();
}

static void lock(struct sync *sync, unsigned i)
{
    int error = pthread_mutex_lock(&lock_at(sync, i)->mutex);
    if (error == EOWNERDEAD)
        error = pthread_mutex_consistent(&lock_at(sync, i)->mutex);
    if (error)
        fail("pthread_mutex_lock of kind %u: error %d", i, error);
}

static void unlock(struct sync *sync, unsigned i)
{
    must_zero(pthread_mutex_unlock(&lock_at(sync, i)->mutex));
    move_on();
}

#define COUNTS 120
static void counter(struct helper *helper)
{
    struct sync *sync = helper->shared;
    step("counts under mutexes");
    for (int i = 0; i < COUNTS; i++) {
        unsigned which = (unsigned)((unsigned)i + helper->index) % LOCKS;
        lock(sync, which);
        uint64_t count = lock_at(sync, which)->count;
        if (i % 8 == 0)
            sched_yield();
        lock_at(sync, which)->count = count + 1;
        unlock(sync, which);
    }
}

static void counts(struct sync *sync, struct rng *rng)
{
    team_run(TEAM, "sync-count", rng, counter, sync);
    for (unsigned i = 0; i < LOCKS; i++) {
        sync->expected[i] += TEAM * COUNTS / LOCKS;
        if (lock_at(sync, i)->count != sync->expected[i])
            fail("counter %u at address %p: got %llu, expected %llu", i, (void *)&lock_at(sync, i)->count,
                 (unsigned long long)lock_at(sync, i)->count, (unsigned long long)sync->expected[i]);
        check_around(sync, i);
    }
}

/* Each waits for its turn with the condition variable, then with semaphores in pairs, then at the
 * barrier. */
static void taker(struct helper *helper)
{
    struct sync *sync = helper->shared;
    for (uint64_t round = 0; round < 12; round++) {
        step("its turn by condition variable");
        must_zero(pthread_mutex_lock(sync->mutex));
        while (*sync->turn % TEAM != helper->index)
            must_zero(pthread_cond_wait(sync->cond, sync->mutex));
        ++*sync->turn;
        must_zero(pthread_cond_broadcast(sync->cond));
        must_zero(pthread_mutex_unlock(sync->mutex));
        step("semaphores");
        sem_t *mine = helper->index % 2 ? sync->ping : sync->pong, *other = helper->index % 2 ? sync->pong : sync->ping;
        must(sem_post(other));
        while (sem_wait(mine) != 0)
            if (errno != EINTR)
                fail_errno("sem_wait");
        step("rwlock");
        must_zero(pthread_rwlock_wrlock(sync->rwlock));
        ++*sync->shared;
        must_zero(pthread_rwlock_unlock(sync->rwlock));
        step("barrier");
        int error = pthread_barrier_wait(sync->barrier);
        if (error != 0 && error != PTHREAD_BARRIER_SERIAL_THREAD)
            fail("pthread_barrier_wait: error %d", error);
        must_zero(pthread_rwlock_rdlock(sync->rwlock));
        uint64_t seen = *sync->shared;
        must_zero(pthread_rwlock_unlock(sync->rwlock));
        if (seen % TEAM != 0)
            fail("behind the barrier %llu turns were counted, no multiple of %d", (unsigned long long)seen, TEAM);
        error = pthread_barrier_wait(sync->barrier);
        if (error != 0 && error != PTHREAD_BARRIER_SERIAL_THREAD)
            fail("pthread_barrier_wait: error %d", error);
    }
}

static long futex(_Atomic uint32_t *word, int call, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, call | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

/* Passes a number around with bare futexes, one word per thread, all in one old page. */
static void futex_ring(struct helper *helper)
{
    struct sync *sync = helper->shared;
    _Atomic uint32_t *mine = &sync->futexes[helper->index], *next = &sync->futexes[(helper->index + 1) % TEAM];
    step("a ring of futexes");
    for (uint32_t round = 1; round <= 40; round++) {
        if (helper->index != 0 || round > 1)
            while (atomic_load(mine) < round - (helper->index == 0)) {
                struct timespec second = { 1, 0 };
                uint32_t seen = atomic_load(mine);
                if (seen < round - (helper->index == 0) && futex(mine, FUTEX_WAIT, seen, &second) < 0 &&
                    errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
                    fail_errno("futex wait at %p", (void *)mine);
            }
        atomic_fetch_add(next, 1);
        if (futex(next, FUTEX_WAKE, 1, NULL) < 0)
            fail_errno("futex wake at %p", (void *)next);
        move_on();
    }
}

/* Ends while it holds robust mutexes, which the kernel finds by the thread's list in old memory and marks. */
static void dies_holding(struct helper *helper)
{
    struct sync *sync = helper->shared;
    lock(sync, 5);
    lock(sync, 6);
}

static void robust(struct sync *sync, struct rng *rng)
{
    step("robust mutexes of a dead owner");
    team_run(1, "sync-dies", rng, dies_holding, sync);
    for (unsigned i = 5; i <= 6; i++) {
        int error = pthread_mutex_lock(&lock_at(sync, i)->mutex);
        if (error != EOWNERDEAD)
            fail("a robust mutex whose owner died: error %d, expected EOWNERDEAD", error);
        must_zero(pthread_mutex_consistent(&lock_at(sync, i)->mutex));
        unlock(sync, i);
    }
}

static void op(struct trial *trial)
{
    struct sync *sync = trial->state;
    struct rng *rng = &trial->rng;
    switch (rng_below(rng, 4)) {
    case 0:
        counts(sync, rng);
        break;
    case 1:
        *sync->turn = *sync->shared = 0;
        team_run(TEAM, "sync-turns", rng, taker, sync);
        break;
    case 2:
        for (int i = 0; i < TEAM; i++)
            atomic_store(&sync->futexes[i], 0);
        team_run(TEAM, "sync-futex", rng, futex_ring, sync);
        break;
    default:
        robust(sync, rng);
    }
    region_churn(&sync->around, rng, 60, 30);
}

static void check(struct trial *trial)
{
    struct sync *sync = trial->state;
    for (unsigned i = 0; i < LOCKS; i++) {
        check_around(sync, i);
        if (lock_at(sync, i)->count != sync->expected[i])
            fail("counter %u: got %llu, expected %llu", i, (unsigned long long)lock_at(sync, i)->count,
                 (unsigned long long)sync->expected[i]);
    }
    region_check_all(&sync->around);
}

static void teardown(struct trial *trial)
{
    struct sync *sync = trial->state;
    region_drop(&sync->pages);
    region_drop(&sync->around);
    munmap(sync->objects, 16 * PAGE);
    free(sync);
}

TORTURE_CASE(sync) = {
    .name = "sync",
    .about = "mutexes (PI, robust), condition variables, semaphores, barriers, futexes in old pages",
    .weight = 12,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
