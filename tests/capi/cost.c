/* The cost of a call in nanoseconds, with all blocks resident, for random nodes of 64 bytes, 1 MiB in all;
 * and that of pointers from malloc. This is not a test: it checks no result.
 *
 * usage: cost [WHICH]   for example under perf stat
 * make -C tests/capi cost PREFIX=... OUT=... */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <compll.h>
#include <time.h>

enum { NODES = 16384, CALLS = 4000000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static unsigned compress(const unsigned char *src, unsigned len, unsigned char *dest, unsigned room) {
    (void)src, (void)len, (void)dest, (void)room;
    return 0;
}
static void decompress(const unsigned char *src, unsigned len, unsigned char *dest, unsigned room) {
    (void)room;
    memcpy(dest, src, len);
}

static const char *only;
static double empty;

#define MEASURE(what, call)                                                      \
    do {                                                                         \
        double best = 1e30;                                                      \
        if (only && strcmp(only, what) != 0) break;                              \
        for (int round = 0; round < 3; round++) {                                \
            uint64_t state = 1;                                                  \
            double begin = now();                                                \
            for (int i = 0; i < CALLS; i++) {                                    \
                size_t at = below(&state, NODES);                                \
                call;                                                            \
            }                                                                    \
            double took = (now() - begin) / CALLS;                               \
            if (took < best) best = took;                                        \
        }                                                                        \
        printf("%-30s %6.1f\n", what, best - empty);                             \
    } while (0)

static int add(void *context, const void *element, size_t len) {
    uint64_t number;
    memcpy(&number, element, len);
    *(uint64_t *)context += number;
    return 0;
}

/* The overhead of the functions for slab lists: the list is in one leaf, and in the processor's cache. */
static void of_lists(memfold_session *session) {
    memfold_slablist *list;
    memfold_slabmap *map;
    uint64_t word = 0, folded = 0;
    int is;
    OK(memfold_slablist_new(session, NULL, &list));
    OK(memfold_slabmap_new(session, NULL, &map));
    for (uint64_t i = 0; i < 1000; i++) {
        OK(memfold_slablist_add_u64(list, i * (NODES / 1000), NULL));
        OK(memfold_slabmap_put(map, &i, 8, &i, 8, NULL));
    }
    MEASURE("memfold_slablist_len", (word = at, memfold_slablist_len(list, &word)));
    MEASURE("memfold_slablist_contains_u64", memfold_slablist_contains_u64(list, at, &is));
    MEASURE("memfold_slablist_contains", (word = at, memfold_slablist_contains(list, &word, 8, &is)));
    MEASURE("memfold_slablist_get_u64", memfold_slablist_get_u64(list, at % 1000, &word));
    MEASURE("memfold_slablist_foldl of 100", if (i % 100 == 0) memfold_slablist_foldl(list, at % 900, at % 900 + 100, add, &folded, NULL));
    MEASURE("memfold_slabmap_get", (word = at % 1000, memfold_slabmap_get(map, &word, 8, &word, 8, NULL)));
    OK(memfold_slablist_free(list));
    OK(memfold_slabmap_free(map));
}

int main(int count, char **arguments) {
    only = count > 1 ? arguments[1] : NULL;
    static memfold_handle nodes[NODES];
    static compll_t items[NODES];
    static uint64_t *plain[NODES];
    memfold_options options = small_options(32 << 10, 64);
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    volatile uint64_t sink = 0;
    uint64_t word = 0;
    const void *bytes;
    OK(compll_init(32 << 10, 8, 64, compress, decompress));
    for (int i = 0; i < NODES; i++) {
        OK(memfold_alloc(session, 64, &nodes[i]));
        CHECK((items[i] = compll_alloc(64)) != 0);
        CHECK((plain[i] = calloc(1, 64)) != NULL);
    }
    MEASURE("nothing", sink += at);
    double first = now();
    uint64_t numbers = 1;
    for (int i = 0; i < CALLS; i++) sink += below(&numbers, NODES);
    empty = (now() - first) / CALLS;
    MEASURE("pointer, read", sink += *plain[at]);
    MEASURE("memfold_read_at", memfold_read_at(session, nodes[at], 0, &word, 8));
    MEASURE("memfold_write_at", memfold_write_at(session, nodes[at], 0, &word, 8));
    unsigned char whole[64];
    MEASURE("memfold_read", memfold_read(session, nodes[at], whole, sizeof whole, NULL));
    MEASURE("memfold_pin, _unpin", (memfold_pin(session, nodes[at], &bytes), memfold_unpin(session, nodes[at])));
    MEASURE("compll_read", sink += *(const uint64_t *)compll_read(items[at]));
    MEASURE("compll_read, one block", sink += *(const uint64_t *)compll_read(items[at % 64]));
    MEASURE("compll_read, one node", sink += *(const uint64_t *)compll_read(items[at / NODES]));
    MEASURE("compll_write", *(uint64_t *)compll_write(items[at]) = word);
    MEASURE("an error, memfold_read_at", memfold_read_at(session, nodes[at], 60, &word, 8));
    of_lists(session);
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
    for (int i = 0; i < NODES; i++) {
        compll_free(items[i]);
        free(plain[i]);
    }
    return 0;
}
