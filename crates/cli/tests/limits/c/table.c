#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static uint64_t *table;
static size_t words;
static uint64_t word(size_t i)
{
    uint64_t z = i + 0x9e3779b97f4a7c15;
    if (i % 64 >= 10)
        return i / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static int work(uint64_t number)
{
    for (size_t i = 0; i < words; i += 512)
        table[i + 7] += number;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < words; i++)
            if (table[i] != word(i) + (i % 512 == 7 ? number : 0)) {
                printf("wrong: process %d, word %zu\n", (int)number, i);
                fflush(stdout);
                return 1;
            }
    return 0;
}
int main(int argc, char **argv)
{
    int status, wrong = 0, children = atoi(argv[2]);
    words = strtoull(argv[1], NULL, 0) << 17;
    if ((table = malloc(words * sizeof *table)) == NULL)
        abort();
    for (size_t i = 0; i < words; i++)
        table[i] = word(i);
    for (int child = 1; child <= children; child++)
        if (fork() == 0)
            _exit(work(child * 1000));
    wrong = work(argc);
    while (wait(&status) > 0)
        wrong |= status;
    if (!wrong)
        puts("right");
    return wrong;
}
