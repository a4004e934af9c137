/*
 * setuid: a child gives up root, continues with its old memory, forks again and executes a program. No thread
 * of it may keep the old identity.
 */
#include "torture.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>

#define NOBODY 65534

/* Checks "Uid:" and "Gid:" of every thread, including those that the program did not start. */
static void check_identities(void)
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        fail_errno("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], status[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, status, sizeof status - 1) : 0;
        if (fd >= 0)
            close(fd);
        /* The thread may have ended meanwhile. */
        if (n <= 0)
            continue;
        status[n] = 0;
        unsigned uids[4] = { 0 }, gids[4] = { 0 };
        const char *uid = strstr(status, "\nUid:"), *gid = strstr(status, "\nGid:");
        if (!uid || sscanf(uid + 5, "%u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) != 4 || !gid ||
            sscanf(gid + 5, "%u %u %u %u", &gids[0], &gids[1], &gids[2], &gids[3]) != 4)
            fail("cannot read %s", path);
        for (int i = 0; i < 4; i++)
            if (uids[i] != NOBODY || gids[i] != NOBODY)
                fail("thread %s kept uid %u and gid %u after the process became nobody", entry->d_name, uids[i],
                     gids[i]);
    }
    closedir(tasks);
}

static void worker(struct helper *helper)
{
    struct region *region = helper->shared;
    step("a thread of nobody");
    if (getuid() != NOBODY)
        fail("a thread has uid %u", getuid());
    for (int i = 0; i < 100; i++)
        region_check(region, rng_below(&helper->rng, region->pages));
}

static _Noreturn void child_main(struct trial *trial, struct frozen *frozen)
{
    struct region *region = trial->state;
    struct rng *rng = &trial->rng;
    region_churn(region, rng, 50, 60);
    step("setgid and setuid");
    must(setgroups(0, NULL));
    if (rng_chance(rng, 50)) {
        must(setresgid(NOBODY, NOBODY, NOBODY));
        must(setresuid(NOBODY, NOBODY, NOBODY));
    } else {
        must(setgid(NOBODY));
        must(setuid(NOBODY));
    }
    /* Changing the identity has cleared this setting. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setuid(0) == 0)
        fail("root came back");
    check_identities();
    step("nobody checks");
    trials_check(frozen);
    region_check_all(region);
    region_churn(region, rng, 200, 50);
    if (!UNDER_ASAN)
        team_run(3, "nobody", rng, worker, region);
    struct child child;
    if (child_fork(&child, "nobody-fork")) {
        region_churn(region, rng, 100, 50);
        region_check_all(region);
        check_identities();
        child_end();
    }
    region_churn(region, rng, 100, 50);
    child_expect(&child, 0);
    region_check_all(region);
    child_end();
}

static void op(struct trial *trial)
{
    struct region *region = trial->state;
    struct frozen frozen;
    struct child child;
    trials_freeze(&frozen, 4, &trial->rng);
    if (child_fork(&child, "setuid-child"))
        child_main(trial, &frozen);
    trials_thaw(&frozen);
    region_churn(region, &trial->rng, 100, 50);
    child_expect(&child, 0);
}

TORTURE_CASE(setuid) = {
    .name = "setuid",
    .about = "giving up root in a child, which goes on and forks again",
    .weight = 2,
    .share = 1,
    .flags = NEEDS_ROOT,
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
