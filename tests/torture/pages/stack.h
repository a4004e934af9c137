/*
 * Stacks with data to verify: recursion that leaves pages of known contents in every frame, calls a function
 * at the bottom, and verifies all frames on the way back.
 */
#ifndef TORTURE_STACK_H
#define TORTURE_STACK_H

#include <stdint.h>

/*
 * Recurses `depth` frames deep, each with one or several pages of data derived from `id`, calls `bottom(arg)`
 * there (it may be NULL), and checks the frames on the way back. Returns a sum over all frames, which is the
 * same for the same id and depth.
 */
uint64_t stack_dive(uint64_t id, unsigned depth, void (*bottom)(void *arg), void *arg);

/* One frame of `length` bytes, touched from its far end, so that the stack skips many pages. */
void stack_big_frame(uint64_t id, size_t length);

#endif
