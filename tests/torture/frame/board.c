/* Slots on the shared board; see board.h. */
#include "torture.h"

#include <sys/syscall.h>

/* Used for moves before the board exists, and in threads without a slot. */
static struct slot nowhere;

struct board *board;
int board_fd = -1;
__thread struct slot *me = &nowhere;

void board_join(int fd)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED) {
        perror("torture: cannot map the board");
        exit(1);
    }
    board_fd = fd;
}

void board_make(void)
{
    int fd = memfd_create("torture-board", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct board)) != 0) {
        perror("torture: cannot make the board");
        exit(1);
    }
    board_join(fd);
}

static void copy_name(char *to, size_t size, const char *from)
{
    /* Others may read at any time, so the last byte stays zero. */
    size_t i = 0;
    for (; from[i] && i + 1 < size; i++)
        to[i] = from[i];
    to[i] = 0;
}

struct slot *slot_take(const char *kind)
{
    uint32_t pid = (uint32_t)getpid();
    for (unsigned i = 0; i < BOARD_SLOTS; i++) {
        struct slot *slot = &board->slots[i];
        uint32_t nobody = 0;
        if (atomic_load_explicit(&slot->pid, memory_order_relaxed) != 0)
            continue;
        if (!atomic_compare_exchange_strong(&slot->pid, &nobody, pid))
            continue;
        atomic_store(&slot->tid, 0);
        copy_name(slot->kind, sizeof slot->kind, kind);
        copy_name(slot->step, sizeof slot->step, "about to start");
        return slot;
    }
    fail("the board is full: more than %d threads at once", BOARD_SLOTS);
}

void slot_become(struct slot *slot)
{
    atomic_store(&slot->pid, (uint32_t)getpid());
    atomic_store(&slot->tid, (uint32_t)syscall(SYS_gettid));
    me = slot;
    move_on();
}

void slot_release(struct slot *slot)
{
    if (me == slot)
        me = &nowhere;
    atomic_store(&slot->pid, 0);
}

unsigned slot_index(const struct slot *slot)
{
    return (unsigned)(slot - board->slots);
}

struct slot *slot_at(unsigned index)
{
    return &board->slots[index % BOARD_SLOTS];
}

void step(const char *what)
{
    copy_name(me->step, sizeof me->step, what);
    move_on();
}
