/*
 * rawfork: children made without the handlers of pthread_atfork: by _Fork(), by the clone system call with
 * syscall(), by clone() with a stack, and by the bare instruction. A library that keeps a part of the
 * process's memory elsewhere can notice the first three. For the last one it needs the kernel's help: without
 * it, such a child may be ended (by SIGSEGV, SIGBUS or SIGABRT, which is counted and reported), but must not
 * see wrong bytes. Other threads may hold the C library's locks at any time, so the child only makes system
 * calls.
 */
#include "torture.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static _Atomic unsigned lived, refused;

enum { STACK = 256 << 10, OWN = 2 << 20 };

/* By the bare instruction, which no library can intercept. */
static long bare_clone(void)
{
#if defined(__x86_64__)
    long made;
    register long none __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(made) : "a"(SYS_clone), "D"(SIGCHLD), "S"(0), "d"(0), "r"(none) : "rcx", "r11", "memory");
    return made;
#else
    return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
#endif
}

static void look(struct region *region, struct child *child)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    child_begin(child->slot);
    step("a child of a bare clone looks");
    region_check_all(region);
    step("a child of a bare clone gets memory");
    unsigned char *own = mmap(NULL, OWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        _exit(2);
    for (size_t at = 0; at < OWN; at += 4096)
        own[at] = 1;
    step("a child of a bare clone locks memory");
    /* This is refused if the limit is low. */
    (void)mlock(own, 4096);
    int file = open("/dev/null", O_RDONLY | O_DIRECT);
    if (file >= 0)
        close(file);
    step("a child of a bare clone has a child");
    pid_t pid = _Fork();
    if (pid == 0) {
        region_check_all(region);
        _exit(own[OWN - 4096] != 1);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        _exit(3);
    region_check_all(region);
    _exit(0);
}

struct birth {
    struct region *region;
    struct child *child;
};

static int begin(void *argument)
{
    struct birth *birth = argument;
    look(birth->region, birth->child);
    return 1;
}

static void op(struct trial *trial)
{
    struct region *region = trial->state;
    struct child child = { .slot = slot_take("rawfork-child") };
    struct birth birth = { region, &child };
    unsigned way = (unsigned)rng_below(&trial->rng, 10);
    bool bare = way == 9;
    if (way < 3) {
        step("_Fork");
        child.pid = _Fork();
    } else if (way < 6) {
        step("clone by system call");
        child.pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    } else if (way < 9) {
        step("clone");
        char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
            fail_errno("mmap");
        child.pid = clone(begin, stack + STACK, SIGCHLD, &birth);
        munmap(stack, STACK);
    } else {
        step("clone by an instruction");
        child.pid = (pid_t)bare_clone();
    }
    if (child.pid < 0)
        fail_errno("clone");
    if (child.pid == 0)
        look(region, &child);
    region_churn(region, &trial->rng, 100, 50);
    int status = child_wait(&child);
    if (bare && WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGABRT)) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    status_expect(status, 0, "a child of a bare clone");
    atomic_fetch_add(&lived, 1);
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
    .about = "children made past pthread_atfork: _Fork, clone, the system call, the instruction",
    .weight = 2,
    .share = 2,
    .flags = NOT_UNDER_ASAN,
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = teardown,
};
