#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    size_t bytes = strtoull(argv[1], NULL, 0) << 20, done = 0;
    FILE *file = tmpfile();
    if (ftruncate(fileno(file), bytes))
        return 2;
    for (uint64_t page = 0; page < bytes / 4096; page += 7)
        if (pwrite(fileno(file), &page, 8, page * 4096 + 2040) != 8)
            return puts("no room for the file"), 2;
    char *at = malloc(bytes);
    if (argc > 3) {
        memset(at, 1, bytes / 3);
        for (int piece = 0; piece < atoi(argv[2]) * 16; piece++)
            memset(malloc(65000), 1, 65000);
        sleep(atoi(argv[3]));
    }
    for (ssize_t got; done < bytes && (got = pread(fileno(file), at + done, bytes - done, done)) > 0; done += got) {
    }
    for (size_t page = 0; page < bytes / 4096; page++)
        if (*(uint64_t *)(at + page * 4096 + 2040) != (page % 7 ? 0 : page))
            return printf("wrong: page %zu\n", page);
    puts("right");
    return done != bytes;
}
