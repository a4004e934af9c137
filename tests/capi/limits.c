/* Nodes and elements at every limit of size: in blocks from the smallest to the largest, with every alignment
 * and several codecs, before and after the heap is saved.
 *
 *   bytes of a node   0       1 .. some share a block .. one fits | several blocks .. 4 GiB - 1      4 GiB ..
 *                  refused                                                                           refused */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 160, LEAST_BLOCK = 1 << 10, MOST_BLOCK = 16 << 20 };

static int quick;
static const char *const CODECS[] = {"lz4", "zstd:1", "auto:fast", "auto", "stride", "copy", "delta:8x1+zstd:1"};
enum { CODEC_COUNT = sizeof CODECS / sizeof *CODECS };

struct node {
    memfold_handle handle;
    size_t size;
};

/* The content of node `number`: it compresses in parts, and differs from that of all other nodes. */
static void expected(uint64_t number, unsigned char *to, size_t len) {
    uint64_t state = number * 77;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = next_random(&state);
        if (at / 256 % 3 > 0) word &= 0x0300000000000007u;
        memcpy(to + at, &word, len - at < 8 ? len - at : 8);
    }
}

static size_t sizes_of(size_t block, size_t alignment, size_t *to) {
    size_t count = 0;
    /* As the heap computes it: it needs some bytes itself, and nodes begin at multiples of the alignment. */
    size_t longest = (block - 64 - (8 + alignment - 1) / alignment * alignment) / alignment * alignment;
    const size_t bounds[] = {1,         8,         16,      64,    alignment, block / 8,
                             block / 4, block / 2, longest, block, 2 * block, 2 * longest};
    /* Fewer in large blocks, which are slow. */
    const size_t around = block < 1 << 20 ? 2 : 1;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (around == 1 && bounds[i] >= block / 8 && bounds[i] < longest) continue;
        size_t size = bounds[i] > around ? bounds[i] - around : 1;
        while (size <= bounds[i] + around) to[count++] = size++;
    }
    /* All sizes around the longest in small blocks, which are fast. */
    if (block <= 4096)
        for (size_t size = block - 80; size < block + 12; size++) to[count++] = size;
    CHECK(count <= MOST);
    return count;
}

static void compare(memfold_session *session, const struct node *nodes, size_t count, unsigned char *wanted,
                    unsigned char *found) {
    for (size_t i = 0; i < count; i++) {
        size_t size = 0, len = nodes[i].size;
        expected(i, wanted, len);
        OK(memfold_size(session, nodes[i].handle, &size));
        CHECK(size == len);
        OK(memfold_read(session, nodes[i].handle, found, len, &size));
        CHECK(size == len && memcmp(wanted, found, len) == 0);
        /* The last byte, and the bytes after it. */
        OK(memfold_read_at(session, nodes[i].handle, len - 1, found, 1));
        CHECK(found[0] == wanted[len - 1]);
        OK(memfold_read_at(session, nodes[i].handle, len, found, 0));
        FAILS(MEMFOLD_RANGE, memfold_read_at(session, nodes[i].handle, len, found, 1));
        FAILS(MEMFOLD_RANGE, memfold_read_at(session, nodes[i].handle, 1, found, len));
        FAILS(MEMFOLD_RANGE, memfold_read_at(session, nodes[i].handle, SIZE_MAX, found, 2));
        FAILS(MEMFOLD_RANGE, memfold_write_at(session, nodes[i].handle, len, found, 1));
        FAILS(MEMFOLD_RANGE, memfold_write_at(session, nodes[i].handle, 0, found, len + 1));
        FAILS(MEMFOLD_RANGE, memfold_read(session, nodes[i].handle, found, len - 1, &size));
        CHECK(size == len);
    }
}

static void pinned(memfold_session *session, const struct node *node, size_t block, size_t alignment) {
    const void *bytes;
    /* A node longer than a block is in several blocks, so it cannot be pinned here. */
    if (node->size > block) return;
    OK(memfold_pin(session, node->handle, &bytes));
    CHECK((uintptr_t)bytes % alignment == 0);
    OK(memfold_unpin(session, node->handle));
}

/* Makes nodes of all sizes, saves them, loads them with another codec, and frees them. */
static void nodes(size_t block, size_t alignment, size_t codec, const char *file) {
    size_t sizes[MOST], count = sizes_of(block, alignment, sizes);
    unsigned char *wanted = malloc(3 * block + 64), *found = malloc(3 * block + 64);
    CHECK(wanted && found);
    struct node all[MOST];
    memfold_options options = memfold_default_options();
    options.block_size = block;
    options.alignment = alignment;
    options.limit_blocks = 6;
    options.codec = CODECS[codec % CODEC_COUNT];
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    memfold_handle none = 5;
    FAILS(MEMFOLD_SIZE, memfold_alloc(session, 0, &none));
    CHECK(none == 5 && strstr(memfold_last_error(), "not 0"));
    for (size_t i = 0; i < count; i++) {
        all[i].size = sizes[i];
        expected(i, wanted, sizes[i]);
        if (i % 3 == 1)
            OK(memfold_alloc_near(session, sizes[i], all[i - 1].handle, &all[i].handle));
        else
            OK(memfold_alloc(session, sizes[i], &all[i].handle));
        OK(memfold_write_at(session, all[i].handle, 0, wanted, sizes[i]));
        pinned(session, &all[i], block, alignment);
    }
    compare(session, all, count, wanted, found);
    /* Resize each node to the size of another one, and back. */
    for (size_t i = 0; i < count; i += quick ? 7 : 3) {
        size_t size = sizes[(i * 5 + 1) % count], stays = size < all[i].size ? size : all[i].size;
        OK(memfold_resize(session, &all[i].handle, size));
        OK(memfold_read(session, all[i].handle, found, size, NULL));
        expected(i, wanted, all[i].size);
        CHECK(memcmp(wanted, found, stays) == 0);
        for (size_t at = stays; at < size; at++) CHECK(found[at] == 0);
        FAILS(MEMFOLD_SIZE, memfold_resize(session, &all[i].handle, 0));
        FAILS(MEMFOLD_SIZE, memfold_resize(session, &all[i].handle, (size_t)UINT32_MAX + 1));
        OK(memfold_resize(session, &all[i].handle, all[i].size));
        OK(memfold_write_at(session, all[i].handle, 0, wanted, all[i].size));
    }
    compare(session, all, count, wanted, found);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_save(heap, file));
    OK(memfold_heap_destroy(heap));

    options.codec = CODECS[(codec + 1) % CODEC_COUNT];
    OK(memfold_heap_load(file, &options, &heap));
    session = open_session(heap);
    compare(session, all, count, wanted, found);
    /* Free half of the nodes, and make others in their places. */
    for (size_t i = 0; i < count; i += 2) OK(memfold_free(session, all[i].handle));
    for (size_t i = 0; i < count; i += 2) {
        expected(i, wanted, sizes[i]);
        OK(memfold_alloc(session, sizes[i], &all[i].handle));
        OK(memfold_write_at(session, all[i].handle, 0, wanted, sizes[i]));
    }
    OK(memfold_session_close(session));
    OK(memfold_heap_save(heap, file));
    OK(memfold_heap_destroy(heap));
    OK(memfold_heap_load(file, NULL, &heap));
    OK(memfold_heap_check(heap));
    session = open_session(heap);
    compare(session, all, count, wanted, found);
    for (size_t i = 0; i < count; i++) OK(memfold_free(session, all[i].handle));
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    memfold_stats stats;
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 0 && stats.node_bytes == 0);
    OK(memfold_heap_destroy(heap));
    CHECK(unlink(file) == 0);
    free(wanted);
    free(found);
}

/* The longest possible node. */
static void longest(void) {
    memfold_options options = memfold_default_options();
    options.block_size = MOST_BLOCK;
    options.limit_blocks = 6;
    options.codec = "lz4";
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    memfold_handle node = 5;
    const size_t most = UINT32_MAX;
    char text[9] = "the end.", found[9] = {0};
    FAILS(MEMFOLD_SIZE, memfold_alloc(session, most + 1, &node));
    CHECK(node == 5 && strstr(memfold_last_error(), "1 to 4294967295 bytes, not 4294967296"));
    FAILS(MEMFOLD_SIZE, memfold_alloc(session, SIZE_MAX, &node));
    OK(memfold_alloc(session, most, &node));
    OK(memfold_write_at(session, node, most - 8, text, 8));
    FAILS(MEMFOLD_RANGE, memfold_write_at(session, node, most - 7, text, 8));
    OK(memfold_read_at(session, node, most - 8, found, 8));
    CHECK(memcmp(text, found, 8) == 0);
    memfold_handle same = node;
    FAILS(MEMFOLD_SIZE, memfold_resize(session, &node, most + 1));
    CHECK(node == same);
    OK(memfold_resize(session, &node, most - 1));
    OK(memfold_read_at(session, node, most - 8, found, 7));
    CHECK(memcmp(text, found, 7) == 0);
    OK(memfold_free(session, node));
    /* A long element of a list is a node. */
    memfold_slablist_options list_options = memfold_default_slablist_options();
    memfold_slablist *list;
    list_options.elements = MEMFOLD_BYTES;
    OK(memfold_slablist_new(session, &list_options, &list));
    void *bytes = mmap(NULL, most + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(bytes != MAP_FAILED);
    int added = 5;
    uint64_t len = 5;
    FAILS(MEMFOLD_SIZE, memfold_slablist_add(list, bytes, most + 1, &added));
    CHECK(added == 5 && strstr(memfold_last_error(), "not 4294967296"));
    OK(memfold_slablist_len(list, &len));
    CHECK(len == 0);
    CHECK(munmap(bytes, most + 1) == 0);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

static int by_length(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* An element of `len` bytes; elements are in the order of their lengths. */
static void element(size_t len, unsigned char *to) { memset(to, 'a', len); }

/* Strings of all lengths as elements, keys and values: in leaves, in nodes of their own and in several
 * blocks. */
static void elements(size_t block) {
    memfold_options options = memfold_default_options();
    options.block_size = block;
    options.limit_blocks = 6;
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    size_t sizes[MOST], count = 0;
    sizes[count++] = 0;
    for (size_t bound = 1; bound <= 2 * block; bound *= 2)
        for (size_t len = bound > 1 ? bound - 1 : 1; len <= bound + 1; len++) sizes[count++] = len;
    CHECK(count <= MOST);
    qsort(sizes, count, sizeof *sizes, by_length);
    size_t kept = 1;
    for (size_t i = 1; i < count; i++)
        if (sizes[i] != sizes[kept - 1]) sizes[kept++] = sizes[i];
    count = kept;
    unsigned char *bytes = malloc(2 * block + 8), *found = malloc(2 * block + 8), *value = malloc(2 * block + 8);
    CHECK(bytes && found && value);
    memfold_slablist_options list_options = memfold_default_slablist_options();
    memfold_slabmap_options map_options = memfold_default_slabmap_options();
    list_options.elements = map_options.keys = MEMFOLD_BYTES;
    memfold_slablist *list;
    memfold_slabmap *map;
    OK(memfold_slablist_new(session, &list_options, &list));
    OK(memfold_slabmap_new(session, &map_options, &map));
    for (size_t step = 0; step < count; step++) {
        /* In no order. */
        size_t at = step * 7 % count;
        if (count % 7 == 0) at = step;
        int added = 5, replaced = 5;
        element(sizes[at], bytes);
        OK(memfold_slablist_add(list, bytes, sizes[at], &added));
        CHECK(added == 1);
        OK(memfold_slablist_add(list, bytes, sizes[at], &added));
        CHECK(added == 0);
        expected(at, value, sizes[count - 1 - at]);
        OK(memfold_slabmap_put(map, bytes, sizes[at], value, sizes[count - 1 - at], &replaced));
        CHECK(replaced == 0);
    }
    OK(memfold_slablist_check(list));
    OK(memfold_slabmap_check(map));
    for (size_t at = 0; at < count; at++) {
        size_t len = 5, value_len = 5;
        uint64_t position = 5;
        element(sizes[at], bytes);
        OK(memfold_slablist_find(list, bytes, sizes[at], &position));
        CHECK(position == at);
        OK(memfold_slablist_get(list, at, found, sizes[at], &len));
        CHECK(len == sizes[at] && memcmp(found, bytes, len) == 0);
        if (len > 0) {
            FAILS(MEMFOLD_RANGE, memfold_slablist_get(list, at, found, len - 1, &len));
            CHECK(len == sizes[at]);
        }
        expected(at, value, sizes[count - 1 - at]);
        OK(memfold_slabmap_get(map, bytes, sizes[at], found, sizes[count - 1 - at], &value_len));
        CHECK(value_len == sizes[count - 1 - at] && memcmp(found, value, value_len) == 0);
        OK(memfold_slabmap_at(map, at, found, sizes[at], &len, value, value_len, &value_len));
        CHECK(len == sizes[at] && memcmp(found, bytes, len) == 0);
    }
    /* Remove all, the longest first. */
    for (size_t at = count; at-- > 0;) {
        int removed = 0;
        element(sizes[at], bytes);
        OK(memfold_slablist_remove(list, bytes, sizes[at], &removed));
        CHECK(removed == 1);
        OK(memfold_slabmap_remove(map, bytes, sizes[at], &removed));
        CHECK(removed == 1);
    }
    OK(memfold_slablist_free(list));
    OK(memfold_slabmap_free(map));
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    memfold_stats stats;
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 0);
    OK(memfold_heap_destroy(heap));
    free(bytes);
    free(found);
    free(value);
}

int main(void) {
    quick = getenv("MEMFOLD_TEST_QUICK") != NULL;
    char directory[] = "/tmp/memfold-limits-XXXXXX", file[64];
    CHECK(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/heap", directory);
    size_t heaps = 0;
    const size_t most = quick ? 16 << 10 : MOST_BLOCK;
    for (size_t block = LEAST_BLOCK; block <= most; block *= quick || block >= 64 << 10 ? 4 : 2) {
        size_t greatest = block / 4 < 4096 ? block / 4 : 4096;
        for (size_t alignment = 1; alignment <= greatest; alignment *= 2) {
            /* All of them in small blocks, the default and the greatest in others. */
            int is_tried = block <= 16 << 10 && !quick;
            if (!is_tried && alignment != greatest && (alignment != 8 || block > 1 << 20)) continue;
            nodes(block, alignment, heaps, file);
            heaps++;
        }
        if (block <= 1 << 20) elements(block);
    }
    if (!quick) longest();
    CHECK(rmdir(directory) == 0);
    printf("limits: %zu heaps had nodes of all sizes, before and after they were saved\n", heaps);
    return 0;
}
