/* CRAMES's memeater (section 6.2): requests memory in blocks of a MiB, and fills it with random values mixed with runs of zeros. This one knows when
   to stop, looks at all of it again, page by page in another order, and says how it went.

   memeater MIB ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { BLOCK = 1 << 20, PAGE = 4096 };

static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Word i of page p in round r: of eight words about three are random, three are zero and two are small. */
static uint64_t word(uint64_t p, unsigned i, unsigned r)
{
    uint64_t kind = mixed(p * 64 + i / 8 + r * 0x10001) & 7;
    uint64_t value = mixed(p * 512 + i + r * 0x7654321);
    return kind < 3 ? value : kind < 6 ? 0 : value & 0xffff;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    size_t blocks = argc > 1 ? strtoul(argv[1], 0, 0) : 64;
    unsigned rounds = argc > 2 ? strtoul(argv[2], 0, 0) : 1;
    uint64_t **all = calloc(blocks, sizeof *all);
    size_t pages = blocks * (BLOCK / PAGE);
    double begun = now();
    for (unsigned r = 0; r < rounds; r++) {
        for (size_t b = 0; b < blocks; b++) {
            if (!all[b]) {
                all[b] = mmap(0, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (all[b] == MAP_FAILED) {
                    printf("refused after %zu MiB\n", b);
                    return 2;
                }
            }
            for (size_t p = 0; p < BLOCK / PAGE; p++)
                for (unsigned i = 0; i < 512; i++)
                    all[b][p * 512 + i] = word(b * (BLOCK / PAGE) + p, i, r);
        }
        /* Visit the pages with a step that reaches all of them. */
        size_t step = pages / 3 * 2 + 1;
        while (pages % step == 0 || (step % 2 == 0 && pages % 2 == 0))
            step++;
        for (size_t n = 0, p = 0; n < pages; n++, p = (p + step) % pages)
            for (unsigned i = 0; i < 512; i++)
                if (all[p / (BLOCK / PAGE)][p % (BLOCK / PAGE) * 512 + i] != word(p, i, r)) {
                    printf("page %zu is not what was written\n", p);
                    return 1;
                }
    }
    printf("%zu MiB, %u rounds, %.2f s\n", blocks, rounds, now() - begun);
    return 0;
}
