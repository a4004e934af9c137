#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
enum { BYTES = 60 << 20 };
static void deep(int left)
{
    volatile char here[4096];
    memset((void *)here, left, sizeof here);
    if (left > 0)
        deep(left - 1);
    else
        usleep(900000);
    here[0]++;
}
int main(int argc, char **argv)
{
    int access = PROT_READ | PROT_WRITE;
    if (argv[1][0] == 'd')
        return deep(BYTES / 4200), 0;
    if (argv[1][0] == 'f') {
        int file = open(argv[2], O_RDWR | O_CREAT, 0600);
        if (ftruncate(file, BYTES))
            return 2;
        memset(mmap(NULL, BYTES, access, MAP_PRIVATE, file, 0), 1, BYTES);
    } else {
        char *at = mmap(NULL, BYTES * 2, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (long i = 0; i < BYTES * 2l; i += 32768) {
            mprotect(at + i + 16384, 16384, PROT_NONE);
            memset(at + i, 1, 16384);
        }
    }
    usleep(900000);
    return 0;
}
