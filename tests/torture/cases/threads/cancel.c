/*
 * cancel: threads are cancelled while their stacks are old: in a blocking call, in a condition wait, and in
 * the middle of work. The unwinder runs cleanup handlers, which verify the old frames.
 */
#include "torture.h"
#include "stack.h"

#include <fcntl.h>
#include <sys/stat.h>

#define THREADS 4

enum wait { IN_READ, IN_OPEN, IN_COND, IN_WORK, WAITS };

struct victim {
    pthread_t thread;
    struct slot *slot;
    enum wait wait;
    uint64_t id;
    int pipe[2];
    char fifo[300];
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    _Atomic bool settled;
    _Atomic unsigned cleaned;
    uint64_t words[64];
};

/* Hides from the compiler that the waits below never end. */
static volatile bool for_ever = true;

struct victims {
    struct victim all[THREADS];
    struct region around;
    pid_t owner;
};

static void cleanup(void *arg)
{
    struct victim *victim = arg;
    for (size_t i = 0; i < 64; i++)
        if (victim->words[i] != mix64(victim->id + i))
            fail("  word %zu of a cancelled thread at %p is wrong", i, (void *)&victim->words[i]);
    stack_dive(victim->id, 4, NULL, NULL);
    atomic_fetch_add(&victim->cleaned, 1);
}

static void unlock(void *arg)
{
    struct victim *victim = arg;
    must_zero(pthread_mutex_unlock(&victim->mutex));
}

/* A frame with data in it, and a handler that verifies this frame. */
struct framed {
    uint8_t *frame;
    size_t length;
    uint64_t id;
    struct victim *victim;
};

static void check_frame(void *arg)
{
    struct framed *framed = arg;
    bytes_check(framed->frame, framed->length, framed->id, 1);
    atomic_fetch_add(&framed->victim->cleaned, 1);
}

static __attribute__((noinline)) void block(struct victim *victim, unsigned depth)
{
    uint8_t frame[3 * PAGE];
    struct framed framed = { frame, sizeof frame, victim->id + depth, victim };
    bytes_make(frame, sizeof frame, framed.id, 1);
    pthread_cleanup_push(check_frame, &framed);
    if (depth > 0) {
        block(victim, depth - 1);
    } else if (victim->wait == IN_READ) {
        uint8_t byte;
        atomic_store(&victim->settled, true);
        /* Only cancellation ends this: nothing is written to the pipe. */
        while (for_ever)
            if (read(victim->pipe[0], &byte, 1) >= 0 || errno != EINTR)
                fail("a read from an empty pipe ended");
    } else if (victim->wait == IN_OPEN) {
        atomic_store(&victim->settled, true);
        /* The same: no process opens the pipe to write. */
        while (for_ever)
            if (open(victim->fifo, O_RDONLY | O_CLOEXEC) >= 0 || errno != EINTR)
                fail("a FIFO that nobody writes into could be opened");
    } else if (victim->wait == IN_COND) {
        must_zero(pthread_mutex_lock(&victim->mutex));
        pthread_cleanup_push(unlock, victim);
        atomic_store(&victim->settled, true);
        while (for_ever)
            must_zero(pthread_cond_wait(&victim->cond, &victim->mutex));
        pthread_cleanup_pop(1);
    } else {
        atomic_store(&victim->settled, true);
        while (for_ever) {
            int old;
            must_zero(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
            stack_dive(victim->id, 5, NULL, NULL);
            must_zero(pthread_setcancelstate(old, NULL));
            pthread_testcancel();
            usleep(2000);
        }
    }
    pthread_cleanup_pop(1);
}

static void *victim_main(void *arg)
{
    struct victim *victim = arg;
    slot_become(victim->slot);
    step("a thread that will be cancelled");
    for (size_t i = 0; i < 64; i++)
        victim->words[i] = mix64(victim->id + i);
    if (victim->wait != IN_WORK)
        /* It does not move until it is cancelled, so its slot is not watched until then. */
        atomic_store(&victim->slot->tid, 0);
    pthread_cleanup_push(cleanup, victim);
    block(victim, 5);
    pthread_cleanup_pop(1);
    return NULL;
}

static void victim_start(struct victim *victim, struct rng *rng)
{
    memset(victim, 0, sizeof *victim);
    victim->id = rng_next(rng);
    victim->wait = (enum wait)rng_below(rng, WAITS);
    victim->slot = slot_take("cancelled");
    must(pipe2(victim->pipe, O_CLOEXEC));
    snprintf(victim->fifo, sizeof victim->fifo, "%s/torture-%d-%016lx", options.dir, getpid(), (unsigned long)victim->id);
    if (victim->wait == IN_OPEN)
        must(mkfifo(victim->fifo, 0600));
    must_zero(pthread_mutex_init(&victim->mutex, NULL));
    must_zero(pthread_cond_init(&victim->cond, NULL));
    must_zero(pthread_create(&victim->thread, NULL, victim_main, victim));
}

static void victim_cancel(struct victim *victim)
{
    step("cancelling a thread");
    while (!atomic_load(&victim->settled)) {
        move_on();
        usleep(200);
    }
    must_zero(pthread_cancel(victim->thread));
    if (thread_join(victim->thread, victim->slot) != PTHREAD_CANCELED)
        fail("a cancelled thread returned something else");
    if (atomic_load(&victim->cleaned) != 7)
        fail("%u of 7 cleanup handlers ran in a cancelled thread", atomic_load(&victim->cleaned));
    slot_release(victim->slot);
    if (victim->wait == IN_OPEN)
        must(unlink(victim->fifo));
    must_zero(pthread_mutex_lock(&victim->mutex));
    must_zero(pthread_mutex_unlock(&victim->mutex));
    must_zero(pthread_mutex_destroy(&victim->mutex));
    must_zero(pthread_cond_destroy(&victim->cond));
    close(victim->pipe[0]);
    close(victim->pipe[1]);
}

static void setup(struct trial *trial)
{
    struct victims *victims = trial_alloc(trial, sizeof *victims);
    victims->owner = getpid();
    region_make(&victims->around, trial_pages(trial, 64), &trial->rng);
    region_fill(&victims->around, &trial->rng);
    for (int i = 0; i < THREADS; i++)
        victim_start(&victims->all[i], &trial->rng);
}

static void op(struct trial *trial)
{
    struct victims *victims = trial->state;
    struct victim *victim = &victims->all[rng_below(&trial->rng, THREADS)];
    victim_cancel(victim);
    victim_start(victim, &trial->rng);
    region_churn(&victims->around, &trial->rng, 50, 30);
}

static void check(struct trial *trial)
{
    struct victims *victims = trial->state;
    region_check_all(&victims->around);
}

static void teardown(struct trial *trial)
{
    struct victims *victims = trial->state;
    for (int i = 0; i < THREADS; i++)
        victim_cancel(&victims->all[i]);
    region_drop(&victims->around);
    free(victims);
}

TORTURE_CASE(cancel) = {
    .name = "cancel",
    .about = "pthread_cancel of threads with old stacks, cleanup handlers that look at them",
    .weight = 12,
    .share = 1,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
