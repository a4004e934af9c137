/* Helper threads; see team.h. */
#include "torture.h"

#include <time.h>

static void *helper_main(void *arg)
{
    struct helper *helper = arg;
    slot_become(helper->slot);
    step("helper runs");
    helper->run(helper);
    step("helper ends");
    /* The joining thread returns the slot: until then the watchdog sees where this thread hangs. */
    return helper->result;
}

void helper_start(struct helper *helper, const char *name, const pthread_attr_t *attr)
{
    helper->slot = slot_take(name);
    must_zero(pthread_create(&helper->thread, attr, helper_main, helper));
}

void *thread_join(pthread_t thread, struct slot *slot)
{
    uint64_t seen = 0;
    void *result = NULL;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        int error = pthread_timedjoin_np(thread, &result, &until);
        if (error == 0)
            break;
        if (error != ETIMEDOUT)
            fail("pthread_join: error %d", error);
        uint64_t moves = slot ? atomic_load(&slot->moves) : 0;
        if (moves != seen)
            move_on();
        seen = moves;
    }
    move_on();
    return result;
}

void *helper_join(struct helper *helper)
{
    void *result = thread_join(helper->thread, helper->slot);
    slot_release(helper->slot);
    return result;
}

void team_run(unsigned count, const char *name, struct rng *rng, void (*run)(struct helper *),
              void *shared)
{
    struct helper helpers[TEAM_MOST];
    if (count > TEAM_MOST)
        count = TEAM_MOST;
    for (unsigned i = 0; i < count; i++) {
        helpers[i] = (struct helper){ .run = run, .shared = shared, .index = i,
                                      .rng = rng_make(rng_next(rng)) };
        helper_start(&helpers[i], name, NULL);
    }
    step("waiting for the helpers");
    for (unsigned i = 0; i < count; i++)
        helper_join(&helpers[i]);
}
