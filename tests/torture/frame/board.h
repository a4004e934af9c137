/*
 * The board: one shared mapping with a slot for every thread of every process of the run.
 *
 * A thread writes into its slot in which case and step it is, and counts its moves. The watchdog, a process
 * of its own, reads them. The board is a memfd mapped MAP_SHARED, so that forked and executed children write
 * into the same board, and failures of the memory under test (private anonymous memory) cannot destroy the
 * evidence.
 */
#ifndef TORTURE_BOARD_H
#define TORTURE_BOARD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define BOARD_SLOTS 1024

struct slot {
    _Atomic uint32_t pid; /* 0: free */
    _Atomic uint32_t tid;
    _Atomic uint64_t moves;
    char kind[24]; /* which case */
    char step[72]; /* where in it */
};

struct board {
    _Atomic uint32_t failed;   /* a failure was described already */
    _Atomic uint32_t finished; /* the run is over; the watchdog may go */
    _Atomic uint64_t ops;
    struct slot slots[BOARD_SLOTS];
};

extern struct board *board;
extern int board_fd;
extern __thread struct slot *me;

/* Makes a new board, or maps the one whose descriptor a parent process passed on. */
void board_make(void);
void board_join(int fd);

/* Takes a slot for a future thread or child; makes it the calling thread's; releases it. */
struct slot *slot_take(const char *kind);
void slot_become(struct slot *slot);
void slot_release(struct slot *slot);
unsigned slot_index(const struct slot *slot);
struct slot *slot_at(unsigned index);

/* "I am here": names the step, and moves. */
void step(const char *what);

/* "I am still moving": cheap enough for every page. */
static inline void move_on(void)
{
    atomic_store_explicit(&me->moves, atomic_load_explicit(&me->moves, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

#endif
