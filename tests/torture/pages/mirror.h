/*
 * A mirror: pages that received the contents of other pages by way of the kernel. It remembers for each page
 * which contents arrived, so that they can be verified much later. It need not begin at a page boundary.
 */
#ifndef TORTURE_MIRROR_H
#define TORTURE_MIRROR_H

#include "page.h"

struct mirror {
    uint8_t *base; /* of "page" 0, `shift` bytes into the mapping */
    size_t pages, shift;
    struct page_key *keys;
};

void mirror_make(struct mirror *mirror, size_t pages, size_t shift);
void mirror_drop(struct mirror *mirror);

/* `page` now holds the bytes of `key`: verifies that and remembers it. */
void mirror_took(struct mirror *mirror, size_t page, struct page_key key);
void mirror_check(const struct mirror *mirror, size_t page);
void mirror_check_all(const struct mirror *mirror);

static inline uint8_t *mirror_at(const struct mirror *mirror, size_t page)
{
    return mirror->base + page * PAGE;
}

/* Complete system calls: they transfer all bytes, in spite of interruptions, and must succeed. */
void write_all(int fd, const void *from, size_t length);
void read_all(int fd, void *to, size_t length);
void pwrite_all(int fd, const void *from, size_t length, off_t at);
void pread_all(int fd, void *to, size_t length, off_t at);

/* An unlinked file of this size in --dir; with extra open flags, or -1 if those are refused. */
int scratch_file(size_t length, int flags);

#endif
