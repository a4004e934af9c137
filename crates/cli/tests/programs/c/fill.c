#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define WORDS (40 << 17)
int main(int argc, char **argv)
{
    unsigned long *at = malloc(WORDS * 8);
    for (long i = 0; i < WORDS; i++)
        at[i] = i / 512 * 2654435761u + i % 512 / 8;
    for (int round = 0; round < 3; round++)
        for (long i = 0; i < WORDS; i++)
            if (at[i] != i / 512 * 2654435761u + i % 512 / 8)
                return puts("wrong");
    puts("right");
    fflush(stdout);
    if (argc > 1)
        sleep(atoi(argv[1]));
    return 0;
}
