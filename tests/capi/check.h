/* Shared by all of these tests. A check that fails ends the test with status 1 and says where. */
#ifndef CHECK_H
#define CHECK_H

#include <memfold.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define CHECK(what) ((what) ? (void)0 : FAIL("not so: %s", #what))
#define FAILS(code, call)                                                                                             \
    do {                                                                                                              \
        int got_ = (call);                                                                                            \
        if (got_ != (code)) FAIL("%s: %d (%s), not %s", #call, got_, got_ ? memfold_last_error() : "no error", #code); \
    } while (0)
#define OK(call) FAILS(MEMFOLD_OK, call)

/* SplitMix64: the same numbers for the same seed. */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline size_t below(uint64_t *state, size_t n) { return (size_t)(next_random(state) % n); }

/* Bytes that compress. */
static inline void fill(uint64_t *state, void *to, size_t len) {
    for (size_t i = 0; i < len; i++) ((unsigned char *)to)[i] = (unsigned char)below(state, 7);
}

/* Run-length coding: a byte and how often it occurs. */
static inline size_t shorten(const unsigned char *from, size_t len, unsigned char *to, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        size_t run = 1;
        while (run < 255 && i + run < len && from[i + run] == from[i]) run++;
        if (n + 2 > room) return 0;
        to[n++] = from[i];
        to[n++] = (unsigned char)run;
        i += run;
    }
    return n;
}

static inline size_t lengthen(const unsigned char *from, size_t from_len, unsigned char *to, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i + 1 < from_len; i += 2)
        for (unsigned run = from[i + 1]; run > 0 && n < len; run--) to[n++] = from[i];
    return n;
}

static inline memfold_heap *new_heap(const memfold_options *options) {
    memfold_heap *heap = NULL;
    OK(memfold_heap_new(options, &heap));
    return heap;
}

static inline memfold_session *open_session(memfold_heap *heap) {
    memfold_session *session = NULL;
    OK(memfold_session_open(heap, &session));
    return session;
}

/* A heap so small that everything is evicted all the time. */
static inline memfold_options small_options(size_t block_size, uint32_t blocks) {
    memfold_options options = memfold_default_options();
    options.block_size = block_size;
    options.limit_blocks = blocks;
    return options;
}

#endif
