/*
 * Children: forked copies that continue with inherited memory, and executed ones that start anew. Each has a
 * slot on the board, so that a hung child is noticed; each ends with 0, or with CHILD_FAILED after it has
 * described its failure itself.
 */
#ifndef TORTURE_CHILD_H
#define TORTURE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "board.h"

struct child {
    pid_t pid;
    struct slot *slot;
};

/* True in every process but the first. */
extern bool in_child;

/* fork(). Returns true in the child, which must end with child_end() or an exec. */
bool child_fork(struct child *child, const char *name);

/* A child made by other means (clone, vfork in a helper) must call this first. */
void child_begin(struct slot *slot);

/* _exit(0), without atexit handlers: they belong to the parent. */
_Noreturn void child_end(void);

/* Waits for a child, and moves as long as it moves. Returns the wait status. */
int child_wait(struct child *child);

/* Waits and requires an exit status, or death by a signal. */
void child_expect(struct child *child, int exit_status);
void child_expect_signal(struct child *child, int signal);
void status_expect(int status, int exit_status, const char *what);

/* Starts this program again in `mode`; `arg` may be NULL. With posix_spawn, or in place (exec). */
void child_spawn(struct child *child, const char *mode, const char *arg);
_Noreturn void child_exec(struct slot *slot, const char *mode, const char *arg);

/* Runs the mode on the command line of such a child. */
struct exec_mode {
    const char *name;
    int (*run)(const char *arg);
};
void exec_mode_add(const struct exec_mode *mode);
int exec_mode_run(const char *name, const char *arg);

/* What follows "--" on the command line of an executed child. */
extern int exec_argc;
extern char **exec_argv;

/* Registers a mode: EXEC_MODE(name_of_function, "mode"). */
#define EXEC_MODE(function, text)                                                                  \
    static const struct exec_mode exec_mode_##function = { text, function };                       \
    __attribute__((constructor)) static void exec_mode_add_##function(void)                        \
    {                                                                                              \
        exec_mode_add(&exec_mode_##function);                                                      \
    }

#endif
