/*
 * touch: what does it cost to touch memory? It fills N MiB with pages (of files, or made), then touches
 * single pages in a pattern and measures each touch in the thread that does it. It prints one JSON object on
 * stdout.
 *
 * Each thread has a contiguous part of the pages to itself. The order of touches is made before the clock
 * starts and kept in an unlinked file, so that it takes no private memory and no measured time. Afterwards
 * every page is verified in full (not timed).
 *
 * zipf:S draws ranks from a zipf distribution and maps them through a random permutation of the
 * thread's pages, so that hot pages are scattered, not side by side.
 */
#include "load.h"
#include "zipf.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum pattern { SEQUENTIAL, UNIFORM, ZIPF };

/*
 * A histogram of ticks: 16 buckets in each power of two, so a percentile is right within 6 %.
 *   bucket = 16 * exponent + the 4 bits after the leading one
 */
#define BUCKETS (64 * 16)
struct histogram {
    uint64_t counts[BUCKETS], count, most;
};

static struct load {
    struct source source;
    enum pattern pattern;
    double zipf;
    size_t pages, room;
    uint64_t touches;
    unsigned threads, write_percent;
    double slow_us;
    bool verify;
    const char *pattern_text;

    uint8_t *base;
    uint32_t *order;      /* page of each touch; the top bit says write */
    uint32_t *written;    /* per page: how often written */
    double tick_us;       /* microseconds of one tick */
    pthread_barrier_t gate;
    _Atomic uint64_t wrong;
} load = { .pattern = UNIFORM, .pages = 0, .touches = 1000000, .threads = 1, .slow_us = 2, .verify = true,
           .pattern_text = "uniform" };

static struct histogram *histograms; /* one a thread */

#define WRITE_BIT 0x80000000u

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    /* The fences keep the touch between the two readings of the clock. */
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static double calibrate(void)
{
    double wall = wall_seconds();
    uint64_t from = ticks();
    while (wall_seconds() - wall < 0.02)
        ;
    uint64_t to = ticks();
    return (wall_seconds() - wall) * 1e6 / (double)(to - from);
}

static void histogram_add(struct histogram *h, uint64_t value)
{
    unsigned exponent = value < 16 ? 0 : 63 - (unsigned)__builtin_clzll(value) - 3;
    size_t bucket = value < 16 ? value : exponent * 16 + ((value >> (exponent - 1)) & 15);
    h->counts[bucket]++;
    h->count++;
    if (value > h->most)
        h->most = value;
}

/* The upper end of a bucket. */
static uint64_t bucket_end(size_t bucket)
{
    size_t exponent = bucket / 16;
    return exponent == 0 ? bucket : (((uint64_t)16 + bucket % 16 + 1) << (exponent - 1)) - 1;
}

/* Only counts values in buckets that end at `least` or later. */
static double percentile(const struct histogram *h, double share, uint64_t least, uint64_t *count)
{
    uint64_t all = 0, seen = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        if (bucket_end(i) >= least)
            all += h->counts[i];
    *count = all;
    for (size_t i = 0; i < BUCKETS && all; i++) {
        if (bucket_end(i) < least)
            continue;
        seen += h->counts[i];
        if ((double)seen >= share * (double)all) {
            uint64_t end = bucket_end(i) < h->most ? bucket_end(i) : h->most;
            return (double)end * load.tick_us;
        }
    }
    return 0;
}

static size_t part_begin(unsigned index)
{
    return load.pages * index / load.threads;
}

static uint64_t touches_begin(unsigned index)
{
    return load.touches * index / load.threads;
}

static void *map_shared(size_t length)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/touch-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0 || unlink(path) != 0 || ftruncate(fd, (off_t)length) != 0)
        die(path);
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        die("mmap of a temporary file");
    close(fd);
    return at;
}

static void plan(unsigned index, void *shared)
{
    size_t begin = part_begin(index), pages = part_begin(index + 1) - begin, next = 0;
    uint64_t from = touches_begin(index), to = touches_begin(index + 1);
    struct rng rng = rng_make(load.source.seed * 7919 + index);
    struct zipf zipf = zipf_make(pages, load.zipf);
    uint32_t *permutation = NULL;
    (void)shared;
    if (load.pattern == ZIPF) {
        permutation = mmap(NULL, pages * sizeof *permutation, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (permutation == MAP_FAILED)
            die("mmap of a permutation");
        for (size_t i = 0; i < pages; i++) {
            size_t j = rng_below(&rng, i + 1);
            permutation[i] = permutation[j];
            permutation[j] = (uint32_t)i;
        }
    }
    for (uint64_t i = from; i < to; i++) {
        size_t page;
        if (load.pattern == SEQUENTIAL)
            page = next++ % pages;
        else if (load.pattern == UNIFORM)
            page = rng_below(&rng, pages);
        else
            page = permutation[zipf_next(&zipf, &rng)];
        load.order[i] = (uint32_t)(begin + page) | (rng_chance(&rng, load.write_percent) ? WRITE_BIT : 0);
    }
    if (permutation)
        munmap(permutation, pages * sizeof *permutation);
}

static void fill(unsigned index, void *shared)
{
    (void)shared;
    for (size_t page = part_begin(index); page < part_begin(index + 1); page++)
        source_page(&load.source, page, (uint64_t *)(load.base + page * PAGE));
}

/* Uses memory for a while and returns it. */
static void make_room(void)
{
    if (load.room == 0)
        return;
    uint8_t *more = mmap(NULL, load.room * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
        die("mmap of --room");
    for (size_t page = 0; page < load.room; page++)
        source_page(&load.source, load.pages + page, (uint64_t *)(more + page * PAGE));
    munmap(more, load.room * PAGE);
    usleep(500000);
}

static void touch(unsigned index, void *shared)
{
    struct histogram *h = &histograms[index];
    uint64_t wrong = 0;
    (void)shared;
    pthread_barrier_wait(&load.gate);
    for (uint64_t i = touches_begin(index), to = touches_begin(index + 1); i < to; i++) {
        uint32_t entry = load.order[i], page = entry & ~WRITE_BIT;
        volatile uint64_t *words = (volatile uint64_t *)(load.base + (size_t)page * PAGE);
        uint64_t before, after, value = 0, expected;
        size_t word = 2;
        bool stamped = source_stamp(&load.source, page, &word, &expected);
        if (entry & WRITE_BIT) {
            uint32_t count = ++load.written[page];
            before = ticks();
            words[0] = count;
            after = ticks();
        } else {
            before = ticks();
            value = words[word];
            after = ticks();
            wrong += stamped && value != expected;
        }
        histogram_add(h, after - before);
    }
    if (wrong)
        atomic_fetch_add(&load.wrong, wrong);
}

static void verify(unsigned index, void *shared)
{
    uint64_t expected[PAGE_WORDS];
    (void)shared;
    for (size_t page = part_begin(index); page < part_begin(index + 1); page++) {
        source_page(&load.source, page, expected);
        if (load.written[page])
            expected[0] = load.written[page];
        if (memcmp(load.base + page * PAGE, expected, PAGE) != 0 &&
            atomic_fetch_add(&load.wrong, 1) < 10)
            fprintf(stderr, "touch: WRONG page %zu at address %p (seed %llu)\n", page,
                    (void *)(load.base + page * PAGE), (unsigned long long)load.source.seed);
    }
}

static const char usage[] =
    "usage: touch --amount SIZE [--pattern sequential|uniform|zipf:S] [--touches N] [--threads N]\n"
    "             [--write PERCENT] [--file FILE]... [--ratio MIX] [--slow US] [--seed N] [--no-verify]\n"
    "             [--room SIZE]\n"
    "  --file FILE  pages of this file (may be given several times), each stamped; without it, made pages\n"
    "  --ratio MIX  made pages in percent: random=20,zero=10,half=30, the rest text\n"
    "  --room SIZE  fills so much more before the touches, unmaps it, and rests: the touches need no room made\n"
    "  --slow US    touches that take longer are also counted on their own (2: they were faults)\n";

static void parse_pattern(const char *text)
{
    char *end = NULL;
    load.pattern_text = text;
    if (strcmp(text, "sequential") == 0) {
        load.pattern = SEQUENTIAL;
    } else if (strcmp(text, "uniform") == 0) {
        load.pattern = UNIFORM;
    } else if (strncmp(text, "zipf:", 5) == 0 && (load.zipf = strtod(text + 5, &end)) > 0 &&
               end != text + 5 && *end == 0 && load.zipf < 10) {
        load.pattern = ZIPF;
    } else {
        die_usage("--pattern is sequential, uniform or zipf:S", text);
    }
}

static void parse(int argc, char **argv)
{
    static const struct option names[] = {
        { "amount", 1, NULL, 'a' },  { "pattern", 1, NULL, 'p' }, { "touches", 1, NULL, 'n' },
        { "threads", 1, NULL, 't' }, { "write", 1, NULL, 'w' },   { "file", 1, NULL, 'f' },
        { "ratio", 1, NULL, 'r' },   { "slow", 1, NULL, 'l' },    { "seed", 1, NULL, 's' },
        { "room", 1, NULL, 'm' },
        { "no-verify", 0, NULL, 'v' }, { "help", 0, NULL, 'h' },  { NULL, 0, NULL, 0 },
    };
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'a': load.pages = parse_size(optarg) / PAGE; break;
        case 'p': parse_pattern(optarg); break;
        case 'n': load.touches = parse_number(optarg, "--touches"); break;
        case 't': load.threads = (unsigned)parse_number(optarg, "--threads"); break;
        case 'w': load.write_percent = (unsigned)parse_number(optarg, "--write"); break;
        case 'f': source_add_file(&load.source, optarg); break;
        case 'r': source_parse_mix(&load.source, optarg); break;
        case 'l': load.slow_us = (double)parse_number(optarg, "--slow"); break;
        case 's': load.source.seed = parse_number(optarg, "--seed"); break;
        case 'm': load.room = parse_size(optarg) / PAGE; break;
        case 'v': load.verify = false; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc)
        die_usage("unexpected argument", argv[optind]);
    if (load.threads < 1 || load.threads > 256 || load.pages < load.threads)
        die_usage("--threads must be 1 to 256, and --amount at least a page for each", "");
    if (load.pages >= WRITE_BIT)
        die_usage("--amount is below 8T", "");
    if (load.write_percent > 100)
        die_usage("--write is at most 100", "");
}

static void print_result(const struct histogram *all, double fill_seconds, double wall, double user,
                         double sys, double verify_seconds)
{
    uint64_t count, slow_count, slow = (uint64_t)(load.slow_us / load.tick_us);
    printf("{\"pattern\": \"%s\", \"bytes\": %zu, \"threads\": %u, \"touches\": %llu, \"write_percent\": %u, "
           "\"fill_seconds\": %.6f, \"wall_seconds\": %.6f, \"user_seconds\": %.6f, \"system_seconds\": %.6f, ",
           load.pattern_text, load.pages * PAGE, load.threads, (unsigned long long)load.touches,
           load.write_percent, fill_seconds, wall, user, sys);
    printf("\"touch_us\": {\"p50\": %.3f, ", percentile(all, 0.5, 0, &count));
    printf("\"p99\": %.3f, ", percentile(all, 0.99, 0, &count));
    printf("\"max\": %.3f}, ", (double)all->most * load.tick_us);
    printf("\"slow_us\": {\"above\": %.0f, \"p50\": %.3f, ", load.slow_us, percentile(all, 0.5, slow, &slow_count));
    printf("\"p99\": %.3f, \"count\": %llu}, ", percentile(all, 0.99, slow, &slow_count),
           (unsigned long long)slow_count);
    printf("\"verify_seconds\": %.6f, \"pages_wrong\": %llu}\n", verify_seconds,
           (unsigned long long)atomic_load(&load.wrong));
}

int main(int argc, char **argv)
{
    double start, fill_seconds, wall, user[2], sys[2], verify_seconds = 0;
    static struct histogram all;
    parse(argc, argv);
    load.tick_us = calibrate();
    load.base = mmap(NULL, load.pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (load.base == MAP_FAILED)
        die("mmap");
    load.order = map_shared((load.touches + 1) * sizeof *load.order);
    load.written = map_shared(load.pages * sizeof *load.written);
    histograms = calloc(load.threads, sizeof *histograms);
    if (histograms == NULL)
        die("calloc");
    in_threads(load.threads, plan, NULL);
    start = wall_seconds();
    in_threads(load.threads, fill, NULL);
    fill_seconds = wall_seconds() - start;
    make_room();
    if ((errno = pthread_barrier_init(&load.gate, NULL, load.threads)) != 0)
        die("pthread_barrier_init");
    cpu_seconds(&user[0], &sys[0]);
    start = wall_seconds();
    in_threads(load.threads, touch, NULL);
    wall = wall_seconds() - start;
    cpu_seconds(&user[1], &sys[1]);
    for (unsigned i = 0; i < load.threads; i++) {
        for (size_t k = 0; k < BUCKETS; k++)
            all.counts[k] += histograms[i].counts[k];
        all.count += histograms[i].count;
        if (histograms[i].most > all.most)
            all.most = histograms[i].most;
    }
    if (load.verify) {
        start = wall_seconds();
        in_threads(load.threads, verify, NULL);
        verify_seconds = wall_seconds() - start;
    }
    print_result(&all, fill_seconds, wall, user[1] - user[0], sys[1] - sys[0], verify_seconds);
    return atomic_load(&load.wrong) ? 1 : 0;
}
