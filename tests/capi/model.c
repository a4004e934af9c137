/* Random operations against a model in memory from malloc, with so few resident blocks that everything is
 * evicted all the time; then the same by several threads, which also write to shared nodes.
 *
 * usage: model [SEED] */
#include "check.h"

#include <pthread.h>

enum { NODES = 400, THREADS = 4, COMMON = 16 };

struct model {
    memfold_handle node;
    size_t len;
    unsigned char *bytes;
};

static void same(memfold_session *session, const struct model *m) {
    static _Thread_local unsigned char copy[5000];
    size_t size = 0;
    OK(memfold_read(session, m->node, copy, sizeof copy, &size));
    CHECK(size == m->len && memcmp(copy, m->bytes, size) == 0);
}

/* Does one operation on a random node. */
static void step(memfold_session *session, struct model *all, uint64_t *state, size_t longest) {
    static _Thread_local unsigned char some[5000];
    struct model *m = &all[below(state, NODES)];
    const struct model *near_to = &all[below(state, NODES)];
    const void *pinned;
    void *to;
    if (!m->len) {
        int has_near = near_to->len && below(state, 2);
        m->len = 1 + below(state, longest);
        m->bytes = calloc(1, m->len);
        if (has_near) OK(memfold_alloc_near(session, m->len, near_to->node, &m->node));
        else OK(memfold_alloc(session, m->len, &m->node));
        return;
    }
    size_t from = below(state, m->len), len = 1 + below(state, m->len - from);
    switch (below(state, 8)) {
    case 0:
        same(session, m);
        OK(memfold_free(session, m->node));
        FAILS(MEMFOLD_STALE, memfold_size(session, m->node, &len));
        free(m->bytes);
        m->len = 0;
        break;
    case 1:
        len = 1 + below(state, longest);
        OK(memfold_resize(session, &m->node, len));
        m->bytes = realloc(m->bytes, len);
        if (len > m->len) memset(m->bytes + m->len, 0, len - m->len);
        m->len = len;
        break;
    case 2:
    case 3:
        fill(state, m->bytes + from, len);
        OK(memfold_write_at(session, m->node, from, m->bytes + from, len));
        break;
    case 4:
        OK(memfold_pin_mut(session, m->node, &to));
        CHECK(memcmp(to, m->bytes, m->len) == 0);
        fill(state, m->bytes + from, len);
        memcpy((unsigned char *)to + from, m->bytes + from, len);
        OK(memfold_unpin(session, m->node));
        break;
    case 5:
        OK(memfold_pin(session, m->node, &pinned));
        /* Other blocks are restored and evicted while it is pinned. */
        if (near_to->len) same(session, near_to);
        CHECK(memcmp(pinned, m->bytes, m->len) == 0);
        /* Copy from a pinned node to another node, or to itself. */
        if (near_to->len >= len) {
            OK(memfold_write_at(session, near_to->node, 0, (const unsigned char *)pinned + from, len));
            memmove(near_to->bytes, m->bytes + from, len);
        }
        OK(memfold_unpin(session, m->node));
        break;
    case 6:
        OK(memfold_read_at(session, m->node, from, some, len));
        CHECK(memcmp(some, m->bytes + from, len) == 0);
        break;
    default: same(session, m);
    }
}

static void release(memfold_session *session, struct model *all) {
    for (size_t i = 0; i < NODES; i++) {
        if (!all[i].len) continue;
        same(session, &all[i]);
        OK(memfold_free(session, all[i].node));
        free(all[i].bytes);
        all[i].len = 0;
    }
}

static void alone(memfold_options options, size_t longest, int steps, uint64_t seed) {
    memfold_heap *heap = new_heap(&options);
    struct model *all = calloc(NODES, sizeof *all);
    memfold_stats stats;
    for (int round = 0; round < 3; round++) {
        memfold_session *session = open_session(heap);
        for (int i = 0; i < steps; i++) step(session, all, &seed, longest);
        OK(memfold_session_close(session));
        OK(memfold_heap_check(heap));
    }
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    uint64_t nodes = 0, bytes = 0;
    for (size_t i = 0; i < NODES; i++) {
        nodes += all[i].len > 0;
        bytes += all[i].len;
    }
    CHECK(stats.nodes == nodes && stats.node_bytes == bytes);
    CHECK(stats.faults > 100 && stats.evictions > 100 && stats.callback_faults == 0);
    memfold_session *session = open_session(heap);
    release(session, all);
    OK(memfold_session_close(session));
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 0 && stats.blocks == 0 && stats.sessions == 0);
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
    free(all);
}

static memfold_heap *heap;
static memfold_handle common[COMMON];
static uint64_t written[THREADS];
static int steps_each;

/* Each shared node has eight equal words, and every read must see them equal. */
static void on_common(memfold_session *session, uint64_t *state) {
    uint64_t words[8];
    memfold_handle node = common[below(state, COMMON)];
    if (below(state, 3) == 0) {
        uint64_t word = next_random(state);
        for (int i = 0; i < 8; i++) words[i] = word;
        OK(memfold_write_at(session, node, 0, words, sizeof words));
    } else {
        OK(memfold_read_at(session, node, 0, words, sizeof words));
        for (int i = 1; i < 8; i++) CHECK(words[i] == words[0]);
    }
}

static void *one_of_many(void *number) {
    uint64_t state = *(uint64_t *)number;
    struct model *all = calloc(NODES, sizeof *all);
    memfold_session *session = open_session(heap);
    for (int i = 0; i < steps_each; i++) {
        step(session, all, &state, 300);
        on_common(session, &state);
    }
    release(session, all);
    OK(memfold_session_close(session));
    free(all);
    return NULL;
}

static void together(memfold_options options, uint64_t seed) {
    pthread_t threads[THREADS];
    memfold_stats stats;
    heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    for (int i = 0; i < COMMON; i++) OK(memfold_alloc(session, 64, &common[i]));
    for (int i = 0; i < THREADS; i++) {
        written[i] = seed + (uint64_t)i;
        CHECK(pthread_create(&threads[i], NULL, one_of_many, &written[i]) == 0);
    }
    /* Meanwhile this thread calls functions of heaps. */
    for (int i = 0; i < 20; i++) {
        OK(memfold_heap_stats(heap, &stats, sizeof stats));
        FAILS(MEMFOLD_OPEN, memfold_heap_destroy(heap));
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == COMMON && stats.faults > 10);
    OK(memfold_heap_destroy(heap));
}

int main(int count, char **arguments) {
    uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 0) : 1;
    /* Under valgrind everything takes fifty times as long. */
    int steps = getenv("MEMFOLD_TEST_QUICK") ? 300 : 4000;
    static const char *const codecs[] = {NULL, "lz4", "copy", "deflate:1", "snappy", "auto", "zstd-dict:1", "delta:8x1+shuffle:8+lz4"};
    static const char *const policies[] = {"fifo", "second-chance", "lru", "lfu", "sieve"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        memfold_options options = small_options(4096, 3);
        options.codec = codecs[i];
        options.policy = policies[i % 5];
        options.alignment = (size_t)1 << i % 5;
        alone(options, 700, steps, seed + i);
    }
    memfold_options options = small_options(16 << 10, 4);
    alone(options, 5000, steps, seed + 100);
    options = small_options(1024, 1);
    options.paranoid = 1;
    alone(options, 200, steps / 4, seed + 200);
    steps_each = steps;
    together(small_options(2048, 16), seed + 300);
    printf("model %llu: ok\n", (unsigned long long)seed);
    return 0;
}
