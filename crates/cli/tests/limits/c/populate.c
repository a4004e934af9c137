#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    size_t bytes = strtoull(argv[1], NULL, 0) << 20;
    for (size_t round = 0; round < 3; round++) {
        uint64_t *at =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (at == MAP_FAILED)
            return 2;
        for (size_t i = 0; i < bytes / 8; i++) {
            if (at[i] != 0)
                return 3;
            at[i] = i / 16 * 7 + round;
        }
        for (size_t i = 0; i < bytes / 8; i++)
            if (at[i] != i / 16 * 7 + round)
                return 4;
        munmap(at, bytes);
    }
    puts("right");
    return argc == 0;
}
