/* Gives fio real data to write.
 *
 * fio 3.33 fills buffers with random bytes, or repeats at most 512 bytes of a file. When preloaded, this
 * passes other buffers to fio's writing calls: bytes of the file MEMFOLD_BENCH_DATA, from a randomly chosen
 * page on.
 *
 *     cc -O2 -shared -fPIC -o buffers.so buffers.c -ldl
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char *data;
static size_t size;

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("MEMFOLD_BENCH_DATA");
    struct stat stat;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0 || fstat(file, &stat))
        die("MEMFOLD_BENCH_DATA");
    size = stat.st_size;
    data = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (data == MAP_FAILED)
        die("MEMFOLD_BENCH_DATA");
    close(file);
}

/* A random position in the data with `len` bytes. */
static const void *some(size_t len)
{
    static __thread uint64_t state;
    if (!state)
        state = ((uintptr_t)&state ^ (uint64_t)getpid() << 32) | 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (len > size)
        die("more is written at a time than there is data");
    return data + (state >> 33) % ((size - len) / 4096 + 1) * 4096;
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        die(name);
    return found;
}

/* libnbd's completion callbacks are passed by value, as three pointers. */
struct completion {
    void *call, *user, *free;
};

int64_t nbd_aio_pwrite(void *nbd, const void *buf, size_t len, uint64_t offset, struct completion completion, uint32_t flags)
{
    static int64_t (*real)(void *, const void *, size_t, uint64_t, struct completion, uint32_t);
    (void)buf;
    if (!real)
        real = next("nbd_aio_pwrite");
    return real(nbd, some(len), len, offset, completion, flags);
}

/* libaio's request has the kernel's layout. */
int io_submit(void *context, long count, struct iocb *requests[])
{
    static int (*real)(void *, long, struct iocb **);
    if (!real)
        real = next("io_submit");
    for (long at = 0; at < count; at++)
        if (requests[at]->aio_lio_opcode == IOCB_CMD_PWRITE)
            requests[at]->aio_buf = (uintptr_t)some(requests[at]->aio_nbytes);
    return real(context, count, requests);
}

ssize_t pwrite(int file, const void *buf, size_t len, off_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    (void)buf;
    if (!real)
        real = next("pwrite");
    return real(file, some(len), len, offset);
}
