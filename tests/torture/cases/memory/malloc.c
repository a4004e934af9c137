/*
 * malloc: storms of malloc, calloc, aligned_alloc, realloc and free, from 16 bytes up to 64 MiB,
 * so that brk, arenas, mmap and mremap are all used. Every byte of every block is verified before
 * the block is changed or freed. Trials move between threads, so blocks are often freed by another
 * thread than the one that made them.
 */
#include "torture.h"

#include <malloc.h>

#define BLOCKS 256
#define GIANT ((size_t)64 << 20)

struct block {
    uint8_t *at;
    size_t size;
    uint64_t id;
    uint32_t version;
};

struct heap {
    size_t used;
    struct block blocks[BLOCKS];
};

/* Only one block of tens of MiB in the process at a time: more would exceed --memory. */
static _Atomic bool giant_taken;

static void setup(struct trial *trial)
{
    trial_alloc(trial, sizeof(struct heap));
}

/* Equally many sizes in each power of two. */
static size_t pick_size(struct trial *trial)
{
    struct heap *heap = trial->state;
    size_t left = trial->bytes > heap->used ? trial->bytes - heap->used : 0;
    size_t size = (size_t)16 << rng_below(&trial->rng, 19);
    size += rng_below(&trial->rng, size);
    return size < left ? size : 16 + rng_below(&trial->rng, 4096);
}

static void fill(struct trial *trial, struct block *block)
{
    block->version++;
    bytes_make(block->at, block->size, block->id, block->version);
    (void)trial;
}

static void verify(const struct block *block)
{
    bytes_check(block->at, block->size, block->id, block->version);
}

static void allocate(struct trial *trial, struct block *block)
{
    struct heap *heap = trial->state;
    size_t size = pick_size(trial);
    block->id = rng_next(&trial->rng);
    block->version = 0;
    block->size = size;
    switch (rng_below(&trial->rng, 4)) {
    case 0:
        block->at = calloc(1, size);
        if (block->at)
            zeros_check(block->at, size, "calloc gives zeros");
        break;
    case 1: {
        size_t align = (size_t)32 << rng_below(&trial->rng, 10);
        block->at = aligned_alloc(align, (size + align - 1) / align * align);
        if (block->at && (uintptr_t)block->at % align)
            fail("aligned_alloc(%zu) gave %p", align, (void *)block->at);
        break;
    }
    default:
        block->at = malloc(size);
    }
    if (block->at == NULL)
        fail_errno("allocation of %zu bytes", size);
    heap->used += size;
    fill(trial, block);
}

static void release(struct trial *trial, struct block *block)
{
    struct heap *heap = trial->state;
    verify(block);
    free(block->at);
    heap->used -= block->size;
    block->at = NULL;
}

static void resize(struct trial *trial, struct block *block)
{
    struct heap *heap = trial->state;
    size_t size = rng_chance(&trial->rng, 50) ? pick_size(trial)
                                              : block->size / 2 + rng_below(&trial->rng, block->size) + 1;
    if (size > block->size && heap->used + size > trial->bytes + (1 << 20))
        size = block->size / 2 + 1;
    size_t common = size < block->size ? size : block->size;
    uint8_t *at = realloc(block->at, size);
    if (at == NULL)
        fail_errno("realloc of %zu to %zu bytes", block->size, size);
    block->at = at;
    heap->used = heap->used - block->size + size;
    block->size = common;
    verify(block);
    block->size = size;
    fill(trial, block);
}

/* Grows by doubling as a vector does, up to 64 MiB, and shrinks again: mremap of huge blocks. */
static void giant(struct trial *trial)
{
    size_t most = options.memory / 4 < GIANT ? options.memory / 4 : GIANT;
    struct block block = { .id = rng_next(&trial->rng), .size = 1 << 20 };
    if (atomic_exchange(&giant_taken, true))
        return;
    step("giant block");
    block.at = malloc(block.size);
    if (block.at == NULL)
        fail_errno("malloc of 1 MiB");
    fill(trial, &block);
    while (block.size < most) {
        size_t before = block.size;
        size_t size = before * 2 < most ? before * 2 : most;
        block.at = realloc(block.at, size);
        if (block.at == NULL)
            fail_errno("realloc to %zu bytes", size);
        /* Only the new part is filled: the old part must have been moved along. */
        for (size_t done = before; done < size; done += PAGE) {
            struct page_key key = { block.id, done / PAGE, block.version, 0 };
            uint64_t made[PAGE_WORDS];
            page_make(made, key);
            memcpy(block.at + done, made, size - done < PAGE ? size - done : PAGE);
            move_on();
        }
        block.size = size;
    }
    verify(&block);
    block.size = (1 << 20) + 5000;
    block.at = realloc(block.at, block.size);
    if (block.at == NULL)
        fail_errno("realloc to a smaller size");
    verify(&block);
    free(block.at);
    atomic_store(&giant_taken, false);
}

static void op(struct trial *trial)
{
    struct heap *heap = trial->state;
    if (trial->index == 0 && rng_chance(&trial->rng, 1)) {
        giant(trial);
        return;
    }
    step("storm");
    for (int i = 0; i < 25; i++) {
        struct block *block = &heap->blocks[rng_below(&trial->rng, BLOCKS)];
        unsigned roll = (unsigned)rng_below(&trial->rng, 100);
        if (block->at == NULL)
            allocate(trial, block);
        else if (roll < 35)
            release(trial, block);
        else if (roll < 60)
            resize(trial, block);
        else if (roll < 80)
            verify(block);
        else
            fill(trial, block);
    }
    if (rng_chance(&trial->rng, 5)) {
        step("malloc_trim");
        malloc_trim(0);
    }
}

static void check(struct trial *trial)
{
    struct heap *heap = trial->state;
    for (size_t i = 0; i < BLOCKS; i++)
        if (heap->blocks[i].at)
            verify(&heap->blocks[i]);
}

static void teardown(struct trial *trial)
{
    struct heap *heap = trial->state;
    for (size_t i = 0; i < BLOCKS; i++)
        if (heap->blocks[i].at)
            release(trial, &heap->blocks[i]);
    free(heap);
}

TORTURE_CASE(malloc) = {
    .name = "malloc",
    .about = "malloc, calloc, aligned_alloc, realloc and free, 16 B to 64 MiB",
    .weight = 40,
    .share = 12,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
