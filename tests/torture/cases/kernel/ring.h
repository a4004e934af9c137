/* Just enough of io_uring, by raw system calls: one thread submits, waits and reaps. */
#ifndef TORTURE_RING_H
#define TORTURE_RING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct uring {
    int fd;
    unsigned entries;
    struct io_uring_sqe *sqes;
    void *rings;
    size_t rings_length;
    _Atomic unsigned *sq_tail, *cq_head, *cq_tail;
    unsigned *sq_array, sq_mask, cq_mask;
    struct io_uring_cqe *cqes;
    unsigned waiting; /* submitted, not reaped */
};

/* False, with errno, if there is no io_uring here. */
bool uring_make(struct uring *uring, unsigned entries);
void uring_drop(struct uring *uring);

/* Registers buffers, which pins their pages as long as the ring exists. False if refused. */
bool uring_register(struct uring *uring, const struct iovec *buffers, unsigned count);

/* Queues one request and submits it. `buffer` below 0 means that the buffer is not registered. */
void uring_submit(struct uring *uring, int opcode, int fd, void *at, size_t length, uint64_t offset, int buffer,
                  uint64_t tag);

/* Waits for one completion and returns its result; *tag says which request it was. */
int uring_reap(struct uring *uring, uint64_t *tag);

#endif
