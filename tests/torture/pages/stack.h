/*
 * Stacks with data on them that is worth checking: recursion that leaves pages of known contents in
 * every frame, calls something at the bottom, and verifies all frames on the way back.
 */
#ifndef TORTURE_STACK_H
#define TORTURE_STACK_H

#include <stdint.h>

/*
 * Goes `depth` frames deep, each of one to several pages of data derived from `id`, calls
 * `bottom(arg)` there (may be NULL), and comes back checking. Returns a sum over all frames, which
 * is the same for the same id and depth.
 */
uint64_t stack_dive(uint64_t id, unsigned depth, void (*bottom)(void *arg), void *arg);

/* One frame of `length` bytes at once, touched from its far end: jumps over many pages. */
void stack_big_frame(uint64_t id, size_t length);

#endif
