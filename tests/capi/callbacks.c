/* Codecs by callbacks: a good one, and every way to be a bad one. Whatever they do, no wrong byte is read,
 * and the heap stays sound. */
#include "check.h"

enum fault {
    NOTHING,
    FAILS_COMPRESSING,   /* returns 0 */
    CLAIMS_TOO_MUCH,     /* more than its room */
    CLAIMS_THE_MOST,     /* SIZE_MAX */
    WRITES_LESS,         /* than it claims */
    GROWS,               /* fills its room */
    FAILS_DECOMPRESSING, /* returns 0 */
    YIELDS_LESS,
    YIELDS_MORE,
    LIES_ABOUT_BYTES, /* the right length, but a wrong byte */
    CALLS_THE_LIBRARY,
    FAULTS
};

struct codec {
    enum fault fault;
    memfold_heap *heap;
    memfold_session *session;
    unsigned compressed, decompressed;
};

static void call_the_library(struct codec *codec) {
    memfold_handle node = 77;
    memfold_heap *heap = NULL;
    memfold_stats stats;
    unsigned char byte;
    FAILS(MEMFOLD_CALLBACK, memfold_alloc(codec->session, 8, &node));
    FAILS(MEMFOLD_CALLBACK, memfold_read_at(codec->session, 1, 0, &byte, 1));
    FAILS(MEMFOLD_CALLBACK, memfold_session_close(codec->session));
    FAILS(MEMFOLD_CALLBACK, memfold_heap_stats(codec->heap, &stats, sizeof stats));
    FAILS(MEMFOLD_CALLBACK, memfold_heap_new(NULL, &heap));
    CHECK(node == 77 && !heap);
}

static size_t compress(void *context, const void *block, size_t len, void *to, size_t room) {
    struct codec *codec = context;
    CHECK(room >= len + len / 6 + 1024);
    codec->compressed++;
    size_t made = shorten(block, len, to, room);
    switch (codec->fault) {
    case FAILS_COMPRESSING: return 0;
    case CLAIMS_TOO_MUCH: return room + 1;
    case CLAIMS_THE_MOST: return SIZE_MAX;
    case WRITES_LESS: memset((char *)to + made / 2, 0, made - made / 2); return made;
    case GROWS: memset(to, 1, room); return room;
    case CALLS_THE_LIBRARY: call_the_library(codec); return made;
    default: return made;
    }
}

static size_t decompress(void *context, const void *from, size_t from_len, void *block, size_t len) {
    struct codec *codec = context;
    codec->decompressed++;
    size_t made = lengthen(from, from_len, block, len);
    switch (codec->fault) {
    case FAILS_DECOMPRESSING: return 0;
    case YIELDS_LESS: return made - 1;
    case YIELDS_MORE: return made + 1;
    case LIES_ABOUT_BYTES: ((char *)block)[len / 2] ^= 1; return made;
    case CALLS_THE_LIBRARY: call_the_library(codec); return made;
    default: return made;
    }
}

enum { COUNT = 300, LEN = 100 };

struct node {
    memfold_handle handle;
    unsigned char bytes[LEN];
};

static struct node *fill_heap(memfold_session *session, uint64_t *state) {
    struct node *nodes = calloc(COUNT, sizeof *nodes);
    for (int i = 0; i < COUNT; i++) {
        memset(nodes[i].bytes, (int)below(state, 256), 1 + below(state, LEN));
        OK(memfold_alloc(session, LEN, &nodes[i].handle));
        int error = memfold_write_at(session, nodes[i].handle, 0, nodes[i].bytes, LEN);
        /* The node's block was evicted and cannot be restored now, so the node is still all zero. */
        if (error == MEMFOLD_DAMAGED) memset(nodes[i].bytes, 0, LEN);
        else OK(error);
    }
    return nodes;
}

/* Checks the nodes that can be read; returns how many can't be. */
static int damaged(memfold_session *session, const struct node *nodes) {
    int count = 0;
    for (int i = 0; i < COUNT; i++) {
        unsigned char bytes[LEN];
        memset(bytes, 0xee, sizeof bytes);
        int error = memfold_read_at(session, nodes[i].handle, 0, bytes, LEN);
        if (error == MEMFOLD_OK) CHECK(memcmp(bytes, nodes[i].bytes, LEN) == 0);
        else {
            CHECK(error == MEMFOLD_DAMAGED);
            const void *pinned;
            FAILS(MEMFOLD_DAMAGED, memfold_pin(session, nodes[i].handle, &pinned));
            FAILS(MEMFOLD_DAMAGED, memfold_write_at(session, nodes[i].handle, 0, bytes, LEN));
            count++;
        }
    }
    return count;
}

static void with_fault(enum fault fault, uint32_t blocks, uint32_t paranoid) {
    struct codec codec = {NOTHING, NULL, NULL, 0, 0};
    memfold_options options = small_options(2048, blocks);
    memfold_stats stats;
    uint64_t state = fault;
    options.compress = compress;
    options.decompress = decompress;
    options.context = &codec;
    options.paranoid = paranoid;
    memfold_heap *heap = codec.heap = new_heap(&options);
    memfold_session *session = codec.session = open_session(heap);

    struct node *before = fill_heap(session, &state);
    CHECK(damaged(session, before) == 0 && codec.compressed > 0 && codec.decompressed > 0);
    codec.fault = fault;
    struct node *during = fill_heap(session, &state);
    int lost = damaged(session, before) + damaged(session, during);
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    switch (fault) {
    case NOTHING:
    case FAILS_COMPRESSING:
    case GROWS:
    case CALLS_THE_LIBRARY: CHECK(lost == 0 && stats.callback_faults == 0); break;
    case CLAIMS_TOO_MUCH:
    case CLAIMS_THE_MOST: CHECK(lost == 0 && stats.callback_faults > 0); break;
    case WRITES_LESS: CHECK(lost > COUNT / 2); break;
    case LIES_ABOUT_BYTES: CHECK(lost > COUNT && stats.callback_faults == 0); break;
    default: CHECK(lost > COUNT && stats.callback_faults > 0);
    }

    /* With a good codec again, new nodes work, and old ones that were stored correctly can be read. */
    codec.fault = NOTHING;
    struct node *after = fill_heap(session, &state);
    CHECK(damaged(session, after) == 0);
    lost = damaged(session, before) + damaged(session, during);
    CHECK(fault == WRITES_LESS ? lost > COUNT / 2 : lost == 0);
    for (int i = 0; i < COUNT; i++) OK(memfold_free(session, after[i].handle));
    OK(memfold_session_close(session));
    if (lost == 0) OK(memfold_heap_check(heap));
    else {
        FAILS(MEMFOLD_VIOLATION, memfold_heap_check(heap));
        CHECK(strlen(memfold_last_error()) > 10);
    }
    OK(memfold_heap_destroy(heap));
    free(before);
    free(during);
    free(after);
}

int main(void) {
    memfold_options options = memfold_default_options();
    memfold_heap *heap = NULL;
    options.compress = compress;
    FAILS(MEMFOLD_OPTION, memfold_heap_new(&options, &heap));
    options.decompress = decompress;
    options.codec = "lz4";
    FAILS(MEMFOLD_OPTION, memfold_heap_new(&options, &heap));
    options.compress = NULL;
    FAILS(MEMFOLD_OPTION, memfold_heap_new(&options, &heap));
    for (int fault = NOTHING; fault < FAULTS; fault++) {
        with_fault((enum fault)fault, 1, 0);
        with_fault((enum fault)fault, 3, 0);
        with_fault((enum fault)fault, 3, 1);
    }
    puts("callbacks: ok");
    return 0;
}
