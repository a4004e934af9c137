/* memfold_weft.h - the codec for pages of heaps, alone.
 *
 * Compresses a unit of at most 64 KiB, usually a page: words that repeat at a distance and differ in few bytes, as
 * pointers and counters of records do. docs/formats/weft.md of memfold describes the format, docs/codecs.md what to
 * expect. Nothing is allocated, and no function keeps a pointer.
 *
 *     void *scratch = aligned_alloc(64, memfold_weft_scratch_size());         one for each thread
 *     unsigned char form[MEMFOLD_WEFT_BOUND(4096)];
 *     size_t stored;
 *     memfold_weft_compress(page, 4096, form, sizeof form, 4, scratch, &stored);
 *     memfold_weft_decompress(form, stored, page, 4096, scratch);
 *
 * Errors are those of memfold.h; memfold_last_error has the text. */
#ifndef MEMFOLD_WEFT_H
#define MEMFOLD_WEFT_H

#include <memfold.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most bytes of a unit. */
#define MEMFOLD_WEFT_MOST ((size_t)65536)
/* The most bytes that the form of a unit of `len` bytes takes. */
#define MEMFOLD_WEFT_BOUND(len) ((size_t)(len) + ((size_t)(len) + 4095) / 4096 + ((size_t)(len) % 4096 ? 2 : 0))

/* The same as a function; 0 if a unit cannot be that long. */
size_t memfold_weft_bound(size_t len);

/* Bytes of working memory. They must be aligned to 64, and their content does not matter. */
size_t memfold_weft_scratch_size(void);

/* Compresses the unit to at most `room` bytes, and tells how many they are. Efforts go from 1, the fastest, to 4, the
 * densest; all make the same format. Fails with MEMFOLD_RANGE if there is not enough room. What `to` holds then is
 * not specified. */
int memfold_weft_compress(const void *unit, size_t len, void *to, size_t room, int effort, void *scratch,
                          size_t *stored);

/* Restores a unit of `len` bytes. Any bytes are accepted: what is no form of a unit of that length is MEMFOLD_DAMAGED,
 * and then the content of `unit` is not specified. There is no checksum: damaged bytes may also restore to other
 * ones. */
int memfold_weft_decompress(const void *from, size_t from_len, void *unit, size_t len, void *scratch);

#ifdef __cplusplus
}
#endif

#endif
