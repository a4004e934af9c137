/* Raw io_uring; see uring.h. */
#include "torture.h"
#include "ring.h"

#include <sys/syscall.h>

bool uring_make(struct uring *uring, unsigned entries)
{
    struct io_uring_params params = { 0 };
    memset(uring, 0, sizeof *uring);
    uring->fd = (int)syscall(SYS_io_uring_setup, entries, &params);
    if (uring->fd < 0)
        return false;
    if (!(params.features & IORING_FEAT_SINGLE_MMAP)) {
        close(uring->fd);
        errno = ENOSYS;
        return false;
    }
    size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    uring->entries = params.sq_entries;
    uring->rings_length = sq > cq ? sq : cq;
    uint8_t *rings = must(mmap(NULL, uring->rings_length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                               uring->fd, IORING_OFF_SQ_RING));
    uring->sqes = must(mmap(NULL, params.sq_entries * sizeof *uring->sqes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_SQES));
    uring->rings = rings;
    uring->sq_tail = (_Atomic unsigned *)(rings + params.sq_off.tail);
    uring->sq_mask = *(unsigned *)(rings + params.sq_off.ring_mask);
    uring->sq_array = (unsigned *)(rings + params.sq_off.array);
    uring->cq_head = (_Atomic unsigned *)(rings + params.cq_off.head);
    uring->cq_tail = (_Atomic unsigned *)(rings + params.cq_off.tail);
    uring->cq_mask = *(unsigned *)(rings + params.cq_off.ring_mask);
    uring->cqes = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
    return true;
}

void uring_drop(struct uring *uring)
{
    munmap(uring->rings, uring->rings_length);
    munmap(uring->sqes, uring->entries * sizeof *uring->sqes);
    close(uring->fd);
}

bool uring_register(struct uring *uring, const struct iovec *buffers, unsigned count)
{
    return syscall(SYS_io_uring_register, uring->fd, IORING_REGISTER_BUFFERS, buffers, count) == 0;
}

void uring_submit(struct uring *uring, int opcode, int fd, void *at, size_t length, uint64_t offset, int buffer,
                  uint64_t tag)
{
    unsigned tail = atomic_load(uring->sq_tail), index = tail & uring->sq_mask;
    struct io_uring_sqe *sqe = &uring->sqes[index];
    if (uring->waiting == uring->entries)
        fail("too many io_uring requests at once");
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = (uint8_t)opcode;
    sqe->fd = fd;
    sqe->addr = (uintptr_t)at;
    sqe->len = (uint32_t)length;
    sqe->off = offset;
    sqe->user_data = tag;
    if (buffer >= 0)
        sqe->buf_index = (uint16_t)buffer;
    uring->sq_array[index] = index;
    atomic_store(uring->sq_tail, tail + 1);
    long n;
    do {
        n = syscall(SYS_io_uring_enter, uring->fd, 1, 0, 0, NULL, 0);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EBUSY));
    if (n != 1)
        fail_errno("io_uring_enter gave %ld", n);
    uring->waiting++;
    move_on();
}

int uring_reap(struct uring *uring, uint64_t *tag)
{
    unsigned head = atomic_load(uring->cq_head);
    while (head == atomic_load(uring->cq_tail))
        if (syscall(SYS_io_uring_enter, uring->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 && errno != EINTR &&
            errno != EAGAIN && errno != EBUSY)
            fail_errno("io_uring_enter");
    struct io_uring_cqe *cqe = &uring->cqes[head & uring->cq_mask];
    int result = cqe->res;
    *tag = cqe->user_data;
    atomic_store(uring->cq_head, head + 1);
    uring->waiting--;
    move_on();
    return result;
}
