/*
 * small COUNT MIB BOUND: COUNT processes fill MIB each, and keep it. Says "held" when all of them together have at
 * most BOUND MiB of their own, or how much they have after twenty seconds; then each checks its memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t word(uint64_t number) { return (number * 2654435761u >> 20 & 4095) + (number % 512 << 16); }

static int keep(size_t bytes)
{
    uint64_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char end;
    for (size_t number = 0; number < bytes / 8; number++)
        at[number] = word(number);
    if (read(0, &end, 1))
        return 3;
    for (size_t number = 0; number < bytes / 8; number++)
        if (at[number] != word(number))
            return 4;
    return 0;
}

static long own_mib(const pid_t *all, int count)
{
    long sum = 0;
    for (int child = 0; child < count; child++) {
        char name[64];
        long size, resident = 0, shared = 0;
        snprintf(name, sizeof name, "/proc/%d/statm", all[child]);
        FILE *file = fopen(name, "r");
        if (!file || fscanf(file, "%ld %ld %ld", &size, &resident, &shared) != 3)
            exit(2);
        fclose(file);
        sum += resident - shared;
    }
    return sum >> 8;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return keep(strtoull(argv[1], NULL, 0) << 20);
    int count = atoi(argv[1]), ends[2], bad = 0, status;
    long bound = atol(argv[3]), now = 0;
    pid_t all[1000];
    if (argc != 4 || count > 1000 || pipe2(ends, O_CLOEXEC))
        return 2;
    for (int child = 0; child < count; child++)
        if (!(all[child] = fork())) {
            dup2(ends[0], 0);
            execl("/proc/self/exe", "small", argv[2], NULL);
            _exit(2);
        }
    /* All have filled their memory long before. */
    sleep(2);
    for (int look = 0; look < 200; look++) {
        if ((now = own_mib(all, count)) <= bound)
            break;
        usleep(100000);
    }
    if (now <= bound)
        puts("held");
    else
        printf("%ld MiB\n", now);
    close(ends[1]);
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
