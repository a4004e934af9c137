/*
 * context: many stacks in one thread. Coroutines (makecontext, swapcontext) have their stacks in old pages,
 * each deep in recursion; longjmp leaves deep old frames behind. Coroutines move between threads with their
 * trial.
 */
#include "torture.h"
#include "stack.h"

#include <setjmp.h>
#include <ucontext.h>

#define COROUTINES 4
#define STACK ((size_t)128 << 10)

struct coroutine {
    ucontext_t inside, outside;
    uint8_t *stack;
    uint64_t id;
    unsigned turns;
    bool finished;
};

struct contexts {
    struct coroutine coroutines[COROUTINES];
    struct region around;
    jmp_buf back;
};

/* After the switch this may be another thread, with other thread-local variables: so no inlining. */
static __attribute__((noinline)) void leave(void *arg)
{
    struct coroutine *coroutine = arg;
    coroutine->turns++;
    must(swapcontext(&coroutine->inside, &coroutine->outside));
}

static void body(uint32_t low, uint32_t high)
{
    struct coroutine *coroutine = (struct coroutine *)((uintptr_t)high << 32 | low);
    for (unsigned turn = 0; turn < 3; turn++)
        stack_dive(coroutine->id + turn, 5, leave, coroutine);
    coroutine->finished = true;
    leave(coroutine);
    fail("a finished coroutine was entered again");
}

static void begin(struct coroutine *coroutine, struct rng *rng)
{
    coroutine->id = rng_next(rng);
    coroutine->turns = 0;
    coroutine->finished = false;
    must(getcontext(&coroutine->inside));
    coroutine->inside.uc_stack.ss_sp = coroutine->stack;
    coroutine->inside.uc_stack.ss_size = STACK;
    coroutine->inside.uc_link = NULL;
    makecontext(&coroutine->inside, (void (*)(void))body, 2, (uint32_t)(uintptr_t)coroutine,
                (uint32_t)((uintptr_t)coroutine >> 32));
}

static __attribute__((noinline)) void enter(struct coroutine *coroutine)
{
    must(swapcontext(&coroutine->outside, &coroutine->inside));
}

static void setup(struct trial *trial)
{
    struct contexts *contexts = trial_alloc(trial, sizeof *contexts);
    region_make(&contexts->around, trial_pages(trial, 32), &trial->rng);
    region_fill(&contexts->around, &trial->rng);
    for (int i = 0; i < COROUTINES; i++) {
        contexts->coroutines[i].stack = must(mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
        begin(&contexts->coroutines[i], &trial->rng);
    }
}

static void jump(void *arg)
{
    struct contexts *contexts = arg;
    longjmp(contexts->back, 1);
}

static __attribute__((noinline)) void jump_out(struct contexts *contexts, uint64_t id)
{
    if (setjmp(contexts->back) == 0) {
        stack_dive(id, 8, jump, contexts);
        fail("longjmp came back");
    }
}

static void op(struct trial *trial)
{
    struct contexts *contexts = trial->state;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 6; i++) {
        struct coroutine *coroutine = &contexts->coroutines[rng_below(rng, COROUTINES)];
        unsigned before = coroutine->turns;
        step("into a coroutine");
        enter(coroutine);
        if (coroutine->turns != before + 1)
            fail("a coroutine took %u turns instead of one", coroutine->turns - before);
        if (coroutine->finished)
            begin(coroutine, rng);
        step("longjmp");
        jump_out(contexts, rng_next(rng));
        region_churn(&contexts->around, rng, 20, 30);
    }
}

static void check(struct trial *trial)
{
    struct contexts *contexts = trial->state;
    region_check_all(&contexts->around);
}

static void teardown(struct trial *trial)
{
    struct contexts *contexts = trial->state;
    for (int i = 0; i < COROUTINES; i++)
        munmap(contexts->coroutines[i].stack, STACK);
    region_drop(&contexts->around);
    free(contexts);
}

TORTURE_CASE(context) = {
    .name = "context",
    .about = "ucontext coroutines on old mapped stacks, setjmp and longjmp over old frames",
    .weight = 10,
    .share = 1,
    .flags = NOT_UNDER_ASAN, /* its shadow of the stack knows nothing of these switches */
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
