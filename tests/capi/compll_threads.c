/* compll with several threads: each has its own pointers, and if there is no room for those of all, calls
 * fail.
 *
 * usage: compll_threads [SEED] */
#define _POSIX_C_SOURCE 200809L
#include "compll_items.h"

#include <pthread.h>

struct thread {
    uint64_t seed;
    unsigned keeps;
    int steps;
    int stood_back;
};

static pthread_barrier_t all_began;

static void *one_of_many(void *argument) {
    struct thread *self = argument;
    /* From this call on, the thread has a share of the blocks. */
    compll_t first = compll_alloc(8);
    CHECK(first != 0);
    pthread_barrier_wait(&all_began);
    struct model *all = make_all(&self->seed);
    for (int i = 0; i < self->steps; i++) step(all, &self->seed, self->keeps);
    free_all(all);
    compll_free(first);
    return NULL;
}

static void together(unsigned uncomp_count, unsigned count, unsigned keeps, int steps, uint64_t seed) {
    pthread_t threads[16];
    struct thread each[16];
    OK(init(uncomp_count));
    CHECK(pthread_barrier_init(&all_began, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++) {
        each[i] = (struct thread){seed + i, keeps, steps, 0};
        CHECK(pthread_create(&threads[i], NULL, one_of_many, &each[i]) == 0);
    }
    for (unsigned i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&all_began);
}

/* With more threads than there is room for, some pointers are NULL, and the others are valid. */
static void *too_many(void *argument) {
    struct thread *self = argument;
    unsigned count = 0;
    compll_t nodes[40];
    while (count < 40 && (nodes[count] = compll_alloc(500)) != 0) count++;
    struct item *kept = count ? compll_write(nodes[0]) : NULL;
    if (kept) kept->x = (unsigned)self->seed;
    pthread_barrier_wait(&all_began);
    for (unsigned i = 1; i < count && i < 6; i++) {
        struct item *item = compll_write(nodes[i]);
        if (item) item->x = (unsigned)self->seed + i;
        else self->stood_back = 1;
        if (kept) CHECK(kept->x == (unsigned)self->seed);
        if (kept && item) kept = compll_write(nodes[0]);
    }
    self->steps = (int)count;
    pthread_barrier_wait(&all_began);
    for (unsigned i = 0; i < count; i++) compll_free(nodes[i]);
    return NULL;
}

static void crowd(void) {
    pthread_t threads[8];
    struct thread each[8];
    OK(init(1));
    CHECK(pthread_barrier_init(&all_began, NULL, 8) == 0);
    for (unsigned i = 0; i < 8; i++) {
        each[i] = (struct thread){1000 * (i + 1), 0, 0, 0};
        CHECK(pthread_create(&threads[i], NULL, too_many, &each[i]) == 0);
    }
    for (unsigned i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&all_began);
    int stood_back = 0, nodes = 0;
    for (unsigned i = 0; i < 8; i++) {
        stood_back += each[i].stood_back;
        nodes += each[i].steps;
    }
    CHECK(nodes > 0);
    printf("8 threads, 1 block: %d nodes, %d threads were refused\n", nodes, stood_back);
    /* The threads have ended, so there is room again. */
    compll_t node = compll_alloc(8);
    CHECK(node && compll_write(node));
    compll_free(node);
}

int main(int count, char **arguments) {
    uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 0) : 1;
    int steps = getenv("MEMFOLD_TEST_QUICK") ? 100 : 2000;
    static const struct {
        unsigned uncomp_count, threads, keeps;
    } cases[] = {{1, 2, 2}, {2, 2, 2}, {4, 2, 2}, {10, 2, 4}, {10, 4, 2}, {20, 2, 8}, {20, 4, 4}, {20, 8, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        together(cases[i].uncomp_count, cases[i].threads, cases[i].keeps, steps, seed + 100 * i);
    crowd();
    printf("compll_threads %llu: ok\n", (unsigned long long)seed);
    return 0;
}
