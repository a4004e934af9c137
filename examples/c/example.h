/* Shared by the examples: an error ends the program with a message. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <memfold.h>

#include <stdio.h>
#include <stdlib.h>

#define TRY(call) try_(call, #call)
#define EXPECT(what) expect_(what, #what)

static inline void try_(int error, const char *what) {
    if (error == MEMFOLD_OK) return;
    fprintf(stderr, "%s: %s\n", what, memfold_last_error());
    exit(1);
}

static inline void expect_(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

/* Prints how much the heap has saved, at the end of an example. */
static inline void say(memfold_heap *heap, const char *what) {
    memfold_stats stats;
    TRY(memfold_heap_stats(heap, &stats, sizeof stats));
    printf("%s: %llu nodes with %llu KiB, in %llu KiB of memory\n", what, (unsigned long long)stats.nodes,
           (unsigned long long)(stats.node_bytes >> 10),
           (unsigned long long)((stats.frame_bytes + stats.payload_bytes + stats.table_bytes) >> 10));
}

#endif
