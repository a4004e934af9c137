/*
 * The watchdog; see watch.h.
 *
 * It is started by posix_spawn, without LD_PRELOAD, so that it shares no memory, thread or preloaded library
 * with the program that it watches: if every thread of the program hangs, it can still report.
 * It prints the position of all threads (case and step from the board; state, system call and wait
 * channel from /proc), then kills the program with SIGABRT.
 */
#include "torture.h"
#include "watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

void watch_start(void)
{
    char pid[16], fd[16], patience[16];
    char *argv[] = { options.self, "--watch", pid, "--board", fd, "--watchdog", patience, NULL };
    char *clean[512];
    size_t n = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;

    snprintf(pid, sizeof pid, "%d", getpid());
    snprintf(fd, sizeof fd, "%d", board_fd);
    snprintf(patience, sizeof patience, "%u", options.watchdog);
    for (char **e = environ; *e && n < 511; e++)
        if (strncmp(*e, "LD_PRELOAD=", 11) != 0)
            clean[n++] = *e;
    clean[n] = NULL;
    must_zero(posix_spawn_file_actions_init(&actions));
    must_zero(posix_spawn_file_actions_adddup2(&actions, board_fd, board_fd));
    must_zero(posix_spawn(&child, options.self, &actions, NULL, argv, clean));
    posix_spawn_file_actions_destroy(&actions);
}

static size_t read_small(char *out, size_t size, const char *format, uint32_t pid, uint32_t tid,
                         const char *name)
{
    char path[96];
    snprintf(path, sizeof path, format, pid, tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        n = 0;
    while (n > 0 && out[n - 1] == '\n')
        n--;
    out[n] = 0;
    return (size_t)n;
}

/* R, S, D, ...; 0 if there is no such thread. */
static char thread_state(uint32_t pid, uint32_t tid)
{
    char stat[512];
    if (read_small(stat, sizeof stat, "/proc/%u/task/%u/%s", pid, tid, "stat") == 0)
        return 0;
    const char *end = strrchr(stat, ')');
    return end && end[1] ? end[2] : 0;
}

static void print_positions(void)
{
    for (unsigned i = 0; i < BOARD_SLOTS; i++) {
        struct slot *slot = &board->slots[i];
        uint32_t pid = atomic_load(&slot->pid), tid = atomic_load(&slot->tid);
        char call[128], channel[64];
        if (pid == 0)
            continue;
        read_small(call, sizeof call, "/proc/%u/task/%u/%s", pid, tid, "syscall");
        read_small(channel, sizeof channel, "/proc/%u/task/%u/%s", pid, tid, "wchan");
        char state = thread_state(pid, tid);
        say("  pid %u tid %u: case %s, step \"%s\", moves %llu, state %c, wchan %s, syscall %s", pid,
            tid, slot->kind, slot->step, (unsigned long long)atomic_load(&slot->moves),
            state ? state : '?', channel, call);
    }
}

static void kill_all(pid_t pid)
{
    struct timespec patience = { 5, 0 };
    kill(pid, SIGABRT);
    nanosleep(&patience, NULL);
    kill(pid, SIGKILL);
    for (unsigned i = 0; i < BOARD_SLOTS; i++) {
        uint32_t other = atomic_load(&board->slots[i].pid);
        if (other != 0 && other != (uint32_t)pid)
            kill((pid_t)other, SIGKILL);
    }
}

/* Looks at every slot once a second; returns a slot that has not moved for too long. */
static struct slot *find_stuck(void)
{
    static struct {
        uint64_t moves;
        uint32_t pid, tid;
        unsigned still;
    } seen[BOARD_SLOTS];
    for (unsigned i = 0; i < BOARD_SLOTS; i++) {
        struct slot *slot = &board->slots[i];
        uint32_t pid = atomic_load(&slot->pid), tid = atomic_load(&slot->tid);
        uint64_t moves = atomic_load(&slot->moves);
        if (pid == 0 || pid != seen[i].pid || tid != seen[i].tid || moves != seen[i].moves) {
            seen[i].pid = pid;
            seen[i].tid = tid;
            seen[i].moves = moves;
            seen[i].still = 0;
            continue;
        }
        if (++seen[i].still < 5)
            continue;
        /* The thread is about to start, or rests on purpose; a thread that waits for it is watched. */
        if (tid == 0)
            continue;
        char state = thread_state(pid, tid);
        /* Killed children leave their slots behind; no thread moves in a stopped process. */
        if (state == 0 || state == 'Z' || state == 'X') {
            atomic_compare_exchange_strong(&slot->pid, &pid, 0);
            continue;
        }
        if (state != 'T' && state != 't' && seen[i].still >= options.watchdog)
            return slot;
        if (state == 'T' || state == 't')
            seen[i].still = 0;
    }
    return NULL;
}

int watch_main(pid_t pid)
{
    /* Signals from the keyboard end the program; then the watchdog ends by itself. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    for (;;) {
        struct pollfd ended = { fd, POLLIN, 0 };
        if (fd >= 0 && poll(&ended, 1, 1000) > 0)
            return 0;
        if (fd < 0 && (sleep(1), kill(pid, 0) != 0))
            return 0;
        if (atomic_load(&board->finished) || atomic_load(&board->failed))
            return 0;
        struct slot *stuck = find_stuck();
        if (stuck == NULL)
            continue;
        atomic_store(&board->failed, 1);
        say("HANG: nothing moved for %u s in case %s, step \"%s\" (pid %u, tid %u)", options.watchdog,
            stuck->kind, stuck->step, atomic_load(&stuck->pid), atomic_load(&stuck->tid));
        print_positions();
        if (!options.halt)
            kill_all(pid);
        return 1;
    }
}
