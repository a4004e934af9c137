/*
 * Shared by memeater and touch: pages of known kinds, sizes on the command line, clocks.
 *
 * A loaded page is a source page (from a file, or made) with two stamp words in it, so that every page of the
 * load is unique, and a page that is restored in another's place is recognised:
 *
 *   word 2 + h % 500         page number, mixed with the seed
 *   word 2 + (h >> 32) % 500 its complement (h: a hash of the page number)
 *
 * Words 0 and 1 belong to the user of the page (touch counts its writes there).
 */
#ifndef TORTURE_LOAD_H
#define TORTURE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

#define PAGE ((size_t)4096)
#define PAGE_WORDS (PAGE / 8)

struct source {
    const uint8_t *files[32]; /* mapped, shared: no private memory of this process */
    size_t file_pages[32];
    size_t file_count, all_pages;
    unsigned random, zero, half; /* percent of made pages; the rest is text */
    uint64_t seed;
};

/* Adds a file (its pages are used round-robin over all files); reads "random=20,zero=10,half=30". */
void source_add_file(struct source *source, const char *path);
void source_parse_mix(struct source *source, const char *text);

/* The bytes of page `number` of the load, words 0 and 1 included as they are in the source. */
void source_page(const struct source *source, uint64_t number, uint64_t out[PAGE_WORDS]);

/* A word of the stamp and its value; false for a zero page, which has no stamp. */
bool source_stamp(const struct source *source, uint64_t number, size_t *word, uint64_t *value);

/* Ends the program with status 2 (wrong usage) or 1 (anything else). */
_Noreturn void die_usage(const char *what, const char *value);
_Noreturn void die(const char *what);

uint64_t parse_number(const char *text, const char *name);
size_t parse_size(const char *text);

double wall_seconds(void);
/* User and system time of the process so far. */
void cpu_seconds(double *user, double *sys);

/* Runs `run(index, shared)` in `count` threads and waits for all. */
void in_threads(unsigned count, void (*run)(unsigned index, void *shared), void *shared);

#endif
