/* memfold.h - the compressed heap.
 *
 * Holds millions of nodes, of which only those in use are uncompressed. A 64-bit handle names a node and stays
 * valid while the node moves; handles may be stored in nodes, like pointers.
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
 * Errors. Every function that can fail returns 0 (MEMFOLD_OK) or a code from `enum memfold_error`. A function
 * that fails changes nothing, except the contents of a buffer that it was to read into. The library always
 * detects null, closed, freed, destroyed and invented heaps, sessions and lists. It also detects handles of freed
 * nodes until their place is reused, and usually after that: see docs/heap.md. It prints nothing, except for a
 * bug of its own (MEMFOLD_BUG).
 *
 * Threads. Any thread may call the functions of heaps at any time. A session belongs to the thread that opened
 * it: calls from other threads are refused. Threads with a session each may work on the same heap at the same
 * time; every read is atomic. Pointers from memfold_pin are the exception, see there. A session that is still
 * open when its thread ends is closed then.
 *
 * Sizes are in bytes. Pointer arguments point to the caller's memory, never to nodes, unless stated otherwise.
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
    /* A size of zero, or larger than a node can be. */
    MEMFOLD_SIZE = 2,
    /* The node is too short for the range to be read or written, or too long for the buffer. */
    MEMFOLD_RANGE = 3,
    /* The heap's memory limit is reached, and nothing is left to evict. */
    MEMFOLD_LIMIT = 4,
    /* Every block that may be resident within the limit is pinned, or this session has pinned as many blocks as
     * it can. */
    MEMFOLD_PINNED = 5,
    /* Another thread is writing the node and makes no progress, or this session has pinned the node that it would
     * free or move. */
    MEMFOLD_BUSY = 6,
    /* The system has no more memory. */
    MEMFOLD_NO_MEMORY = 7,
    /* The block was corrupted: something wrote past a node, a callback returned wrong data, or the memory is
     * faulty. The node is lost, or cannot be read now. */
    MEMFOLD_DAMAGED = 8,
    /* A pointer that must not be null is null. */
    MEMFOLD_NULL = 9,
    /* There is no such heap: it was destroyed or never existed. */
    MEMFOLD_NO_HEAP = 10,
    /* This thread has no such session: it was closed, belongs to another thread, or never existed. */
    MEMFOLD_NO_SESSION = 11,
    /* An option is out of range; memfold_last_error says which option, and its range. */
    MEMFOLD_OPTION = 12,
    /* The session has not pinned the node. */
    MEMFOLD_NOT_PINNED = 13,
    /* The heap has open sessions, which this call does not allow. */
    MEMFOLD_OPEN = 14,
    /* The call came from a callback, which must not call this library. */
    MEMFOLD_CALLBACK = 15,
    /* memfold_heap_check, or the check of a list or map, found a contradiction; memfold_last_error says which. */
    MEMFOLD_VIOLATION = 16,
    /* A bug in the library itself. The heap in which it happened is out of use: every call but the one that
     * destroys it returns this code. */
    MEMFOLD_BUG = 17,
    /* A heap's file cannot be written or read, or cannot be loaded here: it is foreign, damaged, of a later
     * version, or compressed with a codec that is missing; memfold_last_error says which. */
    MEMFOLD_FILE = 18,
    /* This thread has no such list, map or cursor: it was freed, its session was closed, it belongs to another
     * thread or list, or it never existed. */
    MEMFOLD_NO_LIST = 19,
    /* The list or map has no such element: the position is too large, no element is equal, or none is where the
     * cursor is or would move. */
    MEMFOLD_NO_ELEMENT = 20,
    /* The list or map is of another kind (sorted or ordered) or has other elements; memfold_last_error says
     * which. */
    MEMFOLD_KIND = 21,
    /* A block was spilled, and the tier no longer has it or returns something else. The node is lost; it can be
     * freed. */
    MEMFOLD_LOST = 22,
    /* A block was spilled, and the tier has not answered for a minute. Nothing is lost yet: the call may be
     * repeated. */
    MEMFOLD_AWAY = 23
};

/* The meaning of a code in a sentence. Never null; the text stays valid for ever. */
const char *memfold_strerror(int error);

/* Details of the last call of this thread that failed. The text stays valid until the next call that fails. */
const char *memfold_last_error(void);

/* ---------------------------------------------------------------- heaps */

typedef struct memfold_heap memfold_heap;

/* Compresses `len` bytes at `block` to at most `room` bytes at `to`. Returns the number of bytes written, or 0 if
 * the block cannot be compressed. In that case, or if the result is no smaller than the block, the block is kept
 * uncompressed. `room` is at least len + len / 6 + 1024, enough for the worst case of the common libraries.
 *
 * Any thread that evicts or restores a block calls the two callbacks, possibly several threads at once. Callbacks
 * must not call this library, longjmp or throw. They are not trusted: a result larger than `room` counts as 0,
 * and a block that is not restored correctly is MEMFOLD_DAMAGED. `callback_faults` counts their errors. But they
 * must not write outside of the memory that they are given. */
typedef size_t (*memfold_compress)(void *context, const void *block, size_t len, void *to, size_t room);

/* Restores the `len` bytes at `block` from the `from_len` bytes at `from`. Returns the number of bytes written;
 * any number other than `len` is a failure. */
typedef size_t (*memfold_decompress)(void *context, const void *from, size_t from_len, void *block, size_t len);

/* Special values of limit_bytes: limits that follow how much memory is free, or how much the program uses. */
#define MEMFOLD_LIMIT_ALL UINT64_MAX
#define MEMFOLD_LIMIT_SHARE (UINT64_MAX - 1)

/* Options of a heap. Begin with memfold_default_options; 0 or null is the default. */
typedef struct memfold_options {
    /* Size of this struct, which tells later versions what they were given. */
    size_t struct_size;
    /* Bytes that are compressed together: a power of two from 1024 to 16 MiB. Default: 32 KiB. */
    size_t block_size;
    /* The alignment of nodes: a power of two from 1 to 4096, at most a quarter of a block. Default: 8. */
    size_t alignment;
    /* The most memory for everything: uncompressed and compressed blocks, tables, buffers. The default, if
     * limit_blocks is 0 as well: uncompressed blocks get half of the memory that is free on the machine and in
     * each cgroup that limits the process (up to 3/4 if more is used again and again), and new blocks are refused
     * (MEMFOLD_LIMIT) before it is full.
     * MEMFOLD_LIMIT_ALL: all free memory except a reserve, so nothing is compressed before memory is short.
     * MEMFOLD_LIMIT_SHARE: as few blocks as the program can do with. See docs/heap.md. */
    uint64_t limit_bytes;
    /* Alternatively: the most blocks that are uncompressed at a time. */
    uint32_t limit_blocks;
    /* 1: evicts at every opportunity and never reuses a handle. Slow; finds stale pointers and handles. Three
     * blocks are resident. */
    uint32_t paranoid;
    /* The codec's name: "lz4", "zstd:3", "delta:8x1+shuffle:8+zstd:1", see docs/codecs.md. Default: "zstd:1". */
    const char *codec;
    /* The eviction policy: "fifo", "second-chance", "lru", "lfu" or "sieve". Default: "sieve". */
    const char *policy;
    /* Callbacks that compress instead of a named codec: both or none. */
    memfold_compress compress;
    memfold_decompress decompress;
    /* The first argument of the callbacks. */
    void *context;
    /* 1: the debugging twin: nodes come from malloc, so that sanitizers and valgrind see the program's errors.
     * Nothing is compressed. */
    uint32_t plain;
    /* 1: a thread of the heap evicts ahead of need. */
    uint32_t background;
    /* What a thread of the heap restores ahead of use after an access to a node whose block was not
     * resident: this many of the blocks that follow by number, usually those made next; */
    uint32_t ahead_neighbours;
    /* or the blocks to which the node links: it holds a memfold_handle at each of ahead_links_count offsets.
     * Give one of the two, or neither. */
    uint32_t ahead_links_count;
    const uint32_t *ahead_links;
    /* Where to put compressed blocks that do not fit into limit_bytes, encrypted: a directory or a new file
     * ("/var/tmp"), an NBD server ("nbd://host/export", which needs libnbd), Redis or Valkey ("redis://host"),
     * see docs/spill.md. Threads of the heap write and read there, and a forked child has only what is in memory.
     * memfold_heap_stats reports the tier's health. Destroy the heap to leave nothing behind on a server.
     * Default: blocks are not spilled. */
    const char *spill;
    /* The most bytes on the tier. Default: only the tier's own limit. */
    uint64_t spill_bytes;
} memfold_options;

static inline memfold_options memfold_default_options(void) {
    memfold_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* The health of the tier that a heap spills to. */
enum memfold_spill_health {
    MEMFOLD_SPILL_NONE = 0,
    /* It accepts blocks. */
    MEMFOLD_SPILL_OPEN = 1,
    /* It has no room at the moment. */
    MEMFOLD_SPILL_FULL = 2,
    /* It does not answer, but may return. */
    MEMFOLD_SPILL_AWAY = 3,
    /* It must not be used any more (Redis with a policy that evicts, an export that another run owns); its blocks
     * can still be read. */
    MEMFOLD_SPILL_UNFIT = 4
};

/* What a heap holds and costs: its memory is the sum of frame_bytes, payload_bytes and table_bytes. */
typedef struct memfold_stats {
    /* Live nodes, and the sum of their requested sizes. */
    uint64_t nodes;
    uint64_t node_bytes;
    /* The blocks that contain them. */
    uint64_t blocks;
    /* Memory for uncompressed blocks. */
    uint64_t frame_bytes;
    /* Compressed blocks. */
    uint64_t payload_bytes;
    /* Everything else. */
    uint64_t table_bytes;
    /* Blocks restored, blocks evicted, and evicted blocks that had to be compressed. */
    uint64_t faults;
    uint64_t evictions;
    uint64_t compressions;
    /* Open sessions. */
    uint64_t sessions;
    /* How often a callback claimed more than its room or did not restore the block that it was given. */
    uint64_t callback_faults;
    /* Bytes of compressed blocks that are on a tier, not in memory. */
    uint64_t spilled_bytes;
    /* The tier's health: one of memfold_spill_health. */
    uint64_t spill_health;
} memfold_stats;

/* Makes an empty heap. If `options` is null, the defaults apply. */
int memfold_heap_new(const memfold_options *options, memfold_heap **heap);

/* Frees all memory of a heap: MEMFOLD_OPEN if it has open sessions. */
int memfold_heap_destroy(memfold_heap *heap);

/* Changes the limit of a heap; see the options of the same names: both 0 is the default. If the new limit is
 * lower, blocks are evicted as others are restored, and nothing is lost; if limit_bytes is below what is in use,
 * only calls that would need more memory fail. */
int memfold_heap_set_limit(memfold_heap *heap, uint64_t limit_bytes, uint32_t limit_blocks);

/* Checks every invariant of the heap, for tests and for programs that may have used a wrong pointer:
 * MEMFOLD_VIOLATION and a text if it finds a contradiction, MEMFOLD_OPEN if there are open sessions. */
int memfold_heap_check(memfold_heap *heap);

/* Collects the statistics. `size` is sizeof(memfold_stats): fields that the library does not know are set to
 * 0. */
int memfold_heap_stats(memfold_heap *heap, memfold_stats *stats, size_t size);

/* ---------------------------------------------------------------- files */

/* Saves a heap: MEMFOLD_OPEN if it has open sessions. The file appears whole or not at all; an old file is
 * replaced at the end. */
int memfold_heap_save(memfold_heap *heap, const char *file);
/* Frees all nodes that a spill target has lost, and long nodes of which it has lost a part. Unless it is null,
 * *nodes is set to their number, where each part of a long node counts as one. After that the rest can be saved;
 * before, saving returns MEMFOLD_LOST, and memfold_last_error says how much is lost and names a node. Asks the
 * target for everything that was spilled. MEMFOLD_OPEN if there are open sessions. */
int memfold_heap_free_lost(memfold_heap *heap, uint64_t *nodes);

/* Makes a heap from a file, with the same nodes and handles. Block size and alignment are the file's; all
 * other options may differ each time, and null means the defaults. The file need not be trusted: nodes of a
 * corrupted block are MEMFOLD_DAMAGED, and memfold_heap_check examines all blocks. */
int memfold_heap_load(const char *file, const memfold_options *options, memfold_heap **heap);

/* 64 bits for the program's own use that are saved with the heap, initially 0: usually the handle that leads to
 * all others. */
int memfold_heap_root(memfold_heap *heap, uint64_t *root);
int memfold_heap_set_root(memfold_heap *heap, uint64_t root);

/* ---------------------------------------------------------------- sessions */

typedef struct memfold_session memfold_session;

/* Opens a session, this thread's access to a heap. */
int memfold_session_open(memfold_heap *heap, memfold_session **session);

/* Closes a session of this thread, with all its pins, lists and maps. */
int memfold_session_close(memfold_session *session);

/* ---------------------------------------------------------------- nodes */

/* The name of a node. Handles returned by the library are never 0. */
typedef uint64_t memfold_handle;
#define MEMFOLD_NO_NODE ((memfold_handle)0)

/* Allocates a node of `size` bytes, all zero. */
int memfold_alloc(memfold_session *session, size_t size, memfold_handle *node);

/* The same in the block of the node `near_to`, if there is room, so that both are resident together; otherwise
 * anywhere. */
int memfold_alloc_near(memfold_session *session, size_t size, memfold_handle near_to, memfold_handle *node);

/* Frees a node: MEMFOLD_BUSY if this session has pinned it. */
int memfold_free(memfold_session *session, memfold_handle node);

/* Makes a node longer or shorter. Its contents stay, up to the new size; new bytes are zero. *node is set to the
 * node's new handle, which usually differs from the old one. MEMFOLD_BUSY if this session has pinned the node. */
int memfold_resize(memfold_session *session, memfold_handle *node, size_t size);

/* The size of a node. */
int memfold_size(memfold_session *session, memfold_handle node, size_t *size);

/* Copies a node to `to`, which has room for `room` bytes, and returns its size. If the node is longer, nothing is
 * copied, the size is returned all the same, and the result is MEMFOLD_RANGE. `size` may be null. */
int memfold_read(memfold_session *session, memfold_handle node, void *to, size_t room, size_t *size);

/* Copies `len` bytes of a node, starting at offset `from`, to `to`. */
int memfold_read_at(memfold_session *session, memfold_handle node, size_t from, void *to, size_t len);

/* Copies `len` bytes to a node, starting at offset `to`. Readers of the node see all of them or none. `from` may
 * point into a pinned node. */
int memfold_write_at(memfold_session *session, memfold_handle node, size_t to, const void *from, size_t len);

/* ---------------------------------------------------------------- pins */

/* Pins a node and returns its address: *bytes points to it until the node has been unpinned as often as it was
 * pinned, or the session is closed. The address is a multiple of the heap's alignment. All nodes of its block
 * stay in place with it: a session can pin 16 blocks at a time. Nothing may be written through a pointer from
 * memfold_pin; what is written through one from memfold_pin_mut is kept.
 *
 * A pin is not a lock. Other threads may write to the node or free it meanwhile: then reads through the pointer
 * are not atomic. If one thread writes through a pointer, the program must make sure that no other thread reads
 * the same bytes at the same time. */
int memfold_pin(memfold_session *session, memfold_handle node, const void **bytes);
int memfold_pin_mut(memfold_session *session, memfold_handle node, void **bytes);

/* Removes one pin. The handle is the one with which the node was pinned, even if another session has freed the
 * node. */
int memfold_unpin(memfold_session *session, memfold_handle node);

/* ---------------------------------------------------------------- slab lists
 *
 * Sorted or ordered lists of numbers, or of bytes of any length, whose elements are kept in the heap; see
 * docs/collections.md.
 *
 *     memfold_slablist *list;
 *     memfold_slablist_new(session, NULL, &list);             sorted, of uint64_t, each once
 *     memfold_slablist_add_u64(list, 20, NULL);
 *     memfold_slablist_contains_u64(list, 20, &contains);
 *     memfold_slablist_free(list);
 *
 * A list belongs to a session and is freed with it. Only the session's thread may use it. A part of it is in
 * plain memory, so it is not saved with the heap. An element is given as a pointer and a length; for numbers the
 * length is 8, and they need not be aligned. Elements have positions from 0 on, by which every list can be read.
 * A range of positions begins at `from` and ends before `to`; positions beyond the end are ignored, so that 0,
 * UINT64_MAX is the whole list.
 *
 * Results that answer a question are 0 or 1. The pointer for a result may be null only where that is stated. */

typedef struct memfold_slablist memfold_slablist;

/* The elements of a list, or the keys of a map, and how they are sorted. */
enum memfold_elements {
    MEMFOLD_U64 = 0, /* uint64_t */
    MEMFOLD_I64 = 1, /* int64_t */
    MEMFOLD_F64 = 2, /* double, in IEEE 754's total order: -0 before 0; NaN at the ends, and equal to itself */
    MEMFOLD_BYTES = 3 /* of any length, also 0, in the order of memcmp; a prefix comes first */
};

/* Flags of lists and maps. */
enum memfold_list_flags {
    /* The program says where each element goes, and elements stay there. Without this flag the list is sorted. */
    MEMFOLD_ORDERED = 1,
    /* For a sorted list: equal elements are all kept, in the order in which they were added. */
    MEMFOLD_MANY = 2,
    /* Cursors move on from the last element to the first one, and back. */
    MEMFOLD_CIRCULAR = 4,
    /* Only memfold_slablist_reap, or memfold_slabmap_reap, reclaims the space of removed elements. */
    MEMFOLD_NEVER_REAP = 8
};

/* Compares `a` and `b`: less than 0, 0, or more than 0. It is called while nothing is being changed, and must not
 * call this library, longjmp or throw. It is not trusted: if its answers are not an order, elements may end up
 * anywhere in their list, but none is lost. Elements need not be aligned. */
typedef int (*memfold_compare)(void *context, const void *a, size_t a_len, const void *b, size_t b_len);

/* Called for one element after the other until it returns something other than 0. It must not call this library,
 * longjmp or throw; `element` is valid until it returns, and need not be aligned. */
typedef int (*memfold_visit)(void *context, const void *element, size_t len);

/* Options of a list. Begin with memfold_default_slablist_options; 0 or null is the default. */
typedef struct memfold_slablist_options {
    /* Size of this struct, which tells later versions what they were given. */
    size_t struct_size;
    /* One of enum memfold_elements. */
    uint32_t elements;
    /* Values of enum memfold_list_flags, or'ed. */
    uint32_t flags;
    /* An order that replaces the elements' own; for an ordered list, the order of memfold_slablist_sort. */
    memfold_compare compare;
    /* Its first argument. */
    void *context;
    /* A name, for messages and probes. */
    const char *name;
    /* Reclaims the space of removed elements all at once, when at least this many slabs could be freed, and
     * this percentage of all. Default, if both are 0: little by little, which never takes long. */
    uint32_t reap_least_slabs;
    uint32_t reap_least_percent;
    /* The most numbers in a slab, 2 to 255. Default: 126. */
    uint32_t per_slab;
    /* The number of leaves, of some 30 slabs each, under one sublayer, 2 to 65535. Default: what measured
     * best. */
    uint32_t per_sublayer;
} memfold_slablist_options;

static inline memfold_slablist_options memfold_default_slablist_options(void) {
    memfold_slablist_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Makes an empty list. If `options` is null, the defaults apply. */
int memfold_slablist_new(memfold_session *session, const memfold_slablist_options *options, memfold_slablist **list);

/* Frees a list with its elements and cursors. The list is gone in any case; MEMFOLD_DAMAGED or another error if
 * not all of its nodes could be freed. */
int memfold_slablist_free(memfold_slablist *list);

/* A list's name, "" if it has none. The text stays valid until the list is freed. */
int memfold_slablist_name(memfold_slablist *list, const char **name);

/* The number of elements. */
int memfold_slablist_len(memfold_slablist *list, uint64_t *len);

/* Bytes of plain memory that the list takes in addition to the heap's, not counting cursors. */
int memfold_slablist_own_bytes(memfold_slablist *list, size_t *bytes);

/* Compares `list` with `other`, element by element in the order of `list`: -1, 0 or 1. The first difference
 * decides, otherwise the lengths. Both must have elements of the same kind; they may belong to different
 * sessions, and be sorted or not. */
int memfold_slablist_compare(memfold_slablist *list, memfold_slablist *other, int *order);

/* Packs all elements as densely as possible. `spared`, which may be null: leaves that this freed. */
int memfold_slablist_reap(memfold_slablist *list, uint64_t *spared);

/* Removes all elements. The list is empty afterwards even if this fails. */
int memfold_slablist_clear(memfold_slablist *list);

/* Checks every invariant of the list: MEMFOLD_VIOLATION and a text if it finds a contradiction. */
int memfold_slablist_check(memfold_slablist *list);

/* -- sorted lists: MEMFOLD_KIND for others */

/* Adds an element. `added`, which may be null: whether it was added. It is not if an equal one exists and the
 * list is not MEMFOLD_MANY. */
int memfold_slablist_add(memfold_slablist *list, const void *element, size_t len, int *added);

/* Adds an element and replaces the last equal one, if there is one. `replaced`, which may be null: whether there
 * was one. */
int memfold_slablist_replace(memfold_slablist *list, const void *element, size_t len, int *replaced);

/* Removes the last equal element. `removed`, which may be null: whether there was one. */
int memfold_slablist_remove(memfold_slablist *list, const void *element, size_t len, int *removed);

/* Whether there is an equal element. */
int memfold_slablist_contains(memfold_slablist *list, const void *element, size_t len, int *contains);

/* The position of the last equal element: MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_find(memfold_slablist *list, const void *element, size_t len, uint64_t *position);

/* lower_bound: the number of elements less than this one, which is the position of the first that is not less.
 * upper_bound: the position of the first element that is greater. */
int memfold_slablist_lower_bound(memfold_slablist *list, const void *element, size_t len, uint64_t *position);
int memfold_slablist_upper_bound(memfold_slablist *list, const void *element, size_t len, uint64_t *position);

/* The same for lists of MEMFOLD_U64, in a shorter form. */
int memfold_slablist_add_u64(memfold_slablist *list, uint64_t element, int *added);
int memfold_slablist_remove_u64(memfold_slablist *list, uint64_t element, int *removed);
int memfold_slablist_contains_u64(memfold_slablist *list, uint64_t element, int *contains);

/* -- ordered lists: MEMFOLD_KIND for others */

/* Inserts an element before the one at a position, or at the end if that is the list's length: MEMFOLD_NO_ELEMENT
 * if it is greater. */
int memfold_slablist_insert_at(memfold_slablist *list, uint64_t position, const void *element, size_t len);

/* Replaces the element at a position: MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_set_at(memfold_slablist *list, uint64_t position, const void *element, size_t len);

/* Appends an element. */
int memfold_slablist_push(memfold_slablist *list, const void *element, size_t len);

/* Sorts the elements, by `compare` if the list has one; equal elements keep their relative order. The list
 * does not stay sorted by itself. Cursors keep their positions, where there are other elements afterwards.
 * The call may sort the list and still fail, if nodes of the old order cannot be freed. */
int memfold_slablist_sort(memfold_slablist *list);

/* Reverses the order of the elements, and may fail like memfold_slablist_sort. */
int memfold_slablist_reverse(memfold_slablist *list);

/* -- all lists, by position */

/* Copies the element at a position to `to`, which has room for `room` bytes, and returns its length. If it is
 * longer, nothing is copied, the length is returned all the same, and the result is MEMFOLD_RANGE. `len` may be
 * null. MEMFOLD_NO_ELEMENT if there is no such element. */
int memfold_slablist_get(memfold_slablist *list, uint64_t position, void *to, size_t room, size_t *len);

/* The same for lists of MEMFOLD_U64. */
int memfold_slablist_get_u64(memfold_slablist *list, uint64_t position, uint64_t *element);

/* Removes the element at a position: MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_remove_at(memfold_slablist *list, uint64_t position);

/* Removes the elements in a range of positions. `removed`, which may be null: how many. */
int memfold_slablist_remove_range(memfold_slablist *list, uint64_t from, uint64_t to, uint64_t *removed);

/* Moves the elements in a range of positions to a new list that is like this one but has no name. */
int memfold_slablist_extract(memfold_slablist *list, uint64_t from, uint64_t to, memfold_slablist **extracted);

/* Calls `visit` for the elements in a range of positions, from the first to the last or from the last to the
 * first. `said`, which may be null: the last result of `visit`, so 0 if it saw all. This is the way to read many
 * elements; `visit` keeps its results at `context`. */
int memfold_slablist_foldl(memfold_slablist *list, uint64_t from, uint64_t to, memfold_visit visit, void *context, int *said);
int memfold_slablist_foldr(memfold_slablist *list, uint64_t from, uint64_t to, memfold_visit visit, void *context, int *said);

/* -- cursors of all lists */

/* Names a place in a list. A cursor stays at its element while others come and go or, after that element was
 * removed, between its former neighbours. */
typedef uint64_t memfold_cursor;

/* Makes a cursor at the element at a position: MEMFOLD_NO_ELEMENT if there is none. It takes a few bytes until it
 * or the list is freed. */
int memfold_slablist_cursor_new(memfold_slablist *list, uint64_t position, memfold_cursor *cursor);
int memfold_slablist_cursor_free(memfold_slablist *list, memfold_cursor cursor);

/* The element at a cursor, copied as by memfold_slablist_get, and its position: MEMFOLD_NO_ELEMENT if it was
 * removed. */
int memfold_slablist_cursor_get(memfold_slablist *list, memfold_cursor cursor, void *to, size_t room, size_t *len);
int memfold_slablist_cursor_position(memfold_slablist *list, memfold_cursor cursor, uint64_t *position);

/* Moves a cursor to the next or to the previous element. If there is none, the cursor stays, and the result is
 * MEMFOLD_NO_ELEMENT. */
int memfold_slablist_cursor_next(memfold_slablist *list, memfold_cursor cursor);
int memfold_slablist_cursor_previous(memfold_slablist *list, memfold_cursor cursor);

/* ---------------------------------------------------------------- slab maps
 *
 * Keys in order, each with a value: bytes of any length, including none. Everything said about lists applies to
 * maps. */

typedef struct memfold_slabmap memfold_slabmap;

/* Options of a map, as in memfold_slablist_options. The only flag is MEMFOLD_NEVER_REAP. */
typedef struct memfold_slabmap_options {
    size_t struct_size;
    /* One of enum memfold_elements. */
    uint32_t keys;
    uint32_t flags;
    memfold_compare compare;
    void *context;
    uint32_t reap_least_slabs;
    uint32_t reap_least_percent;
} memfold_slabmap_options;

static inline memfold_slabmap_options memfold_default_slabmap_options(void) {
    memfold_slabmap_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Like memfold_visit, with a key and its value. */
typedef int (*memfold_visit_entry)(void *context, const void *key, size_t key_len, const void *value, size_t value_len);

/* Makes an empty map. If `options` is null, the defaults apply, so keys are MEMFOLD_U64. */
int memfold_slabmap_new(memfold_session *session, const memfold_slabmap_options *options, memfold_slabmap **map);

/* Like memfold_slablist_free and the others. */
int memfold_slabmap_free(memfold_slabmap *map);
int memfold_slabmap_len(memfold_slabmap *map, uint64_t *len);
int memfold_slabmap_own_bytes(memfold_slabmap *map, size_t *bytes);
int memfold_slabmap_reap(memfold_slabmap *map, uint64_t *spared);
int memfold_slabmap_clear(memfold_slabmap *map);
int memfold_slabmap_check(memfold_slabmap *map);

/* Sets the value of a key. `replaced`, which may be null: whether it had one. */
int memfold_slabmap_put(memfold_slabmap *map, const void *key, size_t key_len, const void *value, size_t value_len, int *replaced);

/* Copies the value of a key, like memfold_slablist_get: MEMFOLD_NO_ELEMENT if there is no such key. */
int memfold_slabmap_get(memfold_slabmap *map, const void *key, size_t key_len, void *to, size_t room, size_t *len);

/* Whether there is such a key. */
int memfold_slabmap_contains(memfold_slabmap *map, const void *key, size_t key_len, int *contains);

/* Removes a key and its value. `removed`, which may be null: whether there was one. */
int memfold_slabmap_remove(memfold_slabmap *map, const void *key, size_t key_len, int *removed);

/* Copies the key at a position to `key`, and its value to `to`. If either does not fit, nothing is copied, both
 * lengths are returned, and the result is MEMFOLD_RANGE. Each length may be null. MEMFOLD_NO_ELEMENT if there is
 * no such key. */
int memfold_slabmap_at(memfold_slabmap *map, uint64_t position, void *key, size_t key_room, size_t *key_len, void *to, size_t room, size_t *len);

/* lower_bound: the number of keys less than this one, which is the position of the first that is not less.
 * upper_bound: the position of the first key that is greater. */
int memfold_slabmap_lower_bound(memfold_slabmap *map, const void *key, size_t key_len, uint64_t *position);
int memfold_slabmap_upper_bound(memfold_slabmap *map, const void *key, size_t key_len, uint64_t *position);

/* Removes the keys in a range of positions. `removed`, which may be null: how many. */
int memfold_slabmap_remove_range(memfold_slabmap *map, uint64_t from, uint64_t to, uint64_t *removed);

/* Calls `visit` for the keys in a range of positions and their values, like memfold_slablist_foldl and
 * memfold_slablist_foldr. */
int memfold_slabmap_foldl(memfold_slabmap *map, uint64_t from, uint64_t to, memfold_visit_entry visit, void *context, int *said);
int memfold_slabmap_foldr(memfold_slabmap *map, uint64_t from, uint64_t to, memfold_visit_entry visit, void *context, int *said);

#ifdef __cplusplus
}
#endif

#endif
