/* Has a quarter of `argv[1]` MiB, in blocks of `argv[2]` bytes. One thread gets memory, for which threads of
   memfold must start. They hardly run: they have the lowest priority and share a CPU with threads that never rest.
   With "slow start" as `argv[3]` it is so from the start, since they have the priority of the thread that got the
   memory; with "slow later" from when they have begun. Meanwhile another thread fills the rest. After half a second
   all threads get the usual priority. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static uint64_t **blocks;
static size_t wanted, words;
static int may_rest, began;
static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        perror("sched_setaffinity"), exit(1);
}
static void set_policy(int thread, int policy)
{
    struct sched_param none = {0};
    if (sched_setscheduler(thread, policy, &none) != 0)
        perror("sched_setscheduler"), exit(1);
}
static uint64_t word(size_t block, size_t i)
{
    size_t number = block * words + i;
    return i % 8 != 0 ? number / 512 : number * 0x9e3779b97f4a7c15;
}
static void fill(size_t from, size_t to)
{
    for (size_t block = from; block < to; block++) {
        uint64_t *at = malloc(words * sizeof *at);
        if (at == NULL)
            abort();
        for (size_t i = 0; i < words; i++)
            at[i] = word(block, i);
        blocks[block] = at;
    }
}
/* Calls `f` for each thread but the first. */
static void others(void (*f)(int thread))
{
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.' && atoi(task->d_name) != getpid())
            f(atoi(task->d_name));
    closedir(tasks);
}
static cpu_set_t shared;
static void lower(int thread)
{
    set_policy(thread, SCHED_IDLE);
    if (sched_setaffinity(thread, sizeof shared, &shared) != 0)
        perror("sched_setaffinity"), exit(1);
}
static void raise_again(int thread)
{
    set_policy(thread, SCHED_OTHER);
}
static void *spin(void *unused)
{
    while (!__atomic_load_n(&may_rest, __ATOMIC_RELAXED))
        ;
    return unused;
}
static void *low(void *unused)
{
    set_policy(0, SCHED_IDLE);
    __atomic_store_n(&began, 1, __ATOMIC_RELAXED);
    blocks[wanted] = malloc(32 << 20);
    return unused;
}
static void *high(void *unused)
{
    fill(wanted / 4, wanted);
    return unused;
}
int main(int argc, char **argv)
{
    enum { SPINNERS = 4 };
    pthread_t one, other, spinners[SPINNERS];
    cpu_set_t cpus;
    int first = 0, last = 0;
    if (argc != 4 || sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return 2;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &cpus))
            last = last > cpu ? last : cpu, first = cpu;
    int starts_slowly = strcmp(argv[3], "slow start") == 0;
    words = strtoull(argv[2], NULL, 0) / sizeof(uint64_t);
    wanted = (strtoull(argv[1], NULL, 0) << 20) / sizeof(uint64_t) / words;
    blocks = calloc(wanted + 1, sizeof *blocks);
    fill(0, wanted / 4);
    if (starts_slowly) {
        bind_to(first);
        pthread_create(&one, NULL, low, NULL);
        while (!__atomic_load_n(&began, __ATOMIC_RELAXED))
            usleep(100);
    } else {
        blocks[wanted] = malloc(32 << 20);
        usleep(100000);
        CPU_SET(first, &shared);
        others(lower);
        bind_to(first);
    }
    for (int i = 0; i < (starts_slowly ? 1 : SPINNERS); i++)
        pthread_create(&spinners[i], NULL, spin, NULL);
    usleep(20000);
    bind_to(last);
    pthread_create(&other, NULL, high, NULL);
    usleep(500000);
    others(raise_again);
    __atomic_store_n(&may_rest, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < (starts_slowly ? 1 : SPINNERS); i++)
        pthread_join(spinners[i], NULL);
    if (starts_slowly)
        pthread_join(one, NULL);
    pthread_join(other, NULL);
    for (size_t block = 0; block < wanted; block++)
        for (size_t i = 0; i < words; i++)
            if (blocks[block][i] != word(block, i))
                return 1;
    puts("right");
    return 0;
}
