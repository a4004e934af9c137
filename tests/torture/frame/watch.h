/* The watchdog: a process of its own that ends the run when a thread of it stops moving. */
#ifndef TORTURE_WATCH_H
#define TORTURE_WATCH_H

#include <sys/types.h>

/* Starts it for this process. */
void watch_start(void);

/* What it does: watches `pid` until that ends or the board says finished. */
int watch_main(pid_t pid);

#endif
