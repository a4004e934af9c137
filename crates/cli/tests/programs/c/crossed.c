/*
 * crossed MIB CHILDREN: makes children by an instruction that cannot be interposed, while other threads fork as
 * usual, move memory and discard some. Children of both kinds check memory that is neither moved nor discarded.
 * Status 0: all of them saw what they should.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define PAGE 4096ul
enum { FORKERS = 2, BESIDE = 4 };

static uint64_t *memory;
static size_t bytes;
static atomic_int ends, wrong;

static uint64_t *map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        _exit(2);
    return at;
}

static void fill(uint64_t *to, size_t size)
{
    for (size_t at = 0; at < size / 8; at++)
        to[at] = at / 8 + 1;
}

/* Pages that differ. */
static size_t differ(const uint64_t *from, size_t size)
{
    size_t count = 0;
    for (size_t at = 0; at < size / 8; at += PAGE / 8)
        count += from[at] != at / 8 + 1 || from[at + PAGE / 8 - 1] != (at + PAGE / 8 - 1) / 8 + 1;
    return count;
}

static void expect_whole(pid_t pid, const char *which)
{
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "%s: status %#x\n", which, status);
        wrong++;
    }
}

static void *fork_all_the_time(void *number)
{
    for (size_t round = (size_t)number; !ends; round++) {
        pid_t pid = round % 2 == 0 ? fork() : _Fork();
        if (pid == 0) {
            /* One look at all of it would keep the others waiting. */
            size_t page = round * 7919 % (bytes / PAGE);
            _exit(memory[page * (PAGE / 8)] != page * (PAGE / 8) / 8 + 1);
        }
        expect_whole(pid, "a child of fork");
    }
    return NULL;
}

/* What is written before a move is there after it; what was discarded is empty. */
static void *move_and_discard(void *none)
{
    (void)none;
    size_t size = BESIDE * MIB;
    uint64_t *at = map(size);
    fill(at, size);
    for (unsigned round = 0; !ends; round++) {
        at = mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, map(size));
        if (at == MAP_FAILED || differ(at, size) != 0) {
            fprintf(stderr, "after a move %zu pages differ\n", differ(at, size));
            wrong++;
            return NULL;
        }
        madvise(at, size / 2, MADV_DONTNEED);
        for (size_t page = 0; page < size / 2; page += PAGE)
            if (at[page / 8] != 0)
                wrong++;
        fill(at, size / 2);
        usleep(2000);
    }
    return NULL;
}

static pid_t bare_clone(void)
{
#if defined(__x86_64__)
    long made;
    register long none __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(made) : "a"(SYS_clone), "D"(SIGCHLD), "S"(0), "d"(0), "r"(none) : "rcx", "r11", "memory");
    return (pid_t)made;
#else
    register long number __asm__("x8") = SYS_clone;
    register long flags __asm__("x0") = SIGCHLD;
    register long none1 __asm__("x1") = 0, none2 __asm__("x2") = 0, none3 __asm__("x3") = 0, none4 __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(flags) : "r"(number), "r"(none1), "r"(none2), "r"(none3), "r"(none4) : "memory");
    return (pid_t)flags;
#endif
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    bytes = strtoul(words[1], NULL, 10) * MIB;
    memory = map(bytes);
    fill(memory, bytes);
    pthread_t threads[FORKERS + 1];
    for (size_t number = 0; number < FORKERS; number++)
        pthread_create(&threads[number], NULL, fork_all_the_time, (void *)number);
    pthread_create(&threads[FORKERS], NULL, move_and_discard, NULL);
    usleep(100000);
    for (unsigned long child = strtoul(words[2], NULL, 10); child > 0 && wrong == 0; child--) {
        pid_t pid = bare_clone();
        if (pid == 0)
            _exit(differ(memory, bytes) != 0);
        expect_whole(pid, "a child of an instruction");
    }
    ends = 1;
    for (size_t number = 0; number <= FORKERS; number++)
        pthread_join(threads[number], NULL);
    if (differ(memory, bytes) != 0)
        wrong++;
    return wrong != 0;
}
