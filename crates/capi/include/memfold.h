/* memfold.h - the compressed heap.
 *
 * Nodes by the million, of which only those in use are uncompressed. A node is named by a handle of 64 bits, which stays valid while the
 * node moves; handles may be kept in nodes, as pointers are.
 *
 *     memfold_heap *heap;
 *     memfold_session *session;
 *     memfold_handle node;
 *     struct item item = {0};
 *
 *     memfold_heap_new(NULL, &heap);                          the defaults
 *     memfold_session_open(heap, &session);                   one for each thread
 *     memfold_alloc(session, sizeof item, &node);             all zero
 *     memfold_write_at(session, node, 0, &item, sizeof item);
 *     memfold_read_at(session, node, 0, &item, sizeof item);
 *     memfold_free(session, node);
 *     memfold_session_close(session);
 *     memfold_heap_destroy(heap);
 *
 * Errors. Every function that can fail returns 0 (MEMFOLD_OK) or a code from `enum memfold_error`, and changes nothing if it fails, but for
 * what is in a buffer that it was to read into. Null, closed, destroyed and invented heaps and sessions are noticed, always. So are handles of nodes
 * that were freed, until their place is used again, and after that mostly: see docs/heap.md. The library never prints anything,
 * but for a bug of its own (MEMFOLD_BUG).
 *
 * Threads. Functions of heaps may be called by any thread at any time. A session belongs to the thread that opened it: other threads are
 * refused. Threads with a session each work on the same heap at the same time; what they read is whole and of one moment. Pointers from
 * memfold_pin are the exception, see there. A session that is still open when its thread ends is closed then.
 *
 * Sizes are in bytes. Arguments that point to something point to the caller's memory, never to nodes, unless it says so.
 *
 * Link with what `pkg-config --cflags --libs memfold` prints. */
#ifndef MEMFOLD_H
#define MEMFOLD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MEMFOLD_VERSION_MAJOR 0
#define MEMFOLD_VERSION_MINOR 1
#define MEMFOLD_VERSION_PATCH 0

/* The version of the library that is loaded: "0.1.0". */
const char *memfold_version(void);

/* ---------------------------------------------------------------- errors */

enum memfold_error {
    MEMFOLD_OK = 0,
    /* The handle names no live node: it is 0, the node was freed, or it is not of this heap. */
    MEMFOLD_STALE = 1,
    /* A size of zero, or more than a node can have. */
    MEMFOLD_SIZE = 2,
    /* The node is too short for what is to be read or written, or too long for the buffer. */
    MEMFOLD_RANGE = 3,
    /* The heap's memory limit is reached, and nothing is left to be evicted. */
    MEMFOLD_LIMIT = 4,
    /* Every block that the limit allows to be resident is pinned, or this session has pinned as many blocks as one can. */
    MEMFOLD_PINNED = 5,
    /* The node is being written by another thread that does not get on, or is pinned by this session and would be freed or moved. */
    MEMFOLD_BUSY = 6,
    /* The system has no more memory. */
    MEMFOLD_NO_MEMORY = 7,
    /* The block is not what it was: something wrote past a node, callbacks lied, or the memory is at fault. The node is lost, or cannot be read now. */
    MEMFOLD_DAMAGED = 8,
    /* A pointer is null that must not be. */
    MEMFOLD_NULL = 9,
    /* There is no such heap: it was destroyed, or never was one. */
    MEMFOLD_NO_HEAP = 10,
    /* This thread has no such session: it was closed, is another thread's, or never was one. */
    MEMFOLD_NO_SESSION = 11,
    /* An option is out of its range; memfold_last_error says which, and what the range is. */
    MEMFOLD_OPTION = 12,
    /* The session has not pinned the node. */
    MEMFOLD_NOT_PINNED = 13,
    /* The heap has open sessions, so it can be neither checked nor destroyed. */
    MEMFOLD_OPEN = 14,
    /* It was called by a callback that compresses or decompresses, which may not call this library. */
    MEMFOLD_CALLBACK = 15,
    /* memfold_heap_check found what contradicts itself; memfold_last_error says what. */
    MEMFOLD_VIOLATION = 16,
    /* A fault of the library itself. The heap in which it happened is out of use: everything but destroying it says this again. */
    MEMFOLD_BUG = 17,
    /* A heap's file can't be written or read, or is none that can be loaded here: foreign, damaged, of a later version, or compressed with a
     * codec that is missing; memfold_last_error says which. */
    MEMFOLD_FILE = 18
};

/* What a code means, in a sentence. Never null; the text is there for ever. */
const char *memfold_strerror(int error);

/* What went wrong in the last call of this thread that failed, in more detail. The text is there until the next call that fails. */
const char *memfold_last_error(void);

/* ---------------------------------------------------------------- heaps */

typedef struct memfold_heap memfold_heap;

/* Compresses `len` bytes at `block` into at most `room` at `to`. The result: how many bytes it wrote there; 0 if the block can't be
 * compressed. Then, or if the result is no smaller than the block, the block is kept as it is.
 * `room` is at least len + len / 6 + 1024, enough for the worst case of the common libraries.
 *
 * Both callbacks are called by whichever thread needs a block to go or to come, by several at once, and must not call this library,
 * longjmp or throw. They are not trusted: a result larger than `room` counts as 0, and blocks that do not come back as they were are
 * MEMFOLD_DAMAGED. `callback_faults` counts what they did wrong. But they must not write outside of the memory that they are given. */
typedef size_t (*memfold_compress)(void *context, const void *block, size_t len, void *to, size_t room);

/* Makes the `len` bytes at `block` again from the `from_len` bytes at `from`. The result: how many bytes it wrote; any other number than
 * `len` is a failure. */
typedef size_t (*memfold_decompress)(void *context, const void *from, size_t from_len, void *block, size_t len);

/* How a heap is to be. Begin with memfold_default_options; what is 0 or null is the default. */
typedef struct memfold_options {
    /* Bytes of this struct, by which later versions know what they were given. */
    size_t struct_size;
    /* Bytes that are compressed together: a power of two from 1024 to 16 MiB. Default: 32 KiB. */
    size_t block_size;
    /* Nodes begin at multiples of this: a power of two from 1 to 4096, at most a quarter of a block. Default: 8. */
    size_t alignment;
    /* The most memory for everything: uncompressed and compressed blocks, tables, buffers. */
    uint64_t limit_bytes;
    /* Or: the most blocks that are uncompressed at a time. Default, if both are 0: one of 64, and at least 8,
     * more while blocks are brought back soon after they left, up to one of 8 or 128. */
    uint32_t limit_blocks;
    /* 1: evicts at every opportunity and gives no handle out twice. Slow; finds stale pointers and handles. Three blocks are resident. */
    uint32_t paranoid;
    /* What compresses, by name: "lz4", "zstd:3", "delta:8x1+shuffle:8+zstd:1", see docs/codecs.md. Default: "zstd:1". */
    const char *codec;
    /* Which blocks go: "fifo", "second-chance", "lru", "lfu" or "sieve". Default: "sieve". */
    const char *policy;
    /* Callbacks that compress, in place of a codec by name: both or none. */
    memfold_compress compress;
    memfold_decompress decompress;
    /* The first argument of the callbacks. */
    void *context;
    /* 1: the debugging twin: nodes come from malloc, so that sanitizers and valgrind see the program's faults. Nothing is compressed. */
    uint32_t plain;
    /* 1: a thread of the heap's own evicts ahead of need. */
    uint32_t background;
    /* What such a thread brings ahead of its use when a block was brought back: so many blocks that were made after it; */
    uint32_t ahead_neighbours;
    /* or those to which the node leads: at each of these offsets, so many, there is a memfold_handle in it. Give one of both, or none. */
    uint32_t ahead_links_count;
    const uint32_t *ahead_links;
} memfold_options;

static inline memfold_options memfold_default_options(void) {
    memfold_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* What a heap holds and costs: its memory is frame_bytes, payload_bytes and table_bytes together. */
typedef struct memfold_stats {
    /* Live nodes, and the bytes that they were asked for with. */
    uint64_t nodes;
    uint64_t node_bytes;
    /* Blocks that they are in. */
    uint64_t blocks;
    /* Memory for uncompressed blocks. */
    uint64_t frame_bytes;
    /* Compressed blocks. */
    uint64_t payload_bytes;
    /* Everything else. */
    uint64_t table_bytes;
    /* Blocks that were brought back, that were evicted, and that had to be compressed for that. */
    uint64_t faults;
    uint64_t evictions;
    uint64_t compressions;
    /* Sessions that are open. */
    uint64_t sessions;
    /* How often a callback claimed more than its room, or did not give the block back that it was given. */
    uint64_t callback_faults;
} memfold_stats;

/* Makes an empty heap. `options` may be null: the defaults. */
int memfold_heap_new(const memfold_options *options, memfold_heap **heap);

/* Gives back all memory of a heap: MEMFOLD_OPEN if it has open sessions. */
int memfold_heap_destroy(memfold_heap *heap);

/* Looks at every invariant of the heap, for tests and for programs whose pointers may have gone astray: MEMFOLD_VIOLATION and a text
 * if something contradicts itself, MEMFOLD_OPEN if there are open sessions. */
int memfold_heap_check(memfold_heap *heap);

/* Counts everything. `size` is sizeof(memfold_stats): fields that the library does not know are set to 0. */
int memfold_heap_stats(memfold_heap *heap, memfold_stats *stats, size_t size);

/* ---------------------------------------------------------------- files */

/* Saves a heap: MEMFOLD_OPEN if it has open sessions. The file is there as a whole or not at all; an old one is replaced at the end. */
int memfold_heap_save(memfold_heap *heap, const char *file);

/* Makes a heap of a file, with the same nodes and handles. Block size and alignment are the file's; all other options may be others each
 * time, and null is the defaults. Files may come from anybody: nodes of a block that is not what it should be are MEMFOLD_DAMAGED, and
 * memfold_heap_check looks at all of them. */
int memfold_heap_load(const char *file, const memfold_options *options, memfold_heap **heap);

/* 64 bits of the program's own that are saved with the heap, 0 at first: mostly the handle from which it finds all others. */
int memfold_heap_root(memfold_heap *heap, uint64_t *root);
int memfold_heap_set_root(memfold_heap *heap, uint64_t root);

/* ---------------------------------------------------------------- sessions */

typedef struct memfold_session memfold_session;

/* Access to a heap for this thread. */
int memfold_session_open(memfold_heap *heap, memfold_session **session);

/* Ends a session of this thread, with all that it has pinned. */
int memfold_session_close(memfold_session *session);

/* ---------------------------------------------------------------- nodes */

/* The name of a node. Those that come from the library are never 0. */
typedef uint64_t memfold_handle;
#define MEMFOLD_NO_NODE ((memfold_handle)0)

/* Makes a node of `size` bytes, all zero. */
int memfold_alloc(memfold_session *session, size_t size, memfold_handle *node);

/* The same in the block of the node `near_to`, if there is room, so that both are resident together; else anywhere. */
int memfold_alloc_near(memfold_session *session, size_t size, memfold_handle near_to, memfold_handle *node);

/* Frees a node: MEMFOLD_BUSY if this session has pinned it. */
int memfold_free(memfold_session *session, memfold_handle node);

/* Makes a node longer or shorter. What it holds stays, up to the new size; bytes that it gets are zero. *node is the node's handle from
 * then on, and mostly another one. MEMFOLD_BUSY if this session has pinned the node. */
int memfold_resize(memfold_session *session, memfold_handle *node, size_t size);

/* Bytes of a node. */
int memfold_size(memfold_session *session, memfold_handle node, size_t *size);

/* Copies a node to `to`, where there is room for `room` bytes, and says its size. If it is longer, nothing is copied, the size is said all the
 * same, and the result is MEMFOLD_RANGE. `size` may be null. */
int memfold_read(memfold_session *session, memfold_handle node, void *to, size_t room, size_t *size);

/* Copies `len` bytes of a node, from the one at `from` on, to `to`. */
int memfold_read_at(memfold_session *session, memfold_handle node, size_t from, void *to, size_t len);

/* Copies `len` bytes to a node, from its byte at `to` on. Who reads the node sees all of them or none. `from` may point to a node
 * that is pinned. */
int memfold_write_at(memfold_session *session, memfold_handle node, size_t to, const void *from, size_t len);

/* ---------------------------------------------------------------- pins */

/* Keeps a node where it is, and says where: *bytes points to it until the node is unpinned as often as it was pinned, or the session
 * closed. It begins at a multiple of the heap's alignment. All nodes of its block stay with it: a session can pin 16 blocks at a
 * time. Through a pointer from memfold_pin nothing may be written; what is written through one from memfold_pin_mut is kept.
 *
 * A pin is no lock. Other threads may write to the node or free it meanwhile: then what is read through the pointer is not of one moment.
 * Who writes through pointers, and who reads what is written so, has to see to it that both do not happen at once. */
int memfold_pin(memfold_session *session, memfold_handle node, const void **bytes);
int memfold_pin_mut(memfold_session *session, memfold_handle node, void **bytes);

/* Takes one pin off. The handle is that with which the node was pinned, even if another session has freed the node. */
int memfold_unpin(memfold_session *session, memfold_handle node);

#ifdef __cplusplus
}
#endif

#endif
