/*
 * daemon: a child becomes a daemon by the book: two forks, setsid, chdir to /, all descriptors closed,
 * known or not. It continues with its old memory and reports the result in a file.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Closes all descriptors, in one of two ways. */
static void close_everything(struct rng *rng)
{
    if (rng_chance(rng, 60) && syscall(SYS_close_range, 0, ~0u, 0) == 0)
        return;
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = 0; fd < (most > 0 && most < 65536 ? most : 65536); fd++)
        close(fd);
}

static void say_in_file(const char *path, const char *text)
{
    char temporary[400];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        fail_errno("%s", temporary);
    write_all(fd, text, strlen(text));
    close(fd);
    must(rename(temporary, path));
}

static _Noreturn void daemon_main(struct trial *trial, struct frozen *frozen, const char *path, const char *log)
{
    struct region *region = trial->state;
    struct rng *rng = &trial->rng;
    struct child child;
    /* No parent would end the daemon, so an alarm ends it in any case. */
    prctl(PR_SET_PDEATHSIG, 0);
    alarm(options.watchdog * 2 + 60);
    must(chdir("/"));
    umask(077);
    step("a daemon closes everything");
    close_everything(rng);
    int null = open("/dev/null", O_RDWR);
    if (null != 0 || dup(0) != 1 || open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) != 2)
        _exit(CHILD_FAILED);
    step("a daemon checks");
    region_churn(region, rng, 100, 60);
    trials_check(frozen);
    region_check_all(region);
    struct region fresh;
    region_make(&fresh, 256, rng);
    region_fill(&fresh, rng);
    region_churn(&fresh, rng, 200, 50);
    if (child_fork(&child, "daemon-child")) {
        region_churn(region, rng, 100, 50);
        region_check_all(region);
        region_check_all(&fresh);
        child_end();
    }
    region_churn(region, rng, 100, 50);
    child_expect(&child, 0);
    region_check_all(region);
    region_check_all(&fresh);
    step("a daemon reports");
    say_in_file(path, "right\n");
    slot_release(me);
    _exit(0);
}

static bool read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = 0;
    return true;
}

static void op(struct trial *trial)
{
    static _Atomic unsigned number;
    struct region *region = trial->state;
    struct frozen frozen;
    struct child child;
    char path[340], log[350], text[4096] = "";
    snprintf(path, sizeof path, "%s/torture-daemon-%d-%u", options.dir, getpid(), atomic_fetch_add(&number, 1));
    snprintf(log, sizeof log, "%s.log", path);
    struct slot *slot = slot_take("daemon");
    trials_freeze(&frozen, 4, &trial->rng);
    if (child_fork(&child, "daemonising")) {
        must(setsid());
        if (fork() == 0) {
            in_child = true;
            slot_become(slot);
            daemon_main(trial, &frozen, path, log);
        }
        child_end();
    }
    trials_thaw(&frozen);
    child_expect(&child, 0);
    step("waiting for a daemon");
    /* The daemon is not a child of this process: it is alive as long as its slot moves, and ends by writing a
     * file. */
    uint32_t daemon = 0;
    for (uint64_t seen = 0;;) {
        uint32_t pid = atomic_load(&slot->pid);
        if (daemon == 0 && pid != (uint32_t)getpid())
            daemon = pid;
        bool gone = pid == 0 || (daemon != 0 && kill((pid_t)daemon, 0) != 0);
        /* Look for the file after looking at the process: the daemon writes it before it ends. */
        if (read_file(path, text, sizeof text))
            break;
        if (gone) {
            read_file(log, text, sizeof text);
            fail("a daemon ended without a word; its log: %s", text);
        }
        uint64_t moves = atomic_load(&slot->moves);
        if (moves != seen)
            move_on();
        seen = moves;
        region_check(region, rng_below(&trial->rng, region->pages));
        usleep(1000);
    }
    if (strcmp(text, "right\n") != 0)
        fail("a daemon reported: %s", text);
    unlink(path);
    unlink(log);
}

TORTURE_CASE(daemon) = {
    .name = "daemon",
    .about = "double fork, setsid, close_range over all descriptors; the daemon reports by a file",
    .weight = 1,
    .share = 1,
    .setup = one_region_make,
    .op = op,
    .check = one_region_check,
    .teardown = one_region_drop,
};
