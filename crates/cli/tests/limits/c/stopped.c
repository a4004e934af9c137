/*
 * Fills nearly all of a limit of 200 MiB, and is stopped by a program that it starts. Meanwhile that fills 60 MiB
 * with data that do not compress, so that it has nothing to give back itself, and prints "right" if the larger
 * part took less than 10 s.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Odd, with bits of all sizes. */
#define SPREAD 0x9e3779b97f4a7c15

static void fill(size_t mib, uint64_t spread)
{
    uint64_t *at = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t word = 0; word < mib << 17; word++)
        at[word] = word * spread;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        fill(20, SPREAD);
        kill(getppid(), SIGSTOP);
        time_t begin = time(NULL);
        fill(40, SPREAD);
        puts(time(NULL) - begin < 10 ? "right" : "it waited");
        kill(getppid(), SIGCONT);
        return 0;
    }
    fill(185, 1);
    if (fork() == 0) {
        execl("/proc/self/exe", "stopped", "child", NULL);
        _exit(2);
    }
    int status;
    while (wait(&status) < 0) {
    }
    return status != 0;
}
