/* memfold.h - the compressed heap.
 *
 * Nodes by the million, of which only those in use are uncompressed. A node is named by a handle of 64 bits, which stays valid while the node
 * moves; handles may be kept in nodes, as pointers are.
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
 * what is in a buffer that it was to read into. Null, closed, freed, destroyed and invented heaps, sessions and lists are noticed, always. So
 * are handles of nodes that were freed, until their place is used again, and after that mostly: see docs/heap.md. The library never prints
 * anything, but for a bug of its own (MEMFOLD_BUG).
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
    /* The block is not what it was: something wrote past a node, callbacks lied, or the memory is at fault. The node is lost, or cannot be
     * read now. */
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
    /* It was called by a callback, which may not call this library. */
    MEMFOLD_CALLBACK = 15,
    /* memfold_heap_check, or that of a list or map, found what contradicts itself; memfold_last_error says what. */
    MEMFOLD_VIOLATION = 16,
    /* A fault of the library itself. The heap in which it happened is out of use: everything but destroying it says this again. */
    MEMFOLD_BUG = 17,
    /* A heap's file can't be written or read, or is none that can be loaded here: foreign, damaged, of a later version, or compressed with a
     * codec that is missing; memfold_last_error says which. */
    MEMFOLD_FILE = 18,
    /* This thread has no such list, map or cursor: it was freed, its session was closed, it is another thread's or another list's, or never
     * was one. */
    MEMFOLD_NO_LIST = 19,
    /* The list or map has no such element: no position that is so great, none that is equal, none where the cursor is or goes. */
    MEMFOLD_NO_ELEMENT = 20,
    /* The list or map is of another kind: sorted or ordered, or of other elements; memfold_last_error says which. */
    MEMFOLD_KIND = 21,
    /* A block was spilled, and the tier does not have it any more, or gives back something else. The node is lost; it can be freed. */
    MEMFOLD_LOST = 22,
    /* A block was spilled, and the tier has not answered for a minute. Nothing is lost yet: it may be tried again. */
    MEMFOLD_AWAY = 23
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

/* Values of limit_bytes that are no number of bytes: limits that follow what memory is free, or what the program uses. */
#define MEMFOLD_LIMIT_ALL UINT64_MAX
#define MEMFOLD_LIMIT_SHARE (UINT64_MAX - 1)

/* How a heap is to be. Begin with memfold_default_options; what is 0 or null is the default. */
typedef struct memfold_options {
    /* Bytes of this struct, by which later versions know what they were given. */
    size_t struct_size;
    /* Bytes that are compressed together: a power of two from 1024 to 16 MiB. Default: 32 KiB. */
    size_t block_size;
    /* Nodes begin at multiples of this: a power of two from 1 to 4096, at most a quarter of a block. Default: 8. */
    size_t alignment;
    /* The most memory for everything: uncompressed and compressed blocks, tables, buffers. Default, if limit_blocks is 0, too:
     * uncompressed blocks have half of the memory that is free, on the machine and in each cgroup that limits the process, and
     * blocks are refused (MEMFOLD_LIMIT) before it is full. MEMFOLD_LIMIT_ALL: all that is free but a reserve, so nothing is
     * compressed before memory is short. MEMFOLD_LIMIT_SHARE: as few as the program can do with. See docs/heap.md. */
    uint64_t limit_bytes;
    /* Or: the most blocks that are uncompressed at a time. */
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
    /* Where compressed blocks go that do not fit into limit_bytes, encrypted: a directory or a new file ("/var/tmp"), an NBD server
     * ("nbd://host/export", for which libnbd is loaded), Redis or Valkey ("redis://host"), see docs/spill.md. Threads of the heap's own write and read
     * there, and a forked child has only what is in memory. memfold_heap_stats says how the tier is. Destroy the heap, so that nothing is left on a server. Default: they go nowhere. */
    const char *spill;
    /* The most bytes there. Default: no limit but the tier's. */
    uint64_t spill_bytes;
} memfold_options;

static inline memfold_options memfold_default_options(void) {
    memfold_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* How the tier is that a heap spills to. */
enum memfold_spill_health {
    MEMFOLD_SPILL_NONE = 0,
    /* It takes blocks. */
    MEMFOLD_SPILL_OPEN = 1,
    /* It has no room for now. */
    MEMFOLD_SPILL_FULL = 2,
    /* It does not answer, and may come back. */
    MEMFOLD_SPILL_AWAY = 3,
    /* It must not be used any more (Redis with a policy that evicts, an export that another run has); what it has can be read. */
    MEMFOLD_SPILL_UNFIT = 4
};

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
    /* Compressed blocks that are on a tier, not in memory. */
    uint64_t spilled_bytes;
    /* How the tier is: one of memfold_spill_health. */
    uint64_t spill_health;
} memfold_stats;

/* Makes an empty heap. `options` may be null: the defaults. */
int memfold_heap_new(const memfold_options *options, memfold_heap **heap);

/* Gives back all memory of a heap: MEMFOLD_OPEN if it has open sessions. */
int memfold_heap_destroy(memfold_heap *heap);

/* Gives a heap another limit, by the options of the same names: both 0 is the default. Where it is less than before, blocks go as others
 * come, and nothing is lost; with limit_bytes below what is in use, only what would need more fails. */
int memfold_heap_set_limit(memfold_heap *heap, uint64_t limit_bytes, uint32_t limit_blocks);

/* Looks at every invariant of the heap, for tests and for programs whose pointers may have gone astray: MEMFOLD_VIOLATION and a text
 * if something contradicts itself, MEMFOLD_OPEN if there are open sessions. */
int memfold_heap_check(memfold_heap *heap);

/* Counts everything. `size` is sizeof(memfold_stats): fields that the library does not know are set to 0. */
int memfold_heap_stats(memfold_heap *heap, memfold_stats *stats, size_t size);

/* ---------------------------------------------------------------- files */

/* Saves a heap: MEMFOLD_OPEN if it has open sessions. The file is there as a whole or not at all; an old one is replaced at the end. */
int memfold_heap_save(memfold_heap *heap, const char *file);
/* Frees all nodes that a spill target has lost, and long ones of which it lost a part; *nodes, unless it is null, is how many, each
 * part of a long one counting as one. Then the rest can be saved; before, that is MEMFOLD_LOST, and memfold_last_error says how much
 * and names a node. Asks the target for everything that was spilled. MEMFOLD_OPEN if there are open sessions. */
int memfold_heap_free_lost(memfold_heap *heap, uint64_t *nodes);

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

/* Ends a session of this thread, with all that it has pinned, and its lists and maps. */
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

/* ---------------------------------------------------------------- slab lists
 *
 * Sorted or ordered lists of numbers, or of bytes of any length, whose elements lie in the heap; see docs/collections.md.
 *
 *     memfold_slablist *list;
 *     memfold_slablist_new(session, NULL, &list);             sorted, of uint64_t, each once
 *     memfold_slablist_add_u64(list, 20, NULL);
 *     memfold_slablist_contains_u64(list, 20, &contains);
 *     memfold_slablist_free(list);
 *
 * A list belongs to a session, and is freed with it. It is for the session's thread alone. It lies partly in plain memory, so it isn't saved
 * with the heap. An element is a pointer and its length; for numbers the length is 8, and they need not be aligned. Elements have positions,
 * from 0 on, by which every list is read. A range of positions is from `from` on up to but not including `to`; what is beyond the end is left
 * out, so that 0, UINT64_MAX is all of it.
 *
 * Results that say whether something was so are 0 or 1. Where a result is not asked for, its pointer may be null if it is said so. */

typedef struct memfold_slablist memfold_slablist;

/* What a list's elements are, or a map's keys, and how they are sorted. */
enum memfold_elements {
    MEMFOLD_U64 = 0, /* uint64_t */
    MEMFOLD_I64 = 1, /* int64_t */
    MEMFOLD_F64 = 2, /* double, in IEEE 754's total order: -0 before 0; NaN at the ends, and equal to itself */
    MEMFOLD_BYTES = 3 /* of any length, none included, as memcmp does it; of two of which one begins with the other, the shorter one is first */
};

/* Flags of lists and maps. */
enum memfold_list_flags {
    /* Elements stay where they are put, and the program says where. Without it the list is sorted. */
    MEMFOLD_ORDERED = 1,
    /* Of a sorted list: elements that are equal are all kept, in the order in which they came. */
    MEMFOLD_MANY = 2,
    /* Cursors go on from the last element to the first one, and back. */
    MEMFOLD_CIRCULAR = 4,
    /* The room that removed elements leave is closed only by reap. */
    MEMFOLD_NEVER_REAP = 8
};

/* How `a` and `b` stand to each other: less than 0, 0 or more than 0. It is called while nothing is being changed, and must not call this
 * library, longjmp or throw. It is not trusted: if what it says is no order, elements may come to lie anywhere in their list, but none is
 * lost. Elements need not be aligned. */
typedef int (*memfold_compare)(void *context, const void *a, size_t a_len, const void *b, size_t b_len);

/* Is called for elements, one after the other, until it gives something else than 0. It must not call this library, longjmp or throw;
 * `element` is good until it returns, and need not be aligned. */
typedef int (*memfold_visit)(void *context, const void *element, size_t len);

/* How a list is to be. Begin with memfold_default_slablist_options; what is 0 or null is the default. */
typedef struct memfold_slablist_options {
    /* Bytes of this struct, by which later versions know what they were given. */
    size_t struct_size;
    /* One of enum memfold_elements. */
    uint32_t elements;
    /* Of enum memfold_list_flags, or'ed. */
    uint32_t flags;
    /* The order, in place of the one that elements have by themselves; of an ordered list it is that of memfold_slablist_sort. */
    memfold_compare compare;
    /* The first argument of it. */
    void *context;
    /* A name, for messages and probes. */
    const char *name;
    /* When the room that removed elements leave is closed all at once: when so many slabs could be spared, and they are so many per cent of
     * all. Default, if both are 0: little by little, which never takes long. */
    uint32_t reap_least_slabs;
    uint32_t reap_least_percent;
    /* Numbers that a slab has room for, 2 to 255. Default: 126. */
    uint32_t per_slab;
    /* Leaves, of some 30 slabs each, under one sublayer, 2 to 65535. Default: as measured best. */
    uint32_t per_sublayer;
} memfold_slablist_options;

static inline memfold_slablist_options memfold_default_slablist_options(void) {
    memfold_slablist_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Makes an empty list. `options` may be null: the defaults. */
int memfold_slablist_new(memfold_session *session, const memfold_slablist_options *options, memfold_slablist **list);

/* Frees a list with its elements and cursors. It is gone in any case; MEMFOLD_DAMAGED or another error if not all of its nodes could be freed. */
int memfold_slablist_free(memfold_slablist *list);

/* A list's name, "" if it has none. The text is there until the list is freed. */
int memfold_slablist_name(memfold_slablist *list, const char **name);

/* How many elements there are. */
int memfold_slablist_len(memfold_slablist *list, uint64_t *len);

/* Bytes of plain memory that the list takes beside the heap's, cursors left out. */
int memfold_slablist_own_bytes(memfold_slablist *list, size_t *bytes);

/* How `list` and `other` stand to each other, element by element in the order of `list`: -1, 0 or 1. The first that differ decide, else their
 * lengths. Both have elements of one kind, and may be of different sessions, sorted or not. */
int memfold_slablist_compare(memfold_slablist *list, memfold_slablist *other, int *order);

/* Packs all elements as close as they go. `spared`, which may be null: leaves that became free by it. */
int memfold_slablist_reap(memfold_slablist *list, uint64_t *spared);

/* Takes all elements out. The list is empty afterwards even if this fails. */
int memfold_slablist_clear(memfold_slablist *list);

/* Looks at everything that the list knows of itself: MEMFOLD_VIOLATION and a text if something contradicts itself. */
int memfold_slablist_check(memfold_slablist *list);

/* -- sorted lists: others are MEMFOLD_KIND */

/* Adds an element. `added`, which may be null: whether it was, which it isn't if one that is equal is there and the list is not MEMFOLD_MANY. */
int memfold_slablist_add(memfold_slablist *list, const void *element, size_t len, int *added);

/* Adds an element in place of the last one that is equal, if there is one. `replaced`, which may be null: whether there was. */
int memfold_slablist_replace(memfold_slablist *list, const void *element, size_t len, int *replaced);

/* Takes out the last element that is equal. `removed`, which may be null: whether there was one. */
int memfold_slablist_remove(memfold_slablist *list, const void *element, size_t len, int *removed);

/* Whether there is an element that is equal. */
int memfold_slablist_contains(memfold_slablist *list, const void *element, size_t len, int *contains);

/* The position of the last element that is equal: MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_find(memfold_slablist *list, const void *element, size_t len, uint64_t *position);

/* How many elements are before this one, so the position of the first that is not; and of the first that is behind it. */
int memfold_slablist_lower_bound(memfold_slablist *list, const void *element, size_t len, uint64_t *position);
int memfold_slablist_upper_bound(memfold_slablist *list, const void *element, size_t len, uint64_t *position);

/* The same for lists of MEMFOLD_U64, which takes less writing. */
int memfold_slablist_add_u64(memfold_slablist *list, uint64_t element, int *added);
int memfold_slablist_remove_u64(memfold_slablist *list, uint64_t element, int *removed);
int memfold_slablist_contains_u64(memfold_slablist *list, uint64_t element, int *contains);

/* -- ordered lists: others are MEMFOLD_KIND */

/* Puts an element before the one at a position, or behind all if that is the list's length: MEMFOLD_NO_ELEMENT if it is greater. */
int memfold_slablist_insert_at(memfold_slablist *list, uint64_t position, const void *element, size_t len);

/* Puts an element in place of the one at a position: MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_set_at(memfold_slablist *list, uint64_t position, const void *element, size_t len);

/* Puts an element behind all others. */
int memfold_slablist_push(memfold_slablist *list, const void *element, size_t len);

/* Sorts the elements, by `compare` if the list has one; those that are equal stay as they are to each other. The list does not stay sorted by
 * itself. Cursors stay at their positions, where other elements are then. It may be done and still fail, if nodes of the old order can't be
 * freed. */
int memfold_slablist_sort(memfold_slablist *list);

/* Puts the elements into the opposite order, and may fail as memfold_slablist_sort does. */
int memfold_slablist_reverse(memfold_slablist *list);

/* -- all lists, by position */

/* Copies the element at a position to `to`, where there is room for `room` bytes, and says its length. If it is longer, nothing is copied, the
 * length is said all the same, and the result is MEMFOLD_RANGE. `len` may be null. MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_get(memfold_slablist *list, uint64_t position, void *to, size_t room, size_t *len);

/* The same for lists of MEMFOLD_U64. */
int memfold_slablist_get_u64(memfold_slablist *list, uint64_t position, uint64_t *element);

/* Takes out the element at a position: MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slablist_remove_at(memfold_slablist *list, uint64_t position);

/* Takes out the elements at a range of positions. `removed`, which may be null: how many. */
int memfold_slablist_remove_range(memfold_slablist *list, uint64_t from, uint64_t to, uint64_t *removed);

/* Takes the elements at a range of positions out, into a new list that is like this one, but for its name, which it has none of. */
int memfold_slablist_extract(memfold_slablist *list, uint64_t from, uint64_t to, memfold_slablist **extracted);

/* Calls `visit` for the elements at a range of positions, from the first to the last or from the last to the first. `said`, which may be null:
 * what it gave last, so 0 if it saw all. This is how to read many elements; what comes of them is kept at `context`. */
int memfold_slablist_foldl(memfold_slablist *list, uint64_t from, uint64_t to, memfold_visit visit, void *context, int *said);
int memfold_slablist_foldr(memfold_slablist *list, uint64_t from, uint64_t to, memfold_visit visit, void *context, int *said);

/* -- cursors of all lists */

/* Names a place of a list: at an element, which it stays at while others come and go; or, if that was removed, between those that were beside it. */
typedef uint64_t memfold_cursor;

/* A cursor at the element at a position: MEMFOLD_NO_ELEMENT if there is none. It takes a few bytes until it is freed, or the list is. */
int memfold_slablist_cursor_new(memfold_slablist *list, uint64_t position, memfold_cursor *cursor);
int memfold_slablist_cursor_free(memfold_slablist *list, memfold_cursor cursor);

/* The element at a cursor, as memfold_slablist_get copies it, and its position: MEMFOLD_NO_ELEMENT if it was removed. */
int memfold_slablist_cursor_get(memfold_slablist *list, memfold_cursor cursor, void *to, size_t room, size_t *len);
int memfold_slablist_cursor_position(memfold_slablist *list, memfold_cursor cursor, uint64_t *position);

/* Moves a cursor to the next element, or to the one before. If there is none, it stays, and the result is MEMFOLD_NO_ELEMENT. */
int memfold_slablist_cursor_next(memfold_slablist *list, memfold_cursor cursor);
int memfold_slablist_cursor_previous(memfold_slablist *list, memfold_cursor cursor);

/* ---------------------------------------------------------------- slab maps
 *
 * Keys in order, each with a value: bytes of any length, none included. All that is said about lists holds for them. */

typedef struct memfold_slabmap memfold_slabmap;

/* How a map is to be, as memfold_slablist_options say it. Of the flags there is MEMFOLD_NEVER_REAP. */
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

/* As memfold_visit, with a key and its value. */
typedef int (*memfold_visit_entry)(void *context, const void *key, size_t key_len, const void *value, size_t value_len);

/* Makes an empty map. `options` may be null: the defaults, so keys are MEMFOLD_U64. */
int memfold_slabmap_new(memfold_session *session, const memfold_slabmap_options *options, memfold_slabmap **map);

/* As memfold_slablist_free and the others. */
int memfold_slabmap_free(memfold_slabmap *map);
int memfold_slabmap_len(memfold_slabmap *map, uint64_t *len);
int memfold_slabmap_own_bytes(memfold_slabmap *map, size_t *bytes);
int memfold_slabmap_reap(memfold_slabmap *map, uint64_t *spared);
int memfold_slabmap_clear(memfold_slabmap *map);
int memfold_slabmap_check(memfold_slabmap *map);

/* Gives a key a value. `replaced`, which may be null: whether it had one. */
int memfold_slabmap_put(memfold_slabmap *map, const void *key, size_t key_len, const void *value, size_t value_len, int *replaced);

/* Copies the value of a key, as memfold_slablist_get does it: MEMFOLD_NO_ELEMENT if there is no such key. */
int memfold_slabmap_get(memfold_slabmap *map, const void *key, size_t key_len, void *to, size_t room, size_t *len);

/* Whether there is such a key. */
int memfold_slabmap_contains(memfold_slabmap *map, const void *key, size_t key_len, int *contains);

/* Takes out a key and its value. `removed`, which may be null: whether there was one. */
int memfold_slabmap_remove(memfold_slabmap *map, const void *key, size_t key_len, int *removed);

/* Copies the key at a position to `key`, and its value to `to`. If either has not enough room, nothing is copied, both lengths are said, and
 * the result is MEMFOLD_RANGE. Each length may be null. MEMFOLD_NO_ELEMENT if there is none. */
int memfold_slabmap_at(memfold_slabmap *map, uint64_t position, void *key, size_t key_room, size_t *key_len, void *to, size_t room, size_t *len);

/* How many keys are before this one, so the position of the first that is not; and of the first that is behind it. */
int memfold_slabmap_lower_bound(memfold_slabmap *map, const void *key, size_t key_len, uint64_t *position);
int memfold_slabmap_upper_bound(memfold_slabmap *map, const void *key, size_t key_len, uint64_t *position);

/* Takes out the keys at a range of positions. `removed`, which may be null: how many. */
int memfold_slabmap_remove_range(memfold_slabmap *map, uint64_t from, uint64_t to, uint64_t *removed);

/* Calls `visit` for the keys at a range of positions and their values, as memfold_slablist_foldl and memfold_slablist_foldr do it. */
int memfold_slabmap_foldl(memfold_slabmap *map, uint64_t from, uint64_t to, memfold_visit_entry visit, void *context, int *said);
int memfold_slabmap_foldr(memfold_slabmap *map, uint64_t from, uint64_t to, memfold_visit_entry visit, void *context, int *said);

#ifdef __cplusplus
}
#endif

#endif
