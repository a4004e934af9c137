/*
 * share MIB CHILDREN read|write: fills MIB, of which three of eight words cannot be compressed, and forks
 * children. They sleep for a second. Then they read all of it, while the parent has filled a fifth more; or
 * each writes a word to every page, holds that for a second, and reads all of it. Prints "right" if everybody
 * saw what they should.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE_WORDS = 512 };

static uint64_t word(size_t index)
{
    uint64_t z = index + 0x9e3779b97f4a7c15;
    if (index % 64 >= 24)
        return index / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t *filled(size_t count)
{
    uint64_t *at = malloc(count * 8);
    if (at == NULL)
        abort();
    for (size_t index = 0; index < count; index++)
        at[index] = word(index);
    return at;
}

/* `more`: what was added to one word of each page. */
static int is_wrong(const uint64_t *at, size_t count, uint64_t more)
{
    for (size_t index = 0; index < count; index++)
        if (at[index] != word(index) + (index % PAGE_WORDS == 7 ? more : 0))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t count = strtoull(argv[1], NULL, 0) << 17;
    int writes = strcmp(argv[3], "write") == 0;
    uint64_t *all = filled(count);
    for (int child = 1; child <= atoi(argv[2]); child++)
        if (fork() == 0) {
            sleep(1);
            uint64_t more = 0;
            if (writes) {
                more = (uint64_t)child;
                for (size_t index = 7; index < count; index += PAGE_WORDS)
                    all[index] += more;
                sleep(1);
            }
            _exit(is_wrong(all, count, more));
        }
    size_t further = writes ? 0 : count / 5;
    uint64_t *fresh = filled(further);
    int status = 0, one;
    while (wait(&one) > 0)
        status |= one;
    if (status == 0 && !is_wrong(all, count, 0) && !is_wrong(fresh, further, 0))
        puts("right");
    return 0;
}
