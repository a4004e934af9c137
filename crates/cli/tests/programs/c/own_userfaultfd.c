#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { PAGES = 6000, LAZY = 4000 };
static int own;
static uint64_t *lazy;
static void fill(uint64_t *page, uint64_t seed)
{
    for (int i = 0; i < 512; i++)
        page[i] = seed * 77 + i / 9;
}
static int is_right(const uint64_t *page, uint64_t seed)
{
    for (int i = 0; i < 512; i++)
        if (page[i] != seed * 77 + i / 9)
            return 0;
    return 1;
}
static void *serve(void *nothing)
{
    static uint64_t page[512] __attribute__((aligned(4096)));
    struct uffd_msg message;
    while (read(own, &message, sizeof message) == sizeof message) {
        uint64_t at = message.arg.pagefault.address & ~4095ul;
        fill(page, at - (uint64_t)lazy);
        struct uffdio_copy copy = {.dst = at, .src = (uint64_t)page, .len = 4096};
        ioctl(own, UFFDIO_COPY, &copy);
    }
    return nothing;
}
static uint64_t *area(size_t pages)
{
    return mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(int argc, char **argv)
{
    uint64_t *heap = area(PAGES);
    for (int i = 0; i < PAGES; i++)
        fill(heap + i * 512, i);
    own = argc > 1 ? open("/dev/userfaultfd", O_RDWR) : syscall(SYS_userfaultfd, O_CLOEXEC);
    if (argc > 1)
        own = ioctl(own, USERFAULTFD_IOC_NEW, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (own < 0 || ioctl(own, UFFDIO_API, &api))
        return puts("no userfaultfd") && 2;
    lazy = area(LAZY);
    usleep(100000);
    struct uffdio_register fresh = {{(uint64_t)lazy, LAZY * 4096ul}, UFFDIO_REGISTER_MODE_MISSING};
    struct uffdio_register used = {{(uint64_t)heap, PAGES * 4096ul}, UFFDIO_REGISTER_MODE_WP};
    if (ioctl(own, UFFDIO_REGISTER, &fresh) || ioctl(own, UFFDIO_REGISTER, &used))
        return puts(strerror(errno)) && 3;
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    int wrong = 0;
    for (int i = 0; i < LAZY; i++)
        wrong += !is_right(lazy + i * 512, i * 4096ul);
    for (int i = 0; i < PAGES; i++)
        wrong += !is_right(heap + i * 512, i);
    puts(wrong ? "wrong" : "right");
    return wrong != 0;
}
