/*
 * signals: handlers run on alternate stacks in old pages, recurse deeply there, touch other old pages and
 * interrupt each other; timers fire in the middle of memory work; SIGSEGV is handled on an old alternate
 * stack.
 */
#include "torture.h"
#include "stack.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define ALTSTACK ((size_t)384 << 10)
#define SIG_DIVE (SIGRTMIN + 1) /* raised; the handler dives */
#define SIG_TIMER (SIGRTMIN + 2) /* by timers; the handler verifies old pages */

struct signals {
    struct region stack;  /* the alternate stack */
    struct region looked; /* what handlers verify; not written meanwhile */
    struct region worked; /* what the interrupted thread works on */
};

/* Data for the handlers of a thread, which cannot get an argument. */
static __thread struct {
    struct signals *signals;
    volatile sig_atomic_t dives, ticks, depth;
    uint64_t id;
    struct rng rng;
} now;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void on_altstack(const void *here, const char *who)
{
    struct signals *signals = now.signals;
    if ((const uint8_t *)here < signals->stack.base ||
        (const uint8_t *)here >= signals->stack.base + signals->stack.pages * PAGE)
        fail("%s does not run on its alternate stack but at %p", who, here);
}

static void on_dive(int signal, siginfo_t *info, void *context)
{
    int error = errno;
    (void)signal;
    (void)context;
    uint8_t here;
    on_altstack(&here, "a handler");
    if (info->si_code == SI_QUEUE && (uint64_t)(uintptr_t)info->si_value.sival_ptr != now.id)
        fail("a queued signal brought the value %p", info->si_value.sival_ptr);
    now.depth++;
    stack_dive(now.id + (uint64_t)now.depth, 4, NULL, NULL);
    /* A handler within a handler, on the same alternate stack. */
    if (now.depth < 3 && now.id % 3 == 0)
        raise(SIG_DIVE);
    now.depth--;
    now.dives++;
    errno = error;
}

static void on_timer(int signal, siginfo_t *info, void *context)
{
    int error = errno;
    (void)signal;
    (void)info;
    (void)context;
    uint8_t here;
    on_altstack(&here, "a timer's handler");
    now.ticks++;
    region_check(&now.signals->looked, rng_below(&now.rng, now.signals->looked.pages));
    errno = error;
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_dive, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    must(sigaction(SIG_DIVE, &action, NULL));
    action.sa_sigaction = on_timer;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    must(sigaction(SIG_TIMER, &action, NULL));
    must(sigaction(SIGALRM, &action, NULL));
}

static void setup(struct trial *trial)
{
    struct signals *signals = trial_alloc(trial, sizeof *signals);
    size_t pages = trial_pages(trial, 128) / 2;
    pthread_once(&once, install);
    region_make(&signals->stack, ALTSTACK / PAGE, &trial->rng);
    region_make(&signals->looked, pages, &trial->rng);
    region_make(&signals->worked, pages, &trial->rng);
    region_fill(&signals->stack, &trial->rng);
    region_fill(&signals->looked, &trial->rng);
    region_fill(&signals->worked, &trial->rng);
}

static void unblock(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIG_DIVE);
    sigaddset(&set, SIG_TIMER);
    sigaddset(&set, SIGALRM);
    must_zero(pthread_sigmask(how, &set, NULL));
}

static void dives(struct rng *rng)
{
    step("signals on an old alternate stack");
    int before = now.dives, sent = (int)rng_range(rng, 1, 5);
    for (int i = 0; i < sent; i++) {
        if (rng_chance(rng, 50))
            raise(SIG_DIVE);
        else
            must_zero(pthread_sigqueue(pthread_self(), SIG_DIVE, (union sigval){ .sival_ptr = (void *)now.id }));
    }
    int expected = sent * (now.id % 3 == 0 ? 3 : 1);
    if (now.dives - before != expected)
        fail("%d handlers ran, expected %d", now.dives - before, expected);
}

static void faults(struct rng *rng)
{
    uint8_t *closed = must(mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    step("SIGSEGV on an old alternate stack");
    for (int i = 0; i < 8; i++)
        if (!faults_on_write(closed + rng_below(rng, 4 * PAGE), 1))
            fail("a write to a PROT_NONE page did not fault");
    must(munmap(closed, 4 * PAGE));
}

static void with_timer(struct signals *signals, struct rng *rng)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIG_TIMER };
    struct itimerspec period = { { 0, 300000 }, { 0, 300000 } };
    timer_t timer;
    int before = now.ticks;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    step("a timer over memory work");
    must(timer_create(CLOCK_MONOTONIC, &event, &timer));
    must(timer_settime(timer, 0, &period, NULL));
    /* At least until the timer has fired several times. */
    for (int i = 0; i < 400 && (i < 10 || now.ticks - before < 6); i++)
        region_churn(&signals->worked, rng, 20, 40);
    must(timer_delete(timer));
}

/* An alternate stack belongs to a thread, so a helper thread does the work of an operation. */
static void helper(struct helper *helper)
{
    struct signals *signals = helper->shared;
    struct rng *rng = &helper->rng;
    stack_t stack = { .ss_sp = signals->stack.base, .ss_size = signals->stack.pages * PAGE }, old;
    now.signals = signals;
    now.id = rng_next(rng);
    now.rng = rng_make(now.id);
    must(sigaltstack(&stack, &old));
    unblock(SIG_UNBLOCK);
    dives(rng);
    faults(rng);
    with_timer(signals, rng);
    dives(rng);
    unblock(SIG_BLOCK);
    must(sigaltstack(&old, NULL));
}

/* setitimer is for a whole process, so this runs in a child, where no other thread takes the signals. */
static void itimer_child(struct signals *signals, struct rng *rng)
{
    struct child child;
    if (child_fork(&child, "itimer")) {
        struct itimerval period = { { 0, 500 }, { 0, 500 } }, none = { { 0, 0 }, { 0, 0 } };
        stack_t stack = { .ss_sp = signals->stack.base, .ss_size = signals->stack.pages * PAGE };
        now.signals = signals;
        now.id = rng_next(rng);
        now.rng = rng_make(now.id);
        now.ticks = 0;
        must(sigaltstack(&stack, NULL));
        unblock(SIG_UNBLOCK);
        step("setitimer in a child");
        must(setitimer(ITIMER_REAL, &period, NULL));
        for (int i = 0; i < 400 && (i < 10 || now.ticks < 6); i++)
            region_churn(&signals->worked, rng, 20, 40);
        must(setitimer(ITIMER_REAL, &none, NULL));
        region_check_all(&signals->worked);
        child_end();
    }
    child_expect(&child, 0);
}

static void op(struct trial *trial)
{
    struct signals *signals = trial->state;
    struct rng *rng = &trial->rng;
    region_check_all(&signals->stack);
    if (rng_chance(rng, 10))
        itimer_child(signals, rng);
    else
        team_run(1, "signals", rng, helper, signals);
    /* The handlers have left frames in the alternate stack, so it gets new contents. */
    region_fill(&signals->stack, rng);
    region_churn(&signals->looked, rng, 20, 50);
}

static void check(struct trial *trial)
{
    struct signals *signals = trial->state;
    region_check_all(&signals->stack);
    region_check_all(&signals->looked);
    region_check_all(&signals->worked);
}

static void teardown(struct trial *trial)
{
    struct signals *signals = trial->state;
    region_drop(&signals->stack);
    region_drop(&signals->looked);
    region_drop(&signals->worked);
    free(signals);
}

TORTURE_CASE(signals) = {
    .name = "signals",
    .about = "handlers on old alternate stacks, nested, by timers, for SIGSEGV",
    .weight = 12,
    .share = 3,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
