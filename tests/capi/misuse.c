/* Everything that a program can do wrong, and the errors that it gets. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void bad_options(void) {
    memfold_heap *heap = (memfold_heap *)1;
    struct {
        const char *says;
        memfold_options options;
    } cases[24];
    size_t n = 0;
    memset(cases, 0, sizeof cases);
#define CASE(text, set)                                    \
    do {                                                   \
        memfold_options *o = &cases[n].options;            \
        *o = memfold_default_options();                    \
        set;                                               \
        cases[n++].says = text;                            \
    } while (0)
    CASE("1024 to 16777216", o->block_size = 1000);
    CASE("1024 to 16777216", o->block_size = 512);
    CASE("1024 to 16777216", o->block_size = 32 << 20);
    CASE("1024 to 16777216", o->block_size = SIZE_MAX);
    CASE("1 to 4096", o->alignment = 3);
    CASE("1 to 4096", o->alignment = 8192);
    CASE("four nodes", (o->alignment = 512, o->block_size = 1024));
    CASE("at least 65536 bytes", o->limit_bytes = 100);
    CASE("give one", (o->limit_bytes = 1 << 20, o->limit_blocks = 1));
    CASE("paranoid is 2", o->paranoid = 2);
    CASE("'zstd:99'", o->codec = "zstd:99");
    CASE("''", o->codec = "");
    CASE("not UTF-8", o->codec = "\xff\xfe");
    CASE("\\u{1b}[31m", o->codec = "\x1b[31m");
    CASE("\\n", o->policy = "x\n");
    CASE("'mru'", o->policy = "mru");
    CASE("not UTF-8", o->policy = "\xc3");
    CASE("without limit_bytes", o->spill = "/tmp");
    CASE("without spill", (o->limit_bytes = 1 << 24, o->spill_bytes = 1));
    CASE("spill and plain", (o->limit_bytes = 1 << 24, o->spill = "/tmp", o->plain = 1));
    CASE("/nowhere/at/all", (o->limit_bytes = 1 << 24, o->spill = "/nowhere/at/all"));
    CASE("struct_size is 0", o->struct_size = 0);
    CASE("struct_size is 8", o->struct_size = 8);
    CASE("struct_size", o->struct_size = SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        FAILS(MEMFOLD_OPTION, memfold_heap_new(&cases[i].options, &heap));
        if (!strstr(memfold_last_error(), cases[i].says))
            FAIL("case %zu: '%s' does not say '%s'", i, memfold_last_error(), cases[i].says);
        CHECK(heap == (memfold_heap *)1);
    }
    FAILS(MEMFOLD_NULL, memfold_heap_new(NULL, NULL));

    /* A program built with a later header. */
    struct {
        memfold_options known;
        uint64_t later;
    } longer = {memfold_default_options(), 0};
    longer.known.struct_size = sizeof longer;
    OK(memfold_heap_new(&longer.known, &heap));
    OK(memfold_heap_destroy(heap));
    longer.later = 1;
    FAILS(MEMFOLD_OPTION, memfold_heap_new(&longer.known, &heap));
    CHECK(strstr(memfold_last_error(), "does not know"));
}

static void bad_heaps(void) {
    memfold_heap *heap = new_heap(NULL), *other = new_heap(NULL);
    memfold_session *session = open_session(heap), *none = NULL;
    memfold_stats stats;
    int local;
    void *invented[] = {(void *)1, (void *)-1, &local, (void *)((uintptr_t)heap + 4), (void *)((uintptr_t)heap ^ 1ull << 40),
                        (void *)((uintptr_t)heap + 1), session};
    for (size_t i = 0; i < sizeof invented / sizeof *invented; i++) {
        memfold_heap *no = (memfold_heap *)invented[i];
        if (no == other) continue;
        FAILS(MEMFOLD_NO_HEAP, memfold_session_open(no, &none));
        FAILS(MEMFOLD_NO_HEAP, memfold_heap_stats(no, &stats, sizeof stats));
        FAILS(MEMFOLD_NO_HEAP, memfold_heap_check(no));
        FAILS(MEMFOLD_NO_HEAP, memfold_heap_destroy(no));
    }
    FAILS(MEMFOLD_NULL, memfold_session_open(NULL, &none));
    FAILS(MEMFOLD_NULL, memfold_session_open(heap, NULL));
    FAILS(MEMFOLD_NULL, memfold_heap_stats(NULL, &stats, sizeof stats));
    FAILS(MEMFOLD_NULL, memfold_heap_stats(heap, NULL, sizeof stats));
    FAILS(MEMFOLD_NULL, memfold_heap_check(NULL));
    FAILS(MEMFOLD_NULL, memfold_heap_destroy(NULL));
    CHECK(none == NULL);

    FAILS(MEMFOLD_OPEN, memfold_heap_check(heap));
    FAILS(MEMFOLD_OPEN, memfold_heap_destroy(heap));
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_destroy(heap));
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_check(heap));
    FAILS(MEMFOLD_NO_HEAP, memfold_session_open(heap, &none));
    /* The number of a heap is not given out again. */
    memfold_heap *another = new_heap(NULL);
    CHECK(another != heap && another != other);
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_stats(heap, &stats, sizeof stats));

    /* Structs of other versions of the header. */
    unsigned char longer[sizeof stats + 16], shorter[8];
    memset(longer, 0xaa, sizeof longer);
    OK(memfold_heap_stats(other, (memfold_stats *)(void *)longer, sizeof longer));
    for (size_t i = sizeof stats; i < sizeof longer; i++) CHECK(longer[i] == 0);
    OK(memfold_heap_stats(other, (memfold_stats *)(void *)shorter, sizeof shorter));
    OK(memfold_heap_destroy(another));
    OK(memfold_heap_destroy(other));
}

static memfold_heap *shared;
static memfold_session *foreign;

static void *uses_anothers(void *unused) {
    memfold_handle node;
    (void)unused;
    FAILS(MEMFOLD_NO_SESSION, memfold_alloc(foreign, 8, &node));
    FAILS(MEMFOLD_NO_SESSION, memfold_session_close(foreign));
    /* Left open: it is closed when the thread ends. */
    memfold_session *own = open_session(shared);
    OK(memfold_alloc(own, 8, &node));
    const void *bytes;
    OK(memfold_pin(own, node, &bytes));
    return own;
}

static void bad_sessions(void) {
    memfold_handle node = 0;
    size_t size;
    shared = new_heap(NULL);
    foreign = open_session(shared);
    memfold_stats stats;
    pthread_t thread;
    void *left;
    CHECK(pthread_create(&thread, NULL, uses_anothers, NULL) == 0);
    CHECK(pthread_join(thread, &left) == 0);
    FAILS(MEMFOLD_NO_SESSION, memfold_alloc((memfold_session *)left, 8, &node));
    OK(memfold_heap_stats(shared, &stats, sizeof stats));
    CHECK(stats.sessions == 1 && stats.nodes == 1);

    int local;
    void *invented[] = {(void *)1, (void *)-1, &local, (void *)((uintptr_t)foreign + 4), (void *)((uintptr_t)foreign ^ 1ull << 40),
                        shared};
    for (size_t i = 0; i < sizeof invented / sizeof *invented; i++) {
        FAILS(MEMFOLD_NO_SESSION, memfold_alloc((memfold_session *)invented[i], 8, &node));
        FAILS(MEMFOLD_NO_SESSION, memfold_size((memfold_session *)invented[i], 8, &size));
        FAILS(MEMFOLD_NO_SESSION, memfold_session_close((memfold_session *)invented[i]));
    }
    FAILS(MEMFOLD_NULL, memfold_alloc(NULL, 8, &node));
    FAILS(MEMFOLD_NULL, memfold_free(NULL, 8));
    FAILS(MEMFOLD_NULL, memfold_unpin(NULL, 8));
    FAILS(MEMFOLD_NULL, memfold_session_close(NULL));
    CHECK(node == 0);

    OK(memfold_session_close(foreign));
    FAILS(MEMFOLD_NO_SESSION, memfold_session_close(foreign));
    FAILS(MEMFOLD_NO_SESSION, memfold_alloc(foreign, 8, &node));
    memfold_session *again = open_session(shared);
    CHECK(again != foreign);
    FAILS(MEMFOLD_NO_SESSION, memfold_alloc(foreign, 8, &node));
    OK(memfold_session_close(again));

    /* More sessions than a thread can have. */
    static memfold_session *many[1100];
    size_t made = 0;
    while (memfold_session_open(shared, &many[made]) == MEMFOLD_OK) made++;
    CHECK(made == 1024);
    FAILS(MEMFOLD_NO_MEMORY, memfold_session_open(shared, &many[made]));
    while (made--) OK(memfold_session_close(many[made]));
    OK(memfold_heap_check(shared));
    OK(memfold_heap_destroy(shared));
}

static void refused(memfold_session *session, memfold_handle node) {
    unsigned char byte = 0;
    const void *bytes = NULL;
    void *to = NULL;
    size_t size = 77;
    memfold_handle other = 77, same = node;
    FAILS(MEMFOLD_STALE, memfold_size(session, node, &size));
    FAILS(MEMFOLD_STALE, memfold_read(session, node, &byte, 1, &size));
    FAILS(MEMFOLD_STALE, memfold_read_at(session, node, 0, &byte, 1));
    FAILS(MEMFOLD_STALE, memfold_write_at(session, node, 0, &byte, 1));
    FAILS(MEMFOLD_STALE, memfold_alloc_near(session, 8, node, &other));
    FAILS(MEMFOLD_STALE, memfold_resize(session, &same, 8));
    FAILS(MEMFOLD_STALE, memfold_pin(session, node, &bytes));
    FAILS(MEMFOLD_STALE, memfold_pin_mut(session, node, &to));
    FAILS(MEMFOLD_NOT_PINNED, memfold_unpin(session, node));
    FAILS(MEMFOLD_STALE, memfold_free(session, node));
    CHECK(size == 77 && other == 77 && same == node && !bytes && !to);
}

static void bad_nodes(uint32_t paranoid) {
    memfold_options options = small_options(1024, 3);
    options.paranoid = paranoid;
    memfold_heap *heap = new_heap(&options), *elsewhere = new_heap(&options);
    memfold_session *session = open_session(heap), *there = open_session(elsewhere);
    memfold_handle node, freed, foreign_node = 0;
    unsigned char bytes[200];
    size_t size = 77;

    OK(memfold_alloc(session, 100, &node));
    OK(memfold_alloc(session, 100, &freed));
    /* A node in a block that the first heap does not have. */
    for (int i = 0; i < 40; i++) OK(memfold_alloc(there, 100, &foreign_node));
    OK(memfold_free(session, freed));
    refused(session, freed);
    refused(session, MEMFOLD_NO_NODE);
    refused(session, foreign_node);
    uint64_t state = 1;
    for (int i = 0; i < 200; i++) {
        memfold_handle invented = next_random(&state) >> below(&state, 64);
        if (invented != node) refused(session, invented);
    }
    for (unsigned bit = 0; bit < 64; bit++) refused(session, node ^ 1ull << bit);

    FAILS(MEMFOLD_SIZE, memfold_alloc(session, 0, &freed));
    FAILS(MEMFOLD_SIZE, memfold_alloc(session, SIZE_MAX, &freed));
    FAILS(MEMFOLD_SIZE, memfold_alloc_near(session, 0, node, &freed));
    FAILS(MEMFOLD_SIZE, memfold_resize(session, &node, 0));
    FAILS(MEMFOLD_SIZE, memfold_resize(session, &node, SIZE_MAX));
    FAILS(MEMFOLD_RANGE, memfold_read_at(session, node, 0, bytes, 101));
    CHECK(strstr(memfold_last_error(), "the node has 100 bytes, and 101 bytes from 0 on are not all in it"));
    FAILS(MEMFOLD_RANGE, memfold_read_at(session, node, 101, bytes, 0));
    FAILS(MEMFOLD_RANGE, memfold_read_at(session, node, SIZE_MAX, bytes, 2));
    FAILS(MEMFOLD_RANGE, memfold_read_at(session, node, 0, bytes, SIZE_MAX));
    FAILS(MEMFOLD_RANGE, memfold_write_at(session, node, 1, bytes, 100));
    FAILS(MEMFOLD_RANGE, memfold_write_at(session, node, SIZE_MAX, bytes, 2));
    CHECK(strstr(memfold_last_error(), "2 bytes from 18446744073709551615 on are not all in it"));
    FAILS(MEMFOLD_RANGE, memfold_write_at(session, node, 0, bytes, SIZE_MAX));
    FAILS(MEMFOLD_RANGE, memfold_read(session, node, bytes, 99, &size));
    CHECK(size == 100);
    FAILS(MEMFOLD_RANGE, memfold_read(session, node, NULL, 0, NULL));
    OK(memfold_read_at(session, node, 100, NULL, 0));
    OK(memfold_write_at(session, node, 100, NULL, 0));
    OK(memfold_read(session, node, bytes, sizeof bytes, NULL));
    FAILS(MEMFOLD_NULL, memfold_alloc(session, 8, NULL));
    FAILS(MEMFOLD_NULL, memfold_alloc_near(session, 8, node, NULL));
    FAILS(MEMFOLD_NULL, memfold_resize(session, NULL, 8));
    FAILS(MEMFOLD_NULL, memfold_size(session, node, NULL));
    FAILS(MEMFOLD_NULL, memfold_read(session, node, NULL, 100, &size));
    FAILS(MEMFOLD_NULL, memfold_read_at(session, node, 0, NULL, 1));
    FAILS(MEMFOLD_NULL, memfold_write_at(session, node, 0, NULL, 1));
    FAILS(MEMFOLD_NULL, memfold_pin(session, node, NULL));
    FAILS(MEMFOLD_NULL, memfold_pin_mut(session, node, NULL));
    OK(memfold_resize(session, &node, 150));
    OK(memfold_size(session, node, &size));
    CHECK(size == 150);
    OK(memfold_session_close(session));
    OK(memfold_session_close(there));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
    OK(memfold_heap_destroy(elsewhere));
}

static void bad_pins(void) {
    memfold_options options = small_options(1024, 24);
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap), *other = open_session(heap);
    memfold_handle nodes[40], node;
    const void *bytes, *again;
    void *to;
    /* Two nodes in each block. */
    for (int i = 0; i < 40; i++) OK(memfold_alloc(session, 400, &nodes[i]));
    OK(memfold_pin(session, nodes[0], &bytes));
    OK(memfold_pin_mut(session, nodes[0], &to));
    CHECK(bytes == to);
    FAILS(MEMFOLD_BUSY, memfold_free(session, nodes[0]));
    node = nodes[0];
    FAILS(MEMFOLD_BUSY, memfold_resize(session, &node, 8));
    OK(memfold_unpin(session, nodes[0]));
    FAILS(MEMFOLD_BUSY, memfold_free(session, nodes[0]));
    FAILS(MEMFOLD_NOT_PINNED, memfold_unpin(other, nodes[0]));
    OK(memfold_unpin(session, nodes[0]));
    FAILS(MEMFOLD_NOT_PINNED, memfold_unpin(session, nodes[0]));
    FAILS(MEMFOLD_NOT_PINNED, memfold_unpin(session, MEMFOLD_NO_NODE));

    /* More blocks than a session can pin. */
    int pinned = 0;
    while (pinned < 40 && memfold_pin(session, nodes[pinned], &bytes) == MEMFOLD_OK) pinned++;
    CHECK(pinned >= 16 && pinned < 40);
    FAILS(MEMFOLD_PINNED, memfold_pin(session, nodes[pinned], &bytes));
    for (int i = 0; i < pinned; i++) OK(memfold_unpin(session, nodes[i]));

    /* Freed by another session: the pointer still points to memory, and the node can be unpinned. */
    OK(memfold_pin(session, nodes[5], &bytes));
    OK(memfold_free(other, nodes[5]));
    CHECK(*(const unsigned char *)bytes == 0);
    FAILS(MEMFOLD_STALE, memfold_pin(session, nodes[5], &again));
    OK(memfold_unpin(session, nodes[5]));
    FAILS(MEMFOLD_NOT_PINNED, memfold_unpin(session, nodes[5]));
    /* Left pinned. */
    OK(memfold_pin_mut(session, nodes[7], &to));
    OK(memfold_session_close(session));
    OK(memfold_session_close(other));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));

    /* All frames pinned. */
    options = small_options(1024, 3);
    heap = new_heap(&options);
    session = open_session(heap);
    for (int i = 0; i < 40; i++) OK(memfold_alloc(session, 400, &nodes[i]));
    pinned = 0;
    while (pinned < 40 && memfold_pin(session, nodes[pinned], &bytes) == MEMFOLD_OK) pinned++;
    CHECK(pinned >= 3 && pinned < 10);
    unsigned char byte;
    FAILS(MEMFOLD_PINNED, memfold_read_at(session, nodes[39], 0, &byte, 1));
    OK(memfold_read_at(session, nodes[0], 0, &byte, 1));
    OK(memfold_unpin(session, nodes[0]));
    OK(memfold_unpin(session, nodes[1]));
    OK(memfold_read_at(session, nodes[39], 0, &byte, 1));
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

static void limits(void) {
    memfold_options options = memfold_default_options();
    /* A little more than the nodes take, so that some blocks are evicted. */
    options.limit_bytes = 7 << 18;
    options.codec = "lz4";
    options.policy = "sieve";
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    uint64_t state = 1;
    unsigned char bytes[1000];
    memfold_stats stats;
    for (int i = 0; i < 1500; i++) {
        memfold_handle node;
        OK(memfold_alloc(session, sizeof bytes, &node));
        /* Bytes that do not compress. */
        for (size_t at = 0; at < sizeof bytes; at++) bytes[at] = (unsigned char)next_random(&state);
        OK(memfold_write_at(session, node, 0, bytes, sizeof bytes));
    }
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 1500 && stats.node_bytes == 1500 * sizeof bytes && stats.evictions > 0);
    CHECK(stats.frame_bytes + stats.payload_bytes + stats.table_bytes >= 1500 * sizeof bytes);
    /* A new limit is refused if it is not valid, and otherwise holds from the next call on. */
    FAILS(MEMFOLD_OPTION, memfold_heap_set_limit(heap, 1 << 20, 8));
    FAILS(MEMFOLD_OPTION, memfold_heap_set_limit(heap, 1, 0));
    FAILS(MEMFOLD_NULL, memfold_heap_set_limit(NULL, 0, 8));
    OK(memfold_heap_set_limit(heap, 64 << 10, 0));
    memfold_handle more;
    int full = MEMFOLD_OK;
    for (int i = 0; i < 100 && full == MEMFOLD_OK; i++) full = memfold_alloc(session, sizeof bytes, &more);
    CHECK(full == MEMFOLD_LIMIT);
    FAILS(MEMFOLD_OPTION, memfold_heap_set_limit(heap, MEMFOLD_LIMIT_ALL, 8));
    OK(memfold_heap_set_limit(heap, MEMFOLD_LIMIT_SHARE, 0));
    OK(memfold_alloc(session, sizeof bytes, &more));
    OK(memfold_heap_set_limit(heap, MEMFOLD_LIMIT_ALL, 0));
    OK(memfold_alloc(session, sizeof bytes, &more));
    OK(memfold_heap_set_limit(heap, 0, 0));
    OK(memfold_alloc(session, sizeof bytes, &more));
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
}

/* The parent does not see what a forked child does with the heap. */
static void forks(void) {
    memfold_options options = small_options(4096, 2);
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    memfold_handle nodes[100];
    for (int i = 0; i < 100; i++) {
        OK(memfold_alloc(session, 400, &nodes[i]));
        OK(memfold_write_at(session, nodes[i], 0, &i, sizeof i));
    }
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0, value; i < 100; i++) {
        OK(memfold_read_at(session, nodes[i], 0, &value, sizeof value));
        CHECK(value == i);
        value = child == 0 ? -1 : i;
        OK(memfold_write_at(session, nodes[i], 0, &value, sizeof value));
    }
    if (child != 0) {
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int i = 0, value; i < 100; i++) {
        OK(memfold_read_at(session, nodes[i], 0, &value, sizeof value));
        CHECK(value == (child == 0 ? -1 : i));
    }
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
    if (child == 0) _exit(0);
}

int main(void) {
    int major, minor, patch;
    CHECK(sscanf(memfold_version(), "%d.%d.%d", &major, &minor, &patch) == 3);
    CHECK(major == MEMFOLD_VERSION_MAJOR && minor == MEMFOLD_VERSION_MINOR && patch == MEMFOLD_VERSION_PATCH);
    CHECK(strcmp(memfold_last_error(), memfold_strerror(MEMFOLD_OK)) == 0);
    for (int code = -3; code < 100; code++) {
        CHECK(strlen(memfold_strerror(code)) > 5);
        CHECK((strstr(memfold_strerror(code), "no error of memfold") != NULL) == (code < MEMFOLD_OK || code > MEMFOLD_AWAY));
    }
    bad_options();
    bad_heaps();
    bad_sessions();
    bad_nodes(0);
    bad_nodes(1);
    bad_pins();
    limits();
    forks();
    puts("misuse: ok");
    return 0;
}
