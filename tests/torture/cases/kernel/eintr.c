/*
 * eintr: signals in the middle of system calls that touch old pages. A thread reads into and writes
 * from old memory while a timer interrupts it all the time, without SA_RESTART. It continues after partial
 * transfers and EINTR, and every byte is verified.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define SIG_INTERRUPT (SIGRTMIN + 3)
#define RUN_MOST 40

struct interrupted {
    struct region from;
    struct mirror to;
    int stream[2];
    struct transfer {
        size_t source, target, count;
        _Atomic unsigned interrupts;
    } transfer;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread volatile sig_atomic_t signals_seen;

static void on_interrupt(int signal)
{
    (void)signal;
    signals_seen++;
}

static void install(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    must(sigaction(SIG_INTERRUPT, &action, NULL));
}

static void setup(struct trial *trial)
{
    struct interrupted *interrupted = trial_alloc(trial, sizeof *interrupted);
    size_t pages = trial_pages(trial, 128) / 2;
    int room = 64 << 10;
    pthread_once(&once, install);
    region_make(&interrupted->from, pages, &trial->rng);
    region_fill(&interrupted->from, &trial->rng);
    mirror_make(&interrupted->to, pages, 8 * rng_below(&trial->rng, PAGE / 8));
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, interrupted->stream));
    must(setsockopt(interrupted->stream[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room));
}

/* Index 0 writes, index 1 reads; each has a timer of its own. */
static void half(struct helper *helper)
{
    struct interrupted *interrupted = helper->shared;
    struct transfer *transfer = &interrupted->transfer;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIG_INTERRUPT };
    struct itimerspec period = { { 0, 150000 }, { 0, 150000 } };
    sigset_t set;
    timer_t timer;
    bool out = helper->index == 0;
    uint8_t *memory = out ? region_at(&interrupted->from, transfer->source)
                          : mirror_at(&interrupted->to, transfer->target);
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    sigemptyset(&set);
    sigaddset(&set, SIG_INTERRUPT);
    signals_seen = 0;
    must_zero(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    must(timer_create(CLOCK_MONOTONIC, &event, &timer));
    must(timer_settime(timer, 0, &period, NULL));
    step(out ? "writes under signals" : "reads under signals");
    if (out)
        write_all(interrupted->stream[0], memory, transfer->count * PAGE);
    else
        read_all(interrupted->stream[1], memory, transfer->count * PAGE);
    must(timer_delete(timer));
    must_zero(pthread_sigmask(SIG_BLOCK, &set, NULL));
    atomic_fetch_add(&transfer->interrupts, (unsigned)signals_seen);
}

static void op(struct trial *trial)
{
    struct interrupted *interrupted = trial->state;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 4; i++) {
        struct transfer *transfer = &interrupted->transfer;
        transfer->count = rng_range(rng, 8, RUN_MOST);
        transfer->source = rng_below(rng, interrupted->from.pages - transfer->count + 1);
        transfer->target = rng_below(rng, interrupted->to.pages - transfer->count + 1);
        team_run(2, "interrupted", rng, half, interrupted);
        step("checks after interrupted calls");
        for (size_t k = 0; k < transfer->count; k++)
            mirror_took(&interrupted->to, transfer->target + k, region_key(&interrupted->from, transfer->source + k));
        region_churn(&interrupted->from, rng, 20, 50);
    }
}

static void check(struct trial *trial)
{
    struct interrupted *interrupted = trial->state;
    region_check_all(&interrupted->from);
    mirror_check_all(&interrupted->to);
}

static void teardown(struct trial *trial)
{
    struct interrupted *interrupted = trial->state;
    region_drop(&interrupted->from);
    mirror_drop(&interrupted->to);
    close(interrupted->stream[0]);
    close(interrupted->stream[1]);
    free(interrupted);
}

TORTURE_CASE(eintr) = {
    .name = "eintr",
    .about = "signals in the middle of system calls on old pages, partial transfers continued",
    .weight = 10,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
