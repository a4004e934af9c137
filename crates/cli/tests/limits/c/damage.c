#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define PAGES 1024
#define MORE ((size_t)160 << 20)
static uint64_t page_word(size_t page, size_t i)
{
    uint64_t z = page * 512 + i + 0x9e3779b97f4a7c15;
    if (i >= 384)
        return 1;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
int main(void)
{
    uint64_t *noise = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *more = mmap(NULL, MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < PAGES * 512; i++)
        noise[i] = page_word(i / 512, i % 512);
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < MORE / 8; i++)
            more[i] = i / 16 + round;
    int pagemap = open("/proc/self/pagemap", O_RDONLY), memory = open("/proc/self/mem", O_RDWR);
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t entry;
        if (pread(pagemap, &entry, 8, ((uintptr_t)noise / 4096 + page) * 8) != 8)
            return 3;
        if (entry >> 63)
            continue;
        /* In the middle of the page; made anew where no other copy is left of it. */
        size_t found = 0;
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512];
        while (fgets(line, sizeof line, maps)) {
            uintptr_t start, end;
            char mode[8];
            if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[0] != 'r' || mode[1] != 'w')
                continue;
            if (strstr(line, "stack") || strstr(line, "heap") || start == (uintptr_t)noise || start == (uintptr_t)more)
                continue;
            static char buffer[1 << 16];
            for (uintptr_t at = start; at < end; at += sizeof buffer) {
                size_t length = end - at < sizeof buffer ? end - at : sizeof buffer;
                /* The buffers of this very search are not copies. */
                if (at < (uintptr_t)buffer + sizeof buffer && (uintptr_t)buffer < at + length)
                    continue;
                if (pread(memory, buffer, length, at) != (ssize_t)length)
                    continue;
                uint64_t first = page_word(page, 256), second = page_word(page, 257);
                for (size_t i = 0; i + 16 <= length; i++)
                    if (memcmp(buffer + i, &first, 8) == 0 && memcmp(buffer + i + 8, &second, 8) == 0) {
                        char changed = buffer[i] ^ 4;
                        if (pwrite(memory, &changed, 1, at + i) == 1)
                            found++;
                    }
            }
        }
        fclose(maps);
        fprintf(stderr, "page %zu: %zu copies\n", page, found);
        if (found != 1)
            continue;
        uint64_t got = noise[page * 512 + 256];
        printf("%s\n", got == page_word(page, 256) ? "as it was" : "a wrong word");
        return 4;
    }
    puts("no page was away");
    return 5;
}
