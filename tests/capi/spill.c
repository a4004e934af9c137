/* A heap that is larger than its limit and spills to a file. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1000, LIMIT = 8 << 20 };

/* Bytes that do not compress, different for each node. */
static void noise(uint64_t seed, unsigned char *to) {
    uint64_t state = seed * 0x9e3779b97f4a7c15 | 1;
    for (size_t at = 0; at < BYTES; at += sizeof state) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(to + at, &state, sizeof state);
    }
}

int main(void) {
    uint64_t count = getenv("MEMFOLD_TEST_QUICK") ? 12000 : 40000;
    char directory[] = "/tmp/memfold-spill-XXXXXX";
    CHECK(mkdtemp(directory));
    memfold_options options = memfold_default_options();
    options.limit_bytes = LIMIT;
    options.spill = directory;
    options.spill_bytes = 100 << 20;
    memfold_heap *heap;
    memfold_session *session;
    OK(memfold_heap_new(&options, &heap));
    OK(memfold_session_open(heap, &session));
    memfold_handle *nodes = calloc(count, sizeof *nodes);
    CHECK(nodes);
    unsigned char wanted[BYTES], found[BYTES];
    for (uint64_t i = 0; i < count; i++) {
        noise(i, wanted);
        OK(memfold_alloc(session, BYTES, &nodes[i]));
        OK(memfold_write_at(session, nodes[i], 0, wanted, BYTES));
    }
    memfold_stats stats;
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.frame_bytes + stats.payload_bytes + stats.table_bytes <= LIMIT);
    CHECK(stats.spilled_bytes > count * BYTES - LIMIT);
    CHECK(stats.spill_health == MEMFOLD_SPILL_OPEN);
    /* The directory is empty, because the file has no name any more. */
    CHECK(rmdir(directory) == 0);
    for (uint64_t step = 0; step < count; step++) {
        uint64_t i = step * 7919 % count;
        noise(i, wanted);
        OK(memfold_read_at(session, nodes[i], 0, found, BYTES));
        CHECK(memcmp(wanted, found, BYTES) == 0);
    }
    /* A forked child can use the blocks that are in memory. Spilled blocks belong to its parent alone, and
     * stay intact whatever the child does. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t there = 0, away = 0;
        for (uint64_t i = 0; i < count; i++) {
            noise(i, wanted);
            int error = memfold_read_at(session, nodes[i], 0, found, BYTES);
            CHECK(error == MEMFOLD_OK ? memcmp(wanted, found, BYTES) == 0 : error == MEMFOLD_AWAY);
            *(error == MEMFOLD_OK ? &there : &away) += 1;
            if (i % 2 == 0) {
                error = memfold_write_at(session, nodes[i], 0, found, BYTES);
                CHECK(error == MEMFOLD_OK || error == MEMFOLD_AWAY);
            } else
                CHECK((error = memfold_free(session, nodes[i])) == MEMFOLD_OK || error == MEMFOLD_AWAY);
        }
        CHECK(there > 0 && away > 0);
        OK(memfold_session_close(session));
        OK(memfold_heap_destroy(heap));
        /* Not exit: memory of the parent's threads would be reported as a leak. */
        raise(SIGKILL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (uint64_t i = 0; i < count; i++) {
        noise(i, wanted);
        OK(memfold_read_at(session, nodes[i], 0, found, BYTES));
        CHECK(memcmp(wanted, found, BYTES) == 0);
    }
    for (uint64_t i = 0; i < count; i++)
        OK(memfold_free(session, nodes[i]));
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.spilled_bytes == 0);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
    free(nodes);

    /* When the spill file is full, allocations fail at the limit. */
    char full[] = "/tmp/memfold-spill-XXXXXX";
    CHECK(mkdtemp(full));
    options.spill = full;
    options.spill_bytes = 1 << 20;
    OK(memfold_heap_new(&options, &heap));
    OK(memfold_session_open(heap, &session));
    memfold_handle node;
    int error = MEMFOLD_OK;
    uint64_t made = 0;
    for (; made < count && error == MEMFOLD_OK; made++) {
        noise(made, wanted);
        error = memfold_alloc(session, BYTES, &node);
        if (error == MEMFOLD_OK)
            error = memfold_write_at(session, node, 0, wanted, BYTES);
    }
    CHECK(error == MEMFOLD_LIMIT && made > 4000);
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.spill_health == MEMFOLD_SPILL_FULL);
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
    CHECK(rmdir(full) == 0);
    puts("spill: all nodes came back from a file");
    return 0;
}
