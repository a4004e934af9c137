/* compll.h - compll's interface, on top of memfold's heap.
 *
 * compll (Yoran Heling, 2010) is a replacement for malloc() and free() whose memory is compressed. This header has its prototypes, so programs
 * that were written for it need no change. New programs have more from memfold.h.
 *
 * Nodes are named by a compll_t instead of a pointer; 0 is none. To get at what a node holds, ask for a pointer each time:
 *
 *     #define R(x) ((const struct item *)compll_read(x))
 *     #define W(x) ((struct item *)compll_write(x))
 *
 *     W(a)->size += R(b)->size;
 *     W(a)->next = b;
 *
 * Pointers. compll promises that a pointer is valid until the next call for another node. Programs keep them longer, so here, for each
 * thread, the blocks that it used last stay where they are, with all pointers into them: as many as uncomp_count says, 4 at least and
 * 8 at most. compll_alloc and compll_free leave pointers to other nodes alone.
 *
 * Threads. All functions but compll_init may be called by several threads at once; each has its own pointers. Two threads that write to the
 * same node, or one that writes and one that reads, need a lock of their own. With so many threads that the blocks of all do not fit into
 * uncomp_count - 2, each keeps fewer, but at least 2. So there have to be 2 blocks for each thread, and 2 more (6 if uncomp_count is less); if
 * they are not enough, compll_read and compll_write give NULL, and compll_alloc gives 0.
 *
 * With COMPLL_NOLIB defined, all of it is calloc and free: for sanitizers and valgrind, which then see what the program does wrong.
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

/* Compresses a block of memory, and decompresses it again:
 *
 *     unsigned int compress_block(const unsigned char *src, unsigned int src_len,
 *                                 unsigned char *dest, unsigned int dest_len);
 *     void decompress_block(const unsigned char *src, unsigned int src_len,
 *                           unsigned char *dest, unsigned int dest_len);
 *
 * The first gives the length of what it wrote to dest. There is room for src_len + src_len / 6 + 1024 bytes, enough for the worst case of
 * the common libraries. 0 says that the block can't be compressed; then, or if the result is no smaller than the block, it is kept as it is.
 * The second has to write exactly dest_len bytes.
 *
 * They are called by whichever thread needs a block to go or to come, by several at once if there are several, and must not call this
 * library, longjmp or throw. A block that does not come back as it was is noticed: its nodes can't be read any more. */
typedef unsigned int (*compll_compress_callback)(const unsigned char *, unsigned int, unsigned char *, unsigned int);
typedef void (*compll_decompress_callback)(const unsigned char *, unsigned int, unsigned char *, unsigned int);

#ifndef COMPLL_NOLIB

/* Names a node; 0 names none. */
typedef unsigned long long compll_t;

/* Has to be called before everything else.
 *
 * block_size: bytes that are compressed together, from 1 to 16 MiB; useful are 1 KiB to 512 KiB. Other numbers than powers of two, and less than
 *     1024, mean the next power of two from there. A node larger than a block is kept in parts, and is in
 *     one piece while it is used.
 * alignment: nodes begin at multiples of this: 1, 2, 4, 8 or 16. Large blocks may have more.
 * uncomp_count: how many blocks are uncompressed at a time, at least 1; with less than 10, up to 2 more than stay for pointers (see above).
 * compress_cb, decompress_cb: see above.
 *
 * The result is 0, or a positive number if an argument is out of its range: a code from memfold.h, where memfold_last_error says more. It may be
 * called again, by a program that uses one thread by then, when no node is left. */
int compll_init(unsigned int block_size, unsigned short alignment, unsigned short uncomp_count,
                compll_compress_callback compress_cb, compll_decompress_callback decompress_cb);

/* Makes a node of `size` bytes, all zero. 0 if it does not fit into a block, or memory is short. */
compll_t compll_alloc(unsigned int size);

/* Removes a node. Does nothing if there is no such node. */
void compll_free(compll_t node);

/* A pointer to what the node holds, to read; NULL if there is no such node. */
const void *compll_read(compll_t node);

/* The same, to read and write. */
void *compll_write(compll_t node);

#else

/* Nodes are named by pointers. */
typedef void *compll_t;

/* There is nothing to begin with. */
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
