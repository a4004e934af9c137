/* Fills 40 MiB, goes elsewhere in the way that is named, fills 40 MiB more, makes a child as is named, and
 * checks all of it in parent and child. Prints "right", or the reason why the kernel does not let it go there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { WORDS = 40 << 17 };
static uint64_t *filled(uint64_t seed)
{
    uint64_t *at = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < WORDS; i++)
        at[i] = (i / 512 + seed) * 2654435761u + i % 512 / 8;
    return at;
}
static int is_right(const uint64_t *at, uint64_t seed)
{
    for (long i = 0; i < WORDS; i++)
        if (at[i] != (i / 512 + seed) * 2654435761u + i % 512 / 8)
            return 0;
    return 1;
}
static int go(const char *way, const char *place)
{
    if (!strcmp(way, "root"))
        return chroot(place) || chdir("/");
    if (!strcmp(way, "mounts"))
        return setns(open("/proc/self/ns/mnt", O_RDONLY), CLONE_NEWNS);
    if (!strcmp(way, "network")) {
        int before = open("/proc/self/ns/net", O_RDONLY);
        return unshare(CLONE_NEWNET) || setns(before, CLONE_NEWNET);
    }
    if (!strcmp(way, "user"))
        return unshare(CLONE_NEWUSER);
    if (!strcmp(way, "processes"))
        return unshare(CLONE_NEWPID);
    if (!strcmp(way, "all"))
        return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
    errno = EINVAL;
    return -1;
}
/* A child by the C library, past what it prepares, and by an instruction of one's own. */
static pid_t child_of(const char *how)
{
    if (!strcmp(how, "_Fork"))
        return _Fork();
#ifdef __x86_64__
    if (!strcmp(how, "instruction")) {
        long made = 57;
        __asm__ volatile("syscall" : "+a"(made)::"rcx", "r11", "memory");
        return made;
    }
#endif
    return fork();
}
int main(int argc, char **argv)
{
    uint64_t *first = filled(1);
    if (go(argv[1], argv[2]))
        return printf("%s\n", strerror(errno)), 9;
    uint64_t *second = filled(2);
    for (int round = 0; round < 2; round++) {
        pid_t child = child_of(argv[3]);
        if (child < 0)
            return printf("fork: %s\n", strerror(errno)), 8;
        if (child == 0) {
            for (long i = 0; i < WORDS; i += 700)
                first[i] += 1;
            for (long i = 0; i < WORDS; i += 700)
                first[i] -= 1;
            _exit(!is_right(first, 1) || !is_right(second, 2));
        }
        int status;
        if (waitpid(child, &status, 0) != child || status)
            return printf("the child's status is %#x\n", status), 7;
        /* The first process of a pid namespace has ended: no more can be made. */
        if (!strcmp(argv[1], "processes") || !strcmp(argv[1], "all"))
            break;
    }
    puts(is_right(first, 1) && is_right(second, 2) ? "right" : "wrong");
    return 0;
}
