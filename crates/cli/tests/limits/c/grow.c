#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define BLOCKS 4096
#define WORDS (1 << 17)
static uint64_t *blocks[BLOCKS];
static size_t wanted, noise, next;
static uint64_t word(size_t block, size_t i)
{
    uint64_t z = block * WORDS + i + 0x9e3779b97f4a7c15;
    if (i % 64 >= noise)
        return (block * WORDS + i) / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static void *fill(void *unused)
{
    for (size_t block; (block = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < wanted;) {
        uint64_t *at = malloc(WORDS * sizeof *at);
        if (at == NULL)
            abort();
        for (size_t i = 0; i < WORDS; i++)
            at[i] = word(block, i);
        blocks[block] = at;
    }
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t threads[2];
    wanted = strtoull(argv[1], NULL, 0);
    noise = strtoull(argv[2], NULL, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, fill, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (size_t block = 0; block < wanted; block++)
        for (size_t i = 0; i < WORDS; i++)
            if (blocks[block][i] != word(block, i)) {
                printf("wrong: block %zu, word %zu\n", block, i);
                return 1;
            }
    puts("right");
    return argc == 0;
}
