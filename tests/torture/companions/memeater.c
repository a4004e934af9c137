/*
 * memeater: how much memory is there? Like the program of that name in the CRAMES paper (section 6.2), it
 * requests memory in blocks of 1 MiB and fills each with unique pages, until it has the given amount or a
 * request fails; then it reads everything back and compares every byte.
 *
 * Prints lines for people on stderr and one JSON object on stdout. Exit status: 0 if everything that was
 * read back was right (and the amount was reached, if one was given), 1 if a byte was wrong, 3 if memory
 * ended before the amount.
 */
#include "load.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)
#define BLOCK_PAGES (BLOCK / PAGE)
#define BLOCKS_MOST ((size_t)1 << 20)

static struct eater {
    struct source source;
    size_t wanted;   /* blocks */
    bool unlimited;
    unsigned threads, rounds, hold;
    bool progress;
    _Atomic size_t next, filled, wrong;
    _Atomic bool refused;
} eater = { .threads = 1, .rounds = 1 };

/* Only the entries of blocks that are made are ever touched. */
static uint8_t *blocks[BLOCKS_MOST];

static void fill(unsigned index, void *shared)
{
    uint64_t page[PAGE_WORDS];
    (void)index;
    (void)shared;
    while (!atomic_load(&eater.refused)) {
        size_t block = atomic_fetch_add(&eater.next, 1);
        if (block >= eater.wanted)
            break;
        uint8_t *at = malloc(BLOCK);
        if (at == NULL) {
            atomic_store(&eater.refused, true);
            break;
        }
        for (size_t i = 0; i < BLOCK_PAGES; i++) {
            source_page(&eater.source, block * BLOCK_PAGES + i, page);
            memcpy(at + i * PAGE, page, PAGE);
        }
        blocks[block] = at;
        size_t filled = atomic_fetch_add(&eater.filled, 1) + 1;
        if (eater.progress && filled % 64 == 0)
            fprintf(stderr, "memeater: %zu MiB\n", filled);
    }
}

static void report_wrong(size_t number, const uint8_t *got, const uint64_t *expected)
{
    const uint8_t *wanted = (const uint8_t *)expected;
    size_t first = 0;
    while (got[first] == wanted[first] && first + 1 < PAGE)
        first++;
    fprintf(stderr, "memeater: WRONG page %zu at address %p, byte +%zu: got", number, (const void *)got, first);
    for (size_t i = first; i < first + 8 && i < PAGE; i++)
        fprintf(stderr, " %02x", got[i]);
    fprintf(stderr, ", expected");
    for (size_t i = first; i < first + 8 && i < PAGE; i++)
        fprintf(stderr, " %02x", wanted[i]);
    fprintf(stderr, " (seed %llu)\n", (unsigned long long)eater.source.seed);
}

static void verify(unsigned index, void *shared)
{
    uint64_t page[PAGE_WORDS];
    (void)index;
    (void)shared;
    for (;;) {
        size_t block = atomic_fetch_add(&eater.next, 1);
        if (block >= eater.wanted || block >= BLOCKS_MOST)
            break;
        /* With several threads, a refused block may come before granted ones. */
        if (blocks[block] == NULL)
            continue;
        for (size_t i = 0; i < BLOCK_PAGES; i++) {
            const uint8_t *got = blocks[block] + i * PAGE;
            source_page(&eater.source, block * BLOCK_PAGES + i, page);
            if (memcmp(got, page, PAGE) != 0 && atomic_fetch_add(&eater.wrong, 1) < 10)
                report_wrong(block * BLOCK_PAGES + i, got, page);
        }
    }
}

static const char usage[] =
    "usage: memeater [--amount SIZE] [--threads N] [--file FILE]... [--ratio MIX] [--rounds N]\n"
    "                [--hold SECONDS] [--seed N] [--progress]\n"
    "  --amount SIZE  how much to take; without it, until a request fails\n"
    "  --file FILE    pages of this file (may be given several times), each stamped; without it, made pages\n"
    "  --ratio MIX    made pages in percent: random=20,zero=10,half=30, the rest text; or just: random\n"
    "  --rounds N     how often to read everything back (1)\n"
    "  --hold N       seconds to wait between filling and reading back\n";

static void parse(int argc, char **argv)
{
    static const struct option names[] = {
        { "amount", 1, NULL, 'a' }, { "threads", 1, NULL, 't' },  { "file", 1, NULL, 'f' },
        { "ratio", 1, NULL, 'r' },  { "rounds", 1, NULL, 'n' },   { "hold", 1, NULL, 'h' },
        { "seed", 1, NULL, 's' },   { "progress", 0, NULL, 'p' }, { "help", 0, NULL, '?' + 128 },
        { NULL, 0, NULL, 0 },
    };
    int c;
    eater.unlimited = true;
    eater.wanted = BLOCKS_MOST;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'a':
            eater.wanted = (parse_size(optarg) + BLOCK - 1) / BLOCK;
            eater.unlimited = false;
            break;
        case 't': eater.threads = (unsigned)parse_number(optarg, "--threads"); break;
        case 'f': source_add_file(&eater.source, optarg); break;
        case 'r': source_parse_mix(&eater.source, optarg); break;
        case 'n': eater.rounds = (unsigned)parse_number(optarg, "--rounds"); break;
        case 'h': eater.hold = (unsigned)parse_number(optarg, "--hold"); break;
        case 's': eater.source.seed = parse_number(optarg, "--seed"); break;
        case 'p': eater.progress = true; break;
        case '?' + 128: fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc)
        die_usage("unexpected argument", argv[optind]);
    if (eater.threads < 1 || eater.threads > 256)
        die_usage("--threads must be 1 to 256", "");
    if (eater.wanted > BLOCKS_MOST)
        die_usage("--amount is at most 1T", "");
}

int main(int argc, char **argv)
{
    double start, filled_at, verify_seconds = 0, user, sys;
    struct rusage usage_now;
    parse(argc, argv);
    start = wall_seconds();
    in_threads(eater.threads, fill, NULL);
    filled_at = wall_seconds();
    size_t filled = atomic_load(&eater.filled);
    fprintf(stderr, "memeater: %zu MiB filled in %.3f s (%.0f MiB/s)%s\n", filled, filled_at - start,
            (double)filled / (filled_at - start), atomic_load(&eater.refused) ? ", then a request failed" : "");
    sleep(eater.hold);
    for (unsigned round = 0; round < eater.rounds; round++) {
        double before = wall_seconds();
        atomic_store(&eater.next, 0);
        in_threads(eater.threads, verify, NULL);
        verify_seconds += wall_seconds() - before;
    }
    size_t wrong = atomic_load(&eater.wrong);
    cpu_seconds(&user, &sys);
    getrusage(RUSAGE_SELF, &usage_now);
    fprintf(stderr, "memeater: read back %u x in %.3f s, %zu pages wrong\n", eater.rounds, verify_seconds, wrong);
    printf("{\"bytes\": %zu, \"threads\": %u, \"fill_seconds\": %.6f, \"verify_rounds\": %u, "
           "\"verify_seconds\": %.6f, \"user_seconds\": %.6f, \"system_seconds\": %.6f, "
           "\"peak_resident_bytes\": %zu, \"refused\": %s, \"pages_wrong\": %zu}\n",
           filled * BLOCK, eater.threads, filled_at - start, eater.rounds, verify_seconds, user, sys,
           (size_t)usage_now.ru_maxrss << 10, atomic_load(&eater.refused) ? "true" : "false", wrong);
    if (wrong)
        return 1;
    return atomic_load(&eater.refused) && !eater.unlimited ? 3 : 0;
}
