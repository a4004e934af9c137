/*
 * rawfork: _Fork() and the bare clone system call. No pthread_atfork handler runs, so a library that
 * keeps part of a process's memory elsewhere cannot prepare the child; such a child may only look at
 * what it inherited, and even that may rightly be refused by ending it (loudly: never by wrong bytes).
 * Hence off by default: name it to see what happens. Death by SIGSEGV, SIGBUS or SIGABRT is counted and
 * reported, a wrong byte is a failure.
 */
#include "torture.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static _Atomic unsigned lived, refused;

static void setup(struct trial *trial)
{
    struct region *region = trial_alloc(trial, sizeof *region);
    region_make(region, trial_pages(trial, 64), &trial->rng);
    region_fill(region, &trial->rng);
}

static void op(struct trial *trial)
{
    struct region *region = trial->state;
    struct child child = { .slot = slot_take("rawfork-child") };
    bool bare = rng_chance(&trial->rng, 50);
    step(bare ? "clone by system call" : "_Fork");
    child.pid = bare ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : _Fork();
    if (child.pid < 0)
        fail_errno("clone");
    if (child.pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        child_begin(child.slot);
        step("a child of a bare clone looks");
        region_check_all(region);
        _exit(0);
    }
    region_churn(region, &trial->rng, 100, 50);
    int status = child_wait(&child);
    if (WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGABRT)) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    status_expect(status, 0, "a child of a bare clone");
    atomic_fetch_add(&lived, 1);
}

static void check(struct trial *trial)
{
    region_check_all(trial->state);
}

static void teardown(struct trial *trial)
{
    if (trial->index == 0)
        say("rawfork: %u children saw all of their memory, %u were ended", atomic_load(&lived), atomic_load(&refused));
    region_drop(trial->state);
    free(trial->state);
}

TORTURE_CASE(rawfork) = {
    .name = "rawfork",
    .about = "_Fork and bare clone; the child only looks",
    .weight = 3,
    .share = 2,
    .flags = OFF_BY_DEFAULT | NOT_UNDER_ASAN,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
