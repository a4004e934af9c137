/*
 * filled WAY MIB: gets MIB in a way that no single request shows, has the kernel fill it in one system call,
 * and checks it.
 *   protect   reserved without access, made writable
 *   pieces    many requests below 1 MiB, filled by readv
 *   remap     one mapping that grows
 *   populate  reserved, made writable, MADV_POPULATE_WRITE
 *   several   four processes with a quarter each
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 1000 << 10, PIECES = 1024 };
static int file;

static uint64_t word(size_t page) { return (page + 1) * 0x9e3779b97f4a7c15; }

static char *mapped(size_t bytes, int protection)
{
    char *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int is_wrong(const char *at, size_t from, size_t bytes)
{
    for (size_t byte = (4096 - from % 4096) % 4096; byte + 8 <= bytes; byte += 4096) {
        uint64_t here;
        memcpy(&here, at + byte, 8);
        if (here != word((from + byte) / 4096))
            return printf("wrong at %zu\n", from + byte);
    }
    return 0;
}

static int read_into(char *at, size_t bytes)
{
    size_t done = 0;
    for (ssize_t got; done < bytes && (got = pread(file, at + done, bytes - done, done)) > 0; done += got) {
    }
    return done != bytes || is_wrong(at, 0, bytes);
}

static int by_pieces(size_t bytes)
{
    struct iovec pieces[PIECES];
    size_t count = bytes / PIECE;
    for (size_t piece = 0; piece < count; piece++)
        pieces[piece] = (struct iovec){malloc(PIECE), PIECE};
    if (lseek(file, 0, SEEK_SET) != 0 || readv(file, pieces, count) != (ssize_t)(count * PIECE))
        return 1;
    for (size_t piece = 0; piece < count; piece++)
        if (is_wrong(pieces[piece].iov_base, piece * PIECE, PIECE))
            return 1;
    return 0;
}

static int by_remap(size_t bytes)
{
    size_t step = bytes / 6 / 4096 * 4096, has = step;
    char *at = mapped(step, PROT_READ | PROT_WRITE);
    for (; has + step <= bytes; has += step)
        at = mremap(at, has, has + step, MREMAP_MAYMOVE);
    return read_into(at, has);
}

static int by_populate(size_t bytes)
{
    char *at = mapped(bytes, PROT_NONE);
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) || madvise(at, bytes, MADV_POPULATE_WRITE))
        return 1;
    for (size_t byte = 0; byte < bytes; byte += 4096)
        if (at[byte])
            return 1;
    /* As the kernel does without memfold, if a part cannot be filled. */
    munmap(at + bytes / 2, 4096);
    return madvise(at, bytes, MADV_POPULATE_WRITE) != -1;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t bytes = strtoull(argv[2], NULL, 0) << 20;
    FILE *source = tmpfile();
    file = fileno(source);
    for (size_t page = 0; page < bytes / 4096; page++) {
        uint64_t here = word(page);
        if (pwrite(file, &here, 8, page * 4096) != 8)
            return 2;
    }
    if (ftruncate(file, bytes))
        return 2;
    int bad = 0, status;
    if (!strcmp(argv[1], "protect")) {
        char *at = mapped(bytes, PROT_NONE);
        bad = mprotect(at, bytes, PROT_READ | PROT_WRITE) || read_into(at, bytes);
    } else if (!strcmp(argv[1], "pieces")) {
        bad = by_pieces(bytes);
    } else if (!strcmp(argv[1], "remap")) {
        bad = by_remap(bytes);
    } else if (!strcmp(argv[1], "populate")) {
        bad = by_populate(bytes);
    } else {
        for (int child = 0; child < 4; child++)
            if (fork() == 0) {
                char *at = mapped(bytes / 4, PROT_READ | PROT_WRITE);
                usleep(300000);
                int is_bad = read_into(at, bytes / 4);
                sleep(1);
                _exit(is_bad);
            }
        while (wait(&status) > 0)
            bad |= status;
    }
    puts(bad ? "wrong" : "right");
    return bad != 0;
}
