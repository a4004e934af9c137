/* Data on stacks; see stack.h. */
#include "torture.h"
#include "stack.h"

#include <alloca.h>

/*
 * Not inlined, and with volatile data, so that every frame is really in memory. Only the page's key is kept
 * in registers across the call below.
 */
__attribute__((noinline)) uint64_t stack_dive(uint64_t id, unsigned depth, void (*bottom)(void *arg), void *arg)
{
    size_t length = PAGE + mix64(id ^ depth) % (2 * PAGE);
    uint8_t *frame = alloca(length);
    bytes_make(frame, length, id, depth + 1);
    /* The compiler must not assume that it knows the contents. */
    __asm__ volatile("" : : "r"(frame) : "memory");
    uint64_t below = 0;
    if (depth > 0)
        below = stack_dive(mix64(id), depth - 1, bottom, arg);
    else if (bottom)
        bottom(arg);
    bytes_check(frame, length, id, depth + 1);
    uint64_t word;
    memcpy(&word, frame + length - sizeof word, sizeof word);
    return below * 31 + word;
}

__attribute__((noinline)) void stack_big_frame(uint64_t id, size_t length)
{
    uint8_t *frame = alloca(length);
    __asm__ volatile("" : : "r"(frame) : "memory");
    /* alloca itself touches nothing; write from both ends to the middle. */
    struct page_key low = { id, 0, 1, 0 }, high = { id, 1, 1, 0 };
    uint64_t made[PAGE_WORDS];
    page_make(made, low);
    memcpy(frame, made, PAGE);
    page_make(made, high);
    memcpy(frame + length - PAGE, made, PAGE);
    __asm__ volatile("" : : "r"(frame) : "memory");
    bytes_make(frame + PAGE, length - 2 * PAGE, id, 2);
    page_check(frame, low, PAGE);
    page_check(frame + length - PAGE, high, PAGE);
    bytes_check(frame + PAGE, length - 2 * PAGE, id, 2);
}
