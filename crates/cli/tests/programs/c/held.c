/* Fills 40 MiB, prints its process id and their address, waits for a line, and checks them. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
enum { WORDS = 40 << 17 };
int main(void)
{
    uint64_t *at = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < WORDS; i++)
        at[i] = i / 512 * 2654435761u + i % 512 / 8;
    printf("%d %p\n", getpid(), (void *)at);
    fflush(stdout);
    getchar();
    for (long i = 0; i < WORDS; i++)
        if (at[i] != i / 512 * 2654435761u + i % 512 / 8)
            return puts("wrong");
    puts("right");
    return 0;
}
