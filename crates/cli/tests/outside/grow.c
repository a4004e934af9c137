/* Maps memory far from the limit, waits, and fills it by stores alone: until it is full no function of a library is called.
   grow MIB [threads=N] [processes=N] [huge] [blocked] [handlers]
   Each process prints how many threads it had before it began, and how many pages came out wrong. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define WORDS (PAGE / sizeof(uint64_t))

static size_t bytes;
static int threads = 1, processes = 1, huge;
static char *area;
static volatile sig_atomic_t caught;

static void count(int number) { (void)number; caught++; }

/* A page compresses to about a third. */
static uint64_t word(uint64_t page, uint64_t i) {
    uint64_t x = (page * WORDS + i) * 0x9E3779B97F4A7C15ul;
    return i % 8 ? page + i : x ^ x >> 29;
}

static void fill(char *from, char *to) {
    for (char *page = from; page < to; page += PAGE)
        for (uint64_t i = 0; i < WORDS; i++) ((uint64_t *)page)[i] = word((page - area) / PAGE, i);
}

static long check(char *from, char *to) {
    long bad = 0;
    for (char *page = from; page < to; page += PAGE)
        for (uint64_t i = 0; i < WORDS; i++)
            if (((uint64_t *)page)[i] != word((page - area) / PAGE, i)) {
                bad++;
                break;
            }
    return bad;
}

struct part { char *from, *to; long bad; };

static void *work(void *argument) {
    struct part *part = argument;
    fill(part->from, part->to);
    part->bad = check(part->from, part->to);
    return NULL;
}

static int count_threads(void) {
    int number = -2;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) number++;
    closedir(tasks);
    return number;
}

static int one(void) {
    struct part parts[16];
    pthread_t ids[16];
    long bad = 0;
    area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (huge) madvise(area, bytes, MADV_HUGEPAGE);
    size_t each = bytes / threads / PAGE * PAGE;
    for (int i = 0; i < threads; i++)
        parts[i] = (struct part){area + i * each, i == threads - 1 ? area + bytes : area + (i + 1) * each, 0};
    usleep(400000);
    int before = count_threads();
    if (threads == 1) {
        work(&parts[0]);
    } else {
        for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, &parts[i]);
        for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < threads; i++) bad += parts[i].bad;
    printf("threads %d, wrong %ld, signals %d\n", before, bad, (int)caught);
    fflush(stdout);
    return bad != 0;
}

int main(int words, char **word) {
    bytes = (size_t)atol(word[1]) << 20;
    for (int i = 2; i < words; i++) {
        if (!strncmp(word[i], "threads=", 8)) threads = atoi(word[i] + 8);
        if (!strncmp(word[i], "processes=", 10)) processes = atoi(word[i] + 10);
        if (!strcmp(word[i], "huge")) huge = 1;
        if (!strcmp(word[i], "blocked")) {
            sigset_t all;
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, NULL);
        }
        if (!strcmp(word[i], "handlers"))
            for (int number = 1; number < 65; number++)
                if (number != SIGCHLD) signal(number, count);
    }
    if (processes == 1) return one();
    for (int i = 0; i < processes; i++)
        if (!fork()) _exit(one());
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    return bad != 0;
}
