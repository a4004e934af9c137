/*
 * What a page must contain.
 *
 * Every byte of a page follows from its key and --seed, so only the key need be remembered, and a page that
 * is restored from another page, or in an older state, is recognised as such.
 *
 *   version 0      never written: zeros
 *   version n      one of the kinds below, chosen by a hash of the key
 *   patches k      then k single words, each at a place and with a value that follow from the key:
 *                  small writes into a page that was clean
 */
#ifndef TORTURE_PAGE_H
#define TORTURE_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define PAGE ((size_t)4096)
#define PAGE_WORDS (PAGE / 8)
#define MOST_PATCHES 12u

struct page_key {
    uint64_t region;
    uint64_t page;
    uint32_t version;
    uint32_t patches;
};

/* The expected bytes. */
void page_make(uint64_t out[PAGE_WORDS], struct page_key key);

/* Place and value of patch `number` (1 is the first). */
void page_patch(struct page_key key, unsigned number, size_t *word, uint64_t *value);

/* Compares `length` bytes (a page at most) with what they must be; ends the run if they differ. */
void page_check(const void *at, struct page_key key, size_t length);

/* The same as a question. */
bool page_holds(const void *at, struct page_key key, size_t length);

/* Checks for zeros. */
void zeros_check(const void *at, size_t length, const char *why);

/* Any length, like consecutive pages of one version: for buffers that are not pages. */
void bytes_make(void *out, size_t length, uint64_t region, uint32_t version);
void bytes_check(const void *at, size_t length, uint64_t region, uint32_t version);

#endif
