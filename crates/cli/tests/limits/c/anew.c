#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static size_t words;
static uint64_t word(size_t i, uint64_t seed)
{
    uint64_t z = i + seed + 0x9e3779b97f4a7c15;
    if (i % 64 >= 10)
        return seed + i / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static uint64_t *filled(uint64_t seed)
{
    uint64_t *at = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    for (size_t i = 0; i < words; i++)
        at[i] = word(i, seed);
    return at;
}
static int is_wrong(const uint64_t *at, uint64_t seed)
{
    for (size_t i = 0; i < words; i++)
        if (at[i] != word(i, seed))
            return 1;
    return 0;
}
int main(int argc, char **argv)
{
    words = strtoull(argv[1], NULL, 0) << 17;
    uint64_t *own = filled(argc);
    int status = 0;
    for (uint64_t round = 1; round <= 4; round++) {
        if (fork() == 0) {
            munmap(own, words * 8);
            _exit(is_wrong(filled(round * 1000), round * 1000));
        }
        int one;
        wait(&one);
        status |= one;
    }
    if (status == 0 && !is_wrong(own, argc))
        puts("right");
    return 0;
}
