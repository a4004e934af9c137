/* Gets `argv[2]` MiB in the way that `argv[1]` names, in pieces that are filled at once, and checks them. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define PIECE ((size_t)256 << 10)
static uint64_t word(size_t i)
{
    return i % 8 != 0 ? i / 512 : i * 0x9e3779b97f4a7c15;
}
/* The last mapping, which some ways enlarge, and how many pieces it has. */
static char *last;
static size_t pieces;
static char *by_mremap(int by_number)
{
    if (pieces == 0)
        last = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (by_number)
        last = (char *)syscall(SYS_mremap, last, pieces * PIECE, (pieces + 1) * PIECE, MREMAP_MAYMOVE);
    else
        last = mremap(last, pieces * PIECE, (pieces + 1) * PIECE, MREMAP_MAYMOVE);
    return last == MAP_FAILED ? NULL : last + pieces++ * PIECE;
}
static char *get(const char *way)
{
    if (strcmp(way, "sbrk") == 0)
        return sbrk(PIECE);
    if (strcmp(way, "brk") == 0) {
        char *end = sbrk(0);
        return brk(end + PIECE) == 0 ? end : NULL;
    }
    if (strcmp(way, "memalign") == 0)
        return memalign(256, PIECE);
    if (strcmp(way, "valloc") == 0)
        return valloc(PIECE);
    if (strcmp(way, "pvalloc") == 0)
        return pvalloc(PIECE);
    if (strcmp(way, "reallocarray") == 0)
        return reallocarray(NULL, 256, PIECE / 256);
    if (strcmp(way, "mremap") == 0)
        return by_mremap(0);
    if (strcmp(way, "syscall mremap") == 0)
        return by_mremap(1);
    if (strcmp(way, "syscall mmap") == 0)
        return (char *)syscall(SYS_mmap, NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                               0);
    return NULL;
}
int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t count = strtoull(argv[2], NULL, 0) * 4, words = PIECE / sizeof(uint64_t);
    uint64_t **all = calloc(count, sizeof *all);
    for (size_t piece = 0; piece < count; piece++) {
        all[piece] = (uint64_t *)(((size_t)get(argv[1]) + 7) & ~(size_t)7);
        if (all[piece] == NULL)
            return 3;
        for (size_t i = 0; i + 1 < words; i++)
            all[piece][i] = word(piece * words + i);
    }
    for (size_t piece = 0; piece < count; piece++)
        for (size_t i = 0; i + 1 < words; i++)
            if ((pieces != 0 ? (uint64_t *)(last + piece * PIECE) : all[piece])[i] != word(piece * words + i))
                return 1;
    puts("right");
    return 0;
}
