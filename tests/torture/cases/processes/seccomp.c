/*
 * seccomp: a child forbids itself system calls after its memory has grown old, and continues with that
 * memory: as one thread, and for all of its threads at once (TSYNC). For calls that this program does not
 * need, the filters return EPERM or end the process.
 */
#include "torture.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define TEAM 3

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

static void setup(struct trial *trial)
{
    if (ARCH == 0 || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
        say("skipped: seccomp: not known on this machine");
        trial->skipped = true;
        return;
    }
    struct region *region = trial_alloc(trial, sizeof *region);
    region_make(region, trial_pages(trial, 64), &trial->rng);
    region_fill(region, &trial->rng);
}

/* System calls that this child does not make from now on. */
static const int forbidden[] = { SYS_userfaultfd, SYS_ioctl, SYS_mremap, SYS_ptrace, SYS_process_vm_readv };
#define FORBIDDEN (sizeof forbidden / sizeof forbidden[0])

/* False if the kernel refuses the filter, as in some containers. */
static bool install(uint32_t action, bool all_threads)
{
    struct sock_filter code[2 * FORBIDDEN + 8];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < FORBIDDEN; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)forbidden[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { n, code };
    step(all_threads ? "a filter for all threads" : "a filter");
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (all_threads)
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct filtered {
    struct region parts[TEAM];
    uint32_t action;
    _Atomic bool installed;
};

/* The first thread installs the filter while the others are in the middle of their work. */
static void filtered_thread(struct helper *helper)
{
    struct filtered *filtered = helper->shared;
    struct region *part = &filtered->parts[helper->index];
    for (int i = 0; i < 20 || !atomic_load(&filtered->installed); i++) {
        step("memory work around a filter");
        region_churn(part, &helper->rng, 20, 50);
        if (helper->index == 0 && i == 10) {
            if (!install(filtered->action, true))
                fail_errno("a seccomp filter for all threads");
            atomic_store(&filtered->installed, true);
        }
    }
    region_check_all(part);
}

static _Noreturn void strict(struct region *region)
{
    /* Only read, write, exit and sigreturn are allowed, so a failure is only visible as a kill. */
    step("strict mode");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    region_check_all(region);
    for (size_t page = 0; page < region->pages; page++)
        region_patch(region, page);
    region_check_all(region);
    syscall(SYS_exit, 0);
    __builtin_unreachable();
}

static _Noreturn void child_main(struct trial *trial, struct frozen *frozen)
{
    struct region *region = trial->state;
    struct rng *rng = &trial->rng;
    unsigned how = (unsigned)rng_below(rng, 10);
    uint32_t action = rng_chance(rng, 50) ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    region_churn(region, rng, 50, 60);
    if (how == 0)
        strict(region);
    if (how < 5 && !UNDER_ASAN) {
        struct filtered *filtered = calloc(1, sizeof *filtered);
        if (filtered == NULL)
            fail_errno("calloc");
        filtered->action = action;
        for (int i = 0; i < TEAM; i++) {
            region_make(&filtered->parts[i], 96, rng);
            region_fill(&filtered->parts[i], rng);
        }
        team_run(TEAM, "seccomp-thread", rng, filtered_thread, filtered);
    } else if (!install(action, false)) {
        fail_errno("a seccomp filter");
    }
    step("checks behind a filter");
    trials_check(frozen);
    region_check_all(region);
    region_churn(region, rng, 200, 50);
    /* Also new memory, and a fork, which inherits the filter. */
    struct region fresh;
    region_make(&fresh, 64, rng);
    region_fill(&fresh, rng);
    struct child child;
    if (child_fork(&child, "seccomp-fork")) {
        region_churn(region, rng, 100, 50);
        region_check_all(&fresh);
        region_check_all(region);
        child_end();
    }
    region_check_all(&fresh);
    child_expect(&child, 0);
    child_end();
}

static void op(struct trial *trial)
{
    struct region *region = trial->state;
    struct frozen frozen;
    struct child child;
    trials_freeze(&frozen, 4, &trial->rng);
    if (child_fork(&child, "seccomp-child"))
        child_main(trial, &frozen);
    trials_thaw(&frozen);
    region_churn(region, &trial->rng, 100, 50);
    child_expect(&child, 0);
    region_check_all(region);
}

TORTURE_CASE(seccomp) = {
    .name = "seccomp",
    .about = "seccomp filters installed when memory is old, for one thread and for all, strict mode",
    .weight = 2,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
