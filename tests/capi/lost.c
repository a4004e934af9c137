/* A spill file that loses data: nodes are lost, saving says so and names one, and the heap works on with the
 * rest. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 1000, LONG_BYTES = 100000, LONGS = 60, LIMIT = 8 << 20 };

static unsigned char wanted[LONG_BYTES], found[LONG_BYTES];

struct node {
    memfold_handle handle;
    size_t len;
    int is_lost;
};

/* Bytes that do not compress, different for each node. */
static void noise(uint64_t seed, size_t len) {
    uint64_t state = seed;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = next_random(&state);
        memcpy(wanted + at, &word, 8);
    }
}

static struct node make(memfold_session *session, uint64_t seed, size_t len) {
    struct node node = {0, len, 0};
    noise(seed, len);
    OK(memfold_alloc(session, len, &node.handle));
    OK(memfold_write_at(session, node.handle, 0, wanted, len));
    return node;
}

/* Overwrites the first half of the spill file, or truncates it to nothing. The file has no name any more, but
 * this process has it open. */
static void lose(const char *directory, int all) {
    DIR *open_files = opendir("/proc/self/fd");
    CHECK(open_files);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(open_files));) {
        char link[300], path[300];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t len = readlink(link, path, sizeof path - 1);
        if (len < 0 || strncmp(path, directory, strlen(directory)) != 0) continue;
        int file = open(link, O_WRONLY);
        struct stat stat;
        CHECK(file >= 0 && fstat(file, &stat) == 0);
        memset(found, 0xaa, sizeof found);
        for (off_t at = 0; !all && at < stat.st_size / 2; at += BYTES)
            CHECK(pwrite(file, found, BYTES, at) == BYTES);
        CHECK(!all || ftruncate(file, 0) == 0);
        CHECK(fsync(file) == 0 && close(file) == 0);
        count++;
    }
    CHECK(closedir(open_files) == 0 && count > 0);
}

/* Checks that each node is unchanged or lost; returns how many are lost. */
static uint64_t look(memfold_session *session, struct node *nodes, uint64_t count) {
    uint64_t lost = 0;
    for (uint64_t i = 0; i < count; i++) {
        int error = memfold_read(session, nodes[i].handle, found, sizeof found, NULL);
        noise(i, nodes[i].len);
        CHECK(error == MEMFOLD_OK ? memcmp(wanted, found, nodes[i].len) == 0 : error == MEMFOLD_LOST);
        nodes[i].is_lost = error == MEMFOLD_LOST;
        lost += error == MEMFOLD_LOST;
    }
    return lost;
}

/* Checks that each node is unchanged or freed, and all lost ones are freed; returns how many are left. */
static uint64_t left(memfold_session *session, const struct node *nodes, uint64_t count) {
    uint64_t there = 0;
    for (uint64_t i = 0; i < count; i++) {
        int error = memfold_read(session, nodes[i].handle, found, sizeof found, NULL);
        noise(i, nodes[i].len);
        CHECK(error == MEMFOLD_OK ? memcmp(wanted, found, nodes[i].len) == 0 : error == MEMFOLD_STALE);
        CHECK(error == MEMFOLD_STALE || !nodes[i].is_lost);
        there += error == MEMFOLD_OK;
    }
    return there;
}

/* `longs`: some nodes are longer than a block. `all`: nothing is left of the file. `one_by_one`: lost nodes
 * are freed like any others. */
static void lost(uint64_t count, int longs, int all, int one_by_one) {
    char directory[] = "/tmp/memfold-lost-XXXXXX", file[64];
    CHECK(mkdtemp(directory));
    memfold_options options = memfold_default_options();
    options.limit_bytes = LIMIT;
    options.spill = directory;
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    struct node *nodes = calloc(count, sizeof *nodes);
    CHECK(nodes);
    for (uint64_t i = 0; i < count; i++)
        nodes[i] = make(session, i, longs && i % (count / LONGS) == 0 ? LONG_BYTES : BYTES);
    CHECK(look(session, nodes, count) == 0);
    uint64_t freed = 77;
    FAILS(MEMFOLD_OPEN, memfold_heap_free_lost(heap, &freed));
    OK(memfold_session_close(session));
    OK(memfold_heap_free_lost(heap, &freed));
    CHECK(freed == 0);

    lose(directory, all);
    session = open_session(heap);
    uint64_t known = look(session, nodes, count);
    CHECK(known > count / 10 && known < count);
    if (one_by_one)
        for (uint64_t i = 0; i < count; i++)
            if (nodes[i].is_lost) {
                OK(memfold_free(session, nodes[i].handle));
                FAILS(MEMFOLD_STALE, memfold_free(session, nodes[i].handle));
            }
    OK(memfold_session_close(session));

    snprintf(file, sizeof file, "%s.heap", directory);
    int error = memfold_heap_save(heap, file);
    if (!one_by_one) {
        CHECK(error == MEMFOLD_LOST && access(file, F_OK) != 0);
        unsigned long long blocks, lost_nodes, handle;
        int is_known = 0;
        const char *form = "the tier lost %llu block%*[s] with %llu node%*[s], for example the one with the handle %llx";
        if (sscanf(memfold_last_error(), form, &blocks, &lost_nodes, &handle) != 3)
            FAIL("'%s' names no node", memfold_last_error());
        for (uint64_t i = 0; i < count; i++) is_known |= nodes[i].is_lost && nodes[i].handle == handle;
        /* The message may name a part of a long node. */
        CHECK(blocks > 0 && lost_nodes >= blocks && (is_known || longs));
        FAILS(MEMFOLD_VIOLATION, memfold_heap_check(heap));
    } else
        CHECK(error == MEMFOLD_OK || error == MEMFOLD_LOST);

    memfold_stats stats;
    OK(memfold_heap_free_lost(heap, &freed));
    CHECK(freed > 0 || one_by_one);
    OK(memfold_heap_free_lost(heap, NULL));
    OK(memfold_heap_free_lost(heap, &freed));
    CHECK(freed == 0);
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_free_lost((memfold_heap *)8, &freed));
    FAILS(MEMFOLD_NULL, memfold_heap_free_lost(NULL, &freed));
    OK(memfold_heap_check(heap));
    session = open_session(heap);
    uint64_t there = left(session, nodes, count);
    CHECK(there <= count - known);
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == there);
    /* The heap works on, and spills to the same file. */
    struct node more[100];
    for (uint64_t i = 0; i < 100; i++) more[i] = make(session, i, BYTES);
    CHECK(left(session, more, 100) == 100);
    OK(memfold_session_close(session));

    OK(memfold_heap_save(heap, file));
    OK(memfold_heap_destroy(heap));
    OK(memfold_heap_load(file, NULL, &heap));
    OK(memfold_heap_check(heap));
    session = open_session(heap);
    CHECK(left(session, nodes, count) == there && left(session, more, 100) == 100);
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
    free(nodes);
    CHECK(unlink(file) == 0 && rmdir(directory) == 0);
}

int main(void) {
    uint64_t count = getenv("MEMFOLD_TEST_QUICK") ? 12000 : 40000;
    lost(count, 0, 0, 0);
    lost(count, 1, 0, 0);
    lost(count, 1, 0, 1);
    lost(count, 1, 1, 0);
    puts("lost: what the tier lost was freed, and the rest was saved");
    return 0;
}
