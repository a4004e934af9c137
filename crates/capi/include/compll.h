/* compll.h - compll's interface, on top of memfold's heap.
 *
 * compll (Yoran Heling, 2010) is a replacement for malloc() and free() whose memory is compressed. This header
 * has its prototypes, so programs written for it need no change. memfold.h offers more to new programs.
 *
 * A compll_t names a node instead of a pointer; 0 is none. To access a node's contents, ask for a pointer each
 * time:
 *
 *     #define R(x) ((const struct item *)compll_read(x))
 *     #define W(x) ((struct item *)compll_write(x))
 *
 *     W(a)->size += R(b)->size;
 *     W(a)->next = b;
 *
 * Pointers. compll promises that a pointer is valid until the next call for another node. Programs keep pointers
 * longer, so here the blocks that each thread used last stay where they are, with all pointers into them: as many
 * as uncomp_count says, at least 4 and at most 8. compll_alloc and compll_free leave pointers to other nodes
 * alone.
 *
 * Threads. Several threads may call all functions but compll_init at once; each has its own pointers. Two threads
 * that write to the same node, or one that writes and one that reads, need a lock of their own. If there are so
 * many threads that the blocks of all do not fit into uncomp_count - 2, each keeps fewer, but at least 2. So
 * there must be 2 blocks for each thread, and 2 more (6 if uncomp_count is less); if that is not enough,
 * compll_read and compll_write return NULL, and compll_alloc returns 0.
 *
 * With COMPLL_NOLIB defined, everything is calloc and free: for sanitizers and valgrind, which then see the
 * program's errors.
 *
 * Link with what `pkg-config --cflags --libs memfold` prints. */
#ifndef COMPLL_H
#define COMPLL_H

#ifdef COMPLL_NOLIB
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Callbacks that compress a block of memory and decompress it again:
 *
 *     unsigned int compress_block(const unsigned char *src, unsigned int src_len,
 *                                 unsigned char *dest, unsigned int dest_len);
 *     void decompress_block(const unsigned char *src, unsigned int src_len,
 *                           unsigned char *dest, unsigned int dest_len);
 *
 * The first returns the length of what it wrote to dest. There is room for src_len + src_len / 6 + 1024 bytes,
 * enough for the worst case of the common libraries. 0 means that the block cannot be compressed; then, or if the
 * result is no smaller than the block, the block is kept uncompressed. The second must write exactly dest_len
 * bytes.
 *
 * Any thread that evicts or restores a block calls them, possibly several threads at once. They must not call
 * this library, longjmp or throw. The library notices a block that is not restored correctly; its nodes
 * cannot be read any more. */
typedef unsigned int (*compll_compress_callback)(const unsigned char *, unsigned int, unsigned char *, unsigned int);
typedef void (*compll_decompress_callback)(const unsigned char *, unsigned int, unsigned char *, unsigned int);

#ifndef COMPLL_NOLIB

/* Names a node; 0 names none. */
typedef unsigned long long compll_t;

/* Must be called before everything else.
 *
 * block_size: bytes that are compressed together, from 1 to 16 MiB; 1 KiB to 512 KiB are useful. A number
 *     less than 1024 counts as 1024; any other number that is not a power of two is rounded up to the next
 *     one. A node larger than a block is kept in parts, and is in one piece while it is used.
 * alignment: the alignment of nodes: 1, 2, 4, 8 or 16. Large blocks may have a larger one.
 * uncomp_count: how many blocks are uncompressed at a time, at least 1; if it is less than 10, up to 2 more than the
 *     number kept for pointers (see above).
 * compress_cb, decompress_cb: see above.
 *
 * Returns 0, or a positive number if an argument is out of range: a code from memfold.h, whose memfold_last_error
 * says more. It may be called again when no node is left, if the program uses only one thread by then. */
int compll_init(unsigned int block_size, unsigned short alignment, unsigned short uncomp_count,
                compll_compress_callback compress_cb, compll_decompress_callback decompress_cb);

/* Allocates a node of `size` bytes, all zero. 0 if memory is short, or there are too many threads (see
 * above). */
compll_t compll_alloc(unsigned int size);

/* Frees a node. Does nothing if there is no such node. */
void compll_free(compll_t node);

/* A pointer to a node's contents, for reading; NULL if there is no such node. */
const void *compll_read(compll_t node);

/* The same, for reading and writing. */
void *compll_write(compll_t node);

#else

/* Pointers name the nodes. */
typedef void *compll_t;

/* There is nothing to initialise. */
static inline int compll_nolib_init(void) { return 0; }
#define compll_init(bs, al, cnt, comp, uncomp) compll_nolib_init()

#define compll_alloc(size) calloc(size, 1)
#define compll_free(p) free(p)

#define compll_read(p) (p)
#define compll_write(p) (p)

#endif

#ifdef __cplusplus
}
#endif

#endif
