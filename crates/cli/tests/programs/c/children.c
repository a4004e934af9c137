/*
 * children WAY ACT MIB [FLAGS]: fills MIB of memory, makes a child in one of several ways past pthread_atfork, and the child does
 * something. Every byte is checked in the child and in the parent. Status 0: all is well, and the child has ended well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define PAGE 4096ul
#define IS(text, name) (strcmp(text, name) == 0)

static char *memory;
static size_t bytes;
static const char *act;
static volatile sig_atomic_t made = -1;

/* Unique words that compress to about a quarter. */
static uint64_t word_of(size_t page, size_t index)
{
    uint64_t x = page * 512 + index + 1;
    return index % 8 != 0 ? page + index : (x * 0x9E3779B97F4A7C15u) ^ (x >> 3);
}

static void fill(char *to, size_t size)
{
    for (size_t at = 0; at < size; at += 8)
        *(uint64_t *)(to + at) = word_of(at / PAGE, at % PAGE / 8);
}

static int is_whole(const char *from, size_t size)
{
    for (size_t at = 0; at < size; at += 8)
        if (*(const uint64_t *)(from + at) != word_of(at / PAGE, at % PAGE / 8))
            return 0;
    return 1;
}

static char *map(size_t size)
{
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        _exit(2);
    }
    return at;
}

static int ends_well(pid_t pid)
{
    int status = -1;
    return pid > 0 && waitpid(pid, &status, __WALL) == pid && status == 0;
}

static void *nothing(void *x) { return x; }

static int does_it(void)
{
    if (IS(act, "look"))
        return 1;
    if (IS(act, "write")) {
        memset(memory, 1, bytes / 2);
        int well = is_whole(memory, PAGE) == 0;
        fill(memory, bytes);
        return well;
    }
    if (IS(act, "fork")) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(!is_whole(memory, bytes));
        return ends_well(pid);
    }
    if (IS(act, "again")) {
        pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(!is_whole(memory, bytes));
        return ends_well(pid);
    }
    if (IS(act, "malloc")) {
        for (int i = 0; i < 10; i++) {
            char *at = malloc(4 * MIB);
            if (at == NULL)
                return 0;
            memset(at, i, 4 * MIB);
        }
        return 1;
    }
    if (IS(act, "mlock"))
        return mlock(map(MIB), MIB) == 0;
    if (IS(act, "mlockall"))
        return mlockall(MCL_CURRENT) == 0;
    if (IS(act, "direct")) {
        int file = open("/dev/null", O_RDONLY | O_DIRECT);
        return file >= 0 || errno == EINVAL;
    }
    if (IS(act, "thread")) {
        pthread_t thread;
        return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
    }
    if (IS(act, "unshare"))
        return unshare(CLONE_FILES | CLONE_FS) == 0;
    if (IS(act, "userns"))
        return unshare(CLONE_NEWUSER) == 0 || errno == EPERM || errno == ENOSPC;
    if (IS(act, "setuid"))
        return setuid(getuid()) == 0;
    if (IS(act, "remap")) {
        char *at = map(2 * MIB);
        at = mremap(at, 2 * MIB, 4 * MIB, MREMAP_MAYMOVE);
        return at != MAP_FAILED && munmap(at, 4 * MIB) == 0;
    }
    if (IS(act, "exec")) {
        execlp("true", "true", NULL);
        return 0;
    }
    if (IS(act, "exit"))
        syscall(SYS_exit, 0);
    return 0;
}

static int child(void *unused)
{
    (void)unused;
    /* Should it hang: signals end it. */
    alarm(60);
    if (!is_whole(memory, IS(act, "exec") || IS(act, "exit") ? PAGE : bytes))
        return 8;
    if (!does_it())
        return 9;
    return is_whole(memory, bytes) ? 0 : 10;
}

/* By an instruction of the program's own: nobody can see it. */
static long bare_clone(long flags)
{
#if defined(__x86_64__)
    long result;
    register long none __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clone), "D"(flags), "S"(0), "d"(0), "r"(none) : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_clone;
    register long first __asm__("x0") = flags;
    register long a __asm__("x1") = 0, b __asm__("x2") = 0, c __asm__("x3") = 0, d __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
    return first;
#endif
}

static void on_signal(int signal)
{
    (void)signal;
    made = _Fork();
    if (made == 0)
        _exit(child(NULL));
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    const char *way = words[1];
    act = words[2];
    bytes = strtoul(words[3], NULL, 0) * MIB;
    long flags = SIGCHLD | (count > 4 ? strtol(words[4], NULL, 0) : 0), pid = -1;
    memory = map(bytes);
    fill(memory, bytes);
    if (IS(way, "_Fork"))
        pid = _Fork();
    else if (IS(way, "syscall"))
        pid = syscall(SYS_clone, flags, 0, 0, 0, 0);
    else if (IS(way, "clone3")) {
        struct clone_args given = { .flags = flags & ~0xfful, .exit_signal = SIGCHLD };
        pid = syscall(SYS_clone3, &given, sizeof given);
    } else if (IS(way, "clone"))
        pid = clone(child, map(64 << 10) + (64 << 10), flags, NULL);
    else if (IS(way, "instruction"))
        pid = bare_clone(flags);
    else if (IS(way, "handler")) {
        signal(SIGUSR1, on_signal);
        raise(SIGUSR1);
        pid = made;
    }
    if (pid == 0)
        _exit(child(NULL));
    if (pid < 0) {
        perror(way);
        return 3;
    }
    if (IS(act, "orphan"))
        _exit(0);
    int status = -1;
    waitpid(pid, &status, __WALL);
    if (status != 0)
        fprintf(stderr, "%s, %s: the child ended with wait status %#x\n", way, act, status);
    if (!is_whole(memory, bytes)) {
        fprintf(stderr, "%s, %s: the parent has wrong bytes\n", way, act);
        return 5;
    }
    return status != 0;
}
