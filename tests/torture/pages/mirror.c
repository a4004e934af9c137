/* Mirrors and whole-length I/O; see mirror.h. */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>

void mirror_make(struct mirror *mirror, size_t pages, size_t shift)
{
    uint8_t *at = must(mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mirror->base = at + shift;
    mirror->pages = pages;
    mirror->shift = shift;
    /* All keys are zero, which means version 0: zeros. */
    mirror->keys = calloc(pages, sizeof *mirror->keys);
    if (mirror->keys == NULL)
        fail_errno("calloc");
}

void mirror_drop(struct mirror *mirror)
{
    must(munmap(mirror->base - mirror->shift, (mirror->pages + 1) * PAGE));
    free(mirror->keys);
    memset(mirror, 0, sizeof *mirror);
}

void mirror_took(struct mirror *mirror, size_t page, struct page_key key)
{
    mirror->keys[page] = key;
    mirror_check(mirror, page);
}

void mirror_check(const struct mirror *mirror, size_t page)
{
    page_check(mirror_at(mirror, page), mirror->keys[page], PAGE);
}

void mirror_check_all(const struct mirror *mirror)
{
    for (size_t page = 0; page < mirror->pages; page++)
        mirror_check(mirror, page);
}

/* One loop for all four: `at` below 0 means the position of the descriptor. */
static void transfer(int fd, uint8_t *memory, size_t length, off_t at, bool out)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n;
        if (out)
            n = at < 0 ? write(fd, memory + done, length - done)
                       : pwrite(fd, memory + done, length - done, at + (off_t)done);
        else
            n = at < 0 ? read(fd, memory + done, length - done)
                       : pread(fd, memory + done, length - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail_errno("%s of %zu bytes at %p", out ? "write" : "read", length - done, (void *)(memory + done));
        if (n == 0)
            fail("%s of %zu bytes at %p: nothing more came", out ? "write" : "read", length - done,
                 (void *)(memory + done));
        done += (size_t)n;
        move_on();
    }
}

void write_all(int fd, const void *from, size_t length)
{
    transfer(fd, (uint8_t *)(uintptr_t)from, length, -1, true);
}

void read_all(int fd, void *to, size_t length)
{
    transfer(fd, to, length, -1, false);
}

void pwrite_all(int fd, const void *from, size_t length, off_t at)
{
    transfer(fd, (uint8_t *)(uintptr_t)from, length, at, true);
}

void pread_all(int fd, void *to, size_t length, off_t at)
{
    transfer(fd, to, length, at, false);
}

int scratch_file(size_t length, int flags)
{
    char path[320];
    snprintf(path, sizeof path, "%s/torture-XXXXXX", options.dir);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        fail_errno("a scratch file in %s", options.dir);
    if (length > 0 && posix_fallocate(fd, 0, (off_t)length) != 0 && ftruncate(fd, (off_t)length) != 0)
        fail_errno("%zu bytes for a scratch file in %s", length, options.dir);
    if (flags) {
        int again = open(path, O_RDWR | O_CLOEXEC | flags);
        close(fd);
        fd = again;
    }
    unlink(path);
    return fd;
}
