/*
 * reports: operations that only work in a process with one thread, or that read memory in a way for which the
 * kernel lets no fault handler serve faults. They do not count as failures: the case prints their results,
 * for the documentation. Off by default.
 */
#include "torture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>

enum question { USER_NAMESPACE, MOUNT_NAMESPACE, ADDRESS_SPACE, PROC_SELF_MEM, QUESTIONS };
static const char *const questions[QUESTIONS] = {
    "unshare(CLONE_NEWUSER) in a forked child",
    "unshare(CLONE_NEWNS) in a forked child",
    "unshare(CLONE_VM) in a forked child",
    "reading old pages through /proc/self/mem",
};

/* Of all trials: how often each operation worked or was refused, and its last error. Shared with the
 * children. */
static struct answers {
    _Atomic unsigned worked[QUESTIONS], refused[QUESTIONS];
    _Atomic int error[QUESTIONS];
} *answers;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_answers(void)
{
    answers = must(mmap(NULL, sizeof *answers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

static void setup(struct trial *trial)
{
    struct region *region = trial_alloc(trial, sizeof *region);
    pthread_once(&once, make_answers);
    region_make(region, trial_pages(trial, 64), &trial->rng);
    region_fill(region, &trial->rng);
}

static void note(enum question question, bool worked)
{
    if (worked) {
        atomic_fetch_add(&answers->worked[question], 1);
    } else {
        atomic_store(&answers->error[question], errno);
        atomic_fetch_add(&answers->refused[question], 1);
    }
}

static void proc_self_mem(struct region *region, struct rng *rng)
{
    size_t page = rng_below(rng, region->pages);
    uint8_t *copy = malloc(PAGE);
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || copy == NULL)
        fail_errno("/proc/self/mem");
    ssize_t n = pread(fd, copy, PAGE, (off_t)(uintptr_t)region_at(region, page));
    note(PROC_SELF_MEM, n == (ssize_t)PAGE);
    /* What is read must still be right. */
    if (n == (ssize_t)PAGE)
        page_check(copy, region_key(region, page), PAGE);
    close(fd);
    free(copy);
}

static void op(struct trial *trial)
{
    static const int flags[] = { CLONE_NEWUSER, CLONE_NEWNS, CLONE_VM };
    struct region *region = trial->state;
    struct child child;
    for (int i = 0; i < 10; i++)
        proc_self_mem(region, &trial->rng);
    enum question question = (enum question)rng_below(&trial->rng, PROC_SELF_MEM);
    if (child_fork(&child, "reports-child")) {
        step(questions[question]);
        note(question, unshare(flags[question]) == 0);
        region_churn(region, &trial->rng, 50, 50);
        region_check_all(region);
        child_end();
    }
    region_churn(region, &trial->rng, 50, 50);
    child_expect(&child, 0);
}

static void teardown(struct trial *trial)
{
    for (int i = 0; trial->index == 0 && i < QUESTIONS; i++)
        say("reports: %s: worked %u times, refused %u times (%s)", questions[i], atomic_load(&answers->worked[i]),
            atomic_load(&answers->refused[i]),
            atomic_load(&answers->refused[i]) ? strerrordesc_np(atomic_load(&answers->error[i])) : "-");
    region_drop(trial->state);
    free(trial->state);
}

TORTURE_CASE(reports) = {
    .name = "reports",
    .about = "unshare and /proc/self/mem: only says how they go",
    .weight = 3,
    .share = 1,
    .flags = OFF_BY_DEFAULT,
    .setup = setup,
    .op = op,
    .check = one_region_check,
    .teardown = teardown,
};
