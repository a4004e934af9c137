/* Failure reports; see fail.h. Formats into stack buffers and writes with write(2). */
#include "torture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

static void put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(2, text, length);
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

static _Noreturn void fail_with(const char *message)
{
    char text[6144];
    uint32_t nobody = 0;
    bool first = board == NULL || atomic_compare_exchange_strong(&board->failed, &nobody, 1);
    /* A further failure is most likely a consequence of the first; it gets one line. */
    int n = snprintf(text, sizeof text,
                     first ? "torture: FAIL seed=%llu case=%s step=\"%s\" pid=%d tid=%ld\n%s\n"
                           : "torture: also: seed=%llu case=%s step=\"%s\" pid=%d tid=%ld: %s\n",
                     (unsigned long long)options.seed, me->kind, me->step, getpid(),
                     syscall(SYS_gettid), message);
    put(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
    if (options.halt) {
        say("process %d stops here for a debugger", getpid());
        raise(SIGSTOP);
    }
    if (!first) {
        /* Leave the first failure time to finish its report. */
        struct timespec second = { 1, 0 };
        nanosleep(&second, NULL);
    }
    _exit(in_child ? CHILD_FAILED : 1);
}

void fail(const char *format, ...)
{
    char message[4608];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fail_with(message);
}

void fail_errno(const char *format, ...)
{
    char message[4608];
    int error = errno;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (n >= 0 && n < (int)sizeof message)
        snprintf(message + n, sizeof message - (size_t)n, ": %s (errno %d)", strerrordesc_np(error),
                 error);
    fail_with(message);
}

void say(const char *format, ...)
{
    char text[1024] = "torture: ";
    size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + n, sizeof text - n - 1, format, args);
    va_end(args);
    n += more > 0 ? (size_t)more : 0;
    if (n > sizeof text - 2)
        n = sizeof text - 2;
    text[n++] = '\n';
    put(text, n);
}

void say_skipped(_Atomic bool *said, const char *format, ...)
{
    char text[512];
    if (atomic_exchange(said, true) || in_child)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("skipped: %s", text);
}

/* Reads one character at a time from a buffer refilled by read(2): no stdio in a failure report. */
size_t describe_mapping(char *out, size_t size, const void *address)
{
    char buffer[2048], line[512];
    size_t used = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            if (buffer[i] != '\n') {
                if (used + 1 < sizeof line)
                    line[used++] = buffer[i];
                continue;
            }
            line[used] = 0;
            used = 0;
            unsigned long long low = 0, high = 0;
            if (sscanf(line, "%llx-%llx", &low, &high) == 2 && (uintptr_t)address >= low &&
                (uintptr_t)address < high) {
                close(fd);
                int m = snprintf(out, size, "  mapping: %s\n", line);
                return m > 0 && (size_t)m < size ? (size_t)m : 0;
            }
        }
    }
    close(fd);
    int m = snprintf(out, size, "  mapping: none holds this address\n");
    return m > 0 && (size_t)m < size ? (size_t)m : 0;
}
