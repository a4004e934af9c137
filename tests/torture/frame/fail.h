/* Reports of failures. They use neither stdio nor malloc, so that they work anywhere. */
#ifndef TORTURE_FAIL_H
#define TORTURE_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* Exit status of a child that has described its failure itself. */
#define CHILD_FAILED 86

/* Describes the failure (case, step, seed, process) and ends the process. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with the text of errno. */
_Noreturn void fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Wraps a call that must succeed. */
#define must(call)                                                                                 \
    ({                                                                                             \
        __typeof__(call) must_result_ = (call);                                                    \
        if (must_result_ == (__typeof__(call))-1)                                                  \
            fail_errno("%s", #call);                                                               \
        must_result_;                                                                              \
    })

/* The same for the pthread_ functions, which return the error. */
#define must_zero(call)                                                                            \
    do {                                                                                           \
        int must_error_ = (call);                                                                  \
        if (must_error_ != 0)                                                                      \
            fail("%s: error %d", #call, must_error_);                                              \
    } while (0)

/* One line on stderr, in one write, so that lines of several threads do not mix. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints once why a case or a part of it cannot run here. */
void say_skipped(_Atomic bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends the line of /proc/self/maps that holds `address`. Returns what was written. */
size_t describe_mapping(char *out, size_t size, const void *address);

#endif
