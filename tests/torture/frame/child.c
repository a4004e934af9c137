/* Children; see child.h. */
#include "torture.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

bool in_child;
int exec_argc;
char **exec_argv;

static const struct exec_mode *modes[32];
static size_t mode_count;

void child_begin(struct slot *slot)
{
    struct rlimit none = { 0, 0 };
    in_child = true;
    /* A child must not outlive the thread that waits for it, whatever happens to the run. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    slot_become(slot);
}

bool child_fork(struct child *child, const char *name)
{
    child->slot = slot_take(name);
    step("fork");
    child->pid = fork();
    if (child->pid < 0)
        fail_errno("fork");
    if (child->pid == 0) {
        child_begin(child->slot);
        return true;
    }
    step("parent of a fork");
    return false;
}

void child_end(void)
{
    step("child ends");
    _exit(0);
}

int child_wait(struct child *child)
{
    int status = 0;
    uint64_t seen = 0;
    int fd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    for (;;) {
        pid_t pid = waitpid(child->pid, &status, fd >= 0 ? WNOHANG : 0);
        if (pid == child->pid)
            break;
        if (pid < 0 && errno != EINTR)
            fail_errno("waitpid(%d)", child->pid);
        struct pollfd poll_fd = { fd, POLLIN, 0 };
        if (fd >= 0)
            poll(&poll_fd, 1, 500);
        uint64_t moves = atomic_load(&child->slot->moves);
        if (moves != seen)
            move_on();
        seen = moves;
    }
    if (fd >= 0)
        close(fd);
    slot_release(child->slot);
    move_on();
    return status;
}

void status_expect(int status, int exit_status, const char *what)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == exit_status)
        return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_FAILED)
        fail("%s failed; its own report is above", what);
    if (WIFSIGNALED(status))
        fail("%s died of signal %d (%s), expected exit status %d", what, WTERMSIG(status),
             sigabbrev_np(WTERMSIG(status)), exit_status);
    fail("%s: wait status %#x, expected exit status %d", what, (unsigned)status, exit_status);
}

void child_expect(struct child *child, int exit_status)
{
    step("waiting for the child");
    status_expect(child_wait(child), exit_status, "the child");
}

void child_expect_signal(struct child *child, int signal)
{
    step("waiting for the child to die of a signal");
    int status = child_wait(child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
        fail("the child: wait status %#x, expected death by signal %d", (unsigned)status, signal);
}

/* The command line of an executed child: all options it needs to make the same bytes. */
struct command_line {
    char text[8][48];
    char *argv[24];
};

static void command_line_make(struct command_line *line, struct slot *slot, const char *mode,
                              const char *arg)
{
    static const char *const names[] = { "--seed",     "--memory", "--threads", "--random",
                                         "--watchdog", "--board",  "--slot" };
    unsigned long long values[] = { options.seed,   options.memory,   options.threads,
                                    options.random, options.watchdog, (unsigned)board_fd,
                                    slot_index(slot) };
    size_t n = 0;
    line->argv[n++] = options.self;
    line->argv[n++] = "--exec-child";
    line->argv[n++] = (char *)mode;
    line->argv[n++] = "--dir";
    line->argv[n++] = options.dir;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(line->text[i], sizeof line->text[i], "%llu", values[i]);
        line->argv[n++] = (char *)names[i];
        line->argv[n++] = line->text[i];
    }
    if (options.halt)
        line->argv[n++] = "--halt";
    if (arg) {
        line->argv[n++] = "--arg";
        line->argv[n++] = (char *)arg;
    }
    line->argv[n] = NULL;
}

void child_spawn(struct child *child, const char *mode, const char *arg)
{
    struct command_line line;
    posix_spawn_file_actions_t actions;
    child->slot = slot_take(mode);
    command_line_make(&line, child->slot, mode, arg);
    must_zero(posix_spawn_file_actions_init(&actions));
    /* A dup2 onto itself clears close-on-exec in the child only. */
    must_zero(posix_spawn_file_actions_adddup2(&actions, board_fd, board_fd));
    step("posix_spawn of this program");
    must_zero(posix_spawn(&child->pid, options.self, &actions, NULL, line.argv, environ));
    posix_spawn_file_actions_destroy(&actions);
    step("parent of a spawned child");
}

void child_exec(struct slot *slot, const char *mode, const char *arg)
{
    struct command_line line;
    command_line_make(&line, slot, mode, arg);
    /* The board must stay open across the exec. No other thread of this child starts a program that would
     * inherit the descriptor. */
    int fd = dup(board_fd);
    if (fd < 0)
        fail_errno("dup of the board");
    snprintf(line.text[5], sizeof line.text[5], "%d", fd);
    step("exec of this program");
    execv(options.self, line.argv);
    fail_errno("exec of %s", options.self);
}

void exec_mode_add(const struct exec_mode *mode)
{
    if (mode_count < sizeof modes / sizeof modes[0])
        modes[mode_count++] = mode;
}

int exec_mode_run(const char *name, const char *arg)
{
    for (size_t i = 0; i < mode_count; i++)
        if (strcmp(modes[i]->name, name) == 0)
            return modes[i]->run(arg);
    fail("no such --exec-child mode: %s", name);
}
