/* Has a quarter of `argv[1]` MiB, in blocks of `argv[2]` bytes. One thread gets memory, for which a thread of
   memfold must start. It starts slowly: it has the lowest priority, like the thread that got the memory, and
   shares its CPU with one that never rests. Meanwhile another thread fills the rest. After half a second all
   threads get the usual priority. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
    pthread_t one, other, spinner;
    cpu_set_t cpus;
    int first = 0, last = 0;
    if (argc != 3 || sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return 2;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &cpus))
            last = last > cpu ? last : cpu, first = cpu;
    words = strtoull(argv[2], NULL, 0) / sizeof(uint64_t);
    wanted = (strtoull(argv[1], NULL, 0) << 20) / sizeof(uint64_t) / words;
    blocks = calloc(wanted + 1, sizeof *blocks);
    fill(0, wanted / 4);
    bind_to(first);
    pthread_create(&one, NULL, low, NULL);
    while (!__atomic_load_n(&began, __ATOMIC_RELAXED))
        usleep(100);
    pthread_create(&spinner, NULL, spin, NULL);
    usleep(20000);
    bind_to(last);
    pthread_create(&other, NULL, high, NULL);
    usleep(500000);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.')
            set_policy(atoi(task->d_name), SCHED_OTHER);
    closedir(tasks);
    __atomic_store_n(&may_rest, 1, __ATOMIC_RELAXED);
    pthread_join(spinner, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    for (size_t block = 0; block < wanted; block++)
        for (size_t i = 0; i < words; i++)
            if (blocks[block][i] != word(block, i))
                return 1;
    puts("right");
    return 0;
}
