/* Errors of a program that uses compll, built with COMPLL_NOLIB.
 *
 * usage: nolib_faults 0 (none) | 1 (writes past a node) | 2 (reads a freed node) | 3 (leaks nodes) */
#include <compll.h>

#include <stdlib.h>

static void lose(void) {
    for (int i = 0; i < 100; i++) {
        volatile compll_t lost = compll_alloc(8);
        (void)lost;
    }
}

int main(int count, char **arguments) {
    volatile int fault = count > 1 ? atoi(arguments[1]) : 0, at = fault == 1 ? 4 : 3;
    if (compll_init(1024, 8, 1, no_such_callback, no_such_callback) != 0) return 2;
    compll_t node = compll_alloc(sizeof(int) * 4);
    ((volatile int *)compll_write(node))[at] = 0;
    if (fault == 2) compll_free(node);
    int last = ((const volatile int *)compll_read(node))[3];
    if (fault != 2) compll_free(node);
    if (fault == 3) lose();
    return last;
}
