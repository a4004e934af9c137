/* Passes the limit and gives everything back, again and again; says how many threads there are after a while without memory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_threads(void) {
    int number = -2;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) number++;
    closedir(tasks);
    return number;
}

static long cycle(size_t bytes, uint64_t seed) {
    long bad = 0;
    uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < bytes / 8; i++) words[i] = i % 8 ? seed + i : (seed ^ i) * 0x9E3779B97F4A7C15ul;
    for (size_t i = 0; i < bytes / 8; i++) bad += words[i] != (i % 8 ? seed + i : (seed ^ i) * 0x9E3779B97F4A7C15ul);
    munmap(words, bytes);
    return bad;
}

int main(int words, char **word) {
    size_t bytes = (size_t)atol(word[1]) << 20;
    for (int round = 0; round < atoi(word[2]); round++) {
        long bad = cycle(bytes, round * 1000003ul);
        int during = count_threads(), status = 0, after = during;
        for (int i = 0; i < 120 && (after = count_threads()) > 1; i++) usleep(100000);
        if (fork() == 0) _exit(count_threads() != 1 || cycle(bytes / 8, round) != 0);
        wait(&status);
        printf("during %s, after %d, wrong %ld, child %d\n", during > 1 ? "several" : "one", after, bad, status);
        fflush(stdout);
    }
    return 0;
}
