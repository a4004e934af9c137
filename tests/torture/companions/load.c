/* Pages, sizes and clocks for memeater and touch; see load.h. */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void die_usage(const char *what, const char *value)
{
    fprintf(stderr, "%s: %s: '%s' (try --help)\n", program_invocation_short_name, what, value);
    exit(2);
}

void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

uint64_t parse_number(const char *text, const char *name)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 0);
    if (*text == 0 || *text == '-' || *end || errno)
        die_usage(name, text);
    return n;
}

size_t parse_size(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    double n = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || !(n > 0) || n > 1e15 || (*end && (unit == NULL || end[1])))
        die_usage("not a size", text);
    if (unit)
        n *= (double)((uint64_t)1 << (10 * (unit - units + 1)));
    return (size_t)n;
}

void source_add_file(struct source *source, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        die(path);
    size_t pages = (size_t)status.st_size / PAGE;
    if (pages == 0)
        die_usage("shorter than one page", path);
    if (source->file_count == sizeof source->files / sizeof source->files[0])
        die_usage("too many files", path);
    void *at = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        die(path);
    close(fd);
    source->files[source->file_count] = at;
    source->file_pages[source->file_count++] = pages;
    source->all_pages += pages;
}

void source_parse_mix(struct source *source, const char *text)
{
    char copy[128], *rest = copy, *part;
    unsigned sum = 0;
    snprintf(copy, sizeof copy, "%s", text);
    while ((part = strsep(&rest, ","))) {
        char *equals = strchr(part, '=');
        unsigned value = equals ? (unsigned)parse_number(equals + 1, "--ratio") : 100;
        if (equals)
            *equals = 0;
        if (strcmp(part, "random") == 0)
            source->random = value;
        else if (strcmp(part, "zero") == 0)
            source->zero = value;
        else if (strcmp(part, "half") == 0)
            source->half = value;
        else if (strcmp(part, "text") != 0)
            die_usage("--ratio knows random, zero, half and text, not", part);
        sum += value;
    }
    if (sum > 100)
        die_usage("--ratio: more than 100 percent", text);
}

/* Each copy has a fixed length, and the next one partly overwrites it: filling must not be slower than
 * paging. */
struct word {
    char text[15];
    uint8_t length;
};

/* `out` has room for a whole word after its end, whatever the length. */
static inline size_t put_word(char *out, size_t at, const struct word *word)
{
    memcpy(out + at, word, sizeof *word);
    return at + word->length;
}

static void make_text(void *page, struct rng *rng)
{
#define W(text) { text, sizeof text - 1 }
    static const struct word words[32] = {
        W("the "), W("memory "), W("of "), W("a "), W("program "), W("is "), W("kept "), W("in "),
        W("blocks "), W("which "), W("are "), W("cold, "), W("and "), W("then "), W("smaller "),
        W("than "), W("before; "), W("what "), W("was "), W("touched "), W("comes "), W("back "),
        W("as "), W("it "), W("left. "), W("No "), W("byte "), W("may "), W("differ "), W("from "),
        W("its "), W("copy "),
    };
#undef W
    char out[PAGE + 7 * sizeof(struct word)];
    size_t at = 0;
    while (at < PAGE) {
        uint64_t bits = rng_next(rng);
        for (int i = 0; i < 6; i++, bits >>= 5)
            at = put_word(out, at, &words[bits & 31]);
        /* Names, so that text does not compress like a dictionary of 32 words. */
        struct word name = { "", 7 };
        for (int i = 0; i < 6; i++, bits >>= 5)
            name.text[i] = (char)('a' + (bits & 15));
        name.text[6] = ' ';
        at = put_word(out, at, &name);
    }
    memcpy(page, out, PAGE);
}

enum made { MADE_TEXT, MADE_RANDOM, MADE_ZERO, MADE_HALF };

static enum made made_kind(const struct source *source, uint64_t number)
{
    unsigned roll = (unsigned)(mix64(source->seed ^ mix64(number)) >> 17) % 100;
    if (roll < source->random)
        return MADE_RANDOM;
    if (roll < source->random + source->zero)
        return MADE_ZERO;
    if (roll < source->random + source->zero + source->half)
        return MADE_HALF;
    return MADE_TEXT;
}

static uint64_t number_hash(const struct source *source, uint64_t number)
{
    return mix64(source->seed * 3 + mix64(number + 0x51ed270b));
}

bool source_stamp(const struct source *source, uint64_t number, size_t *word, uint64_t *value)
{
    if (source->file_count == 0 && made_kind(source, number) == MADE_ZERO)
        return false;
    uint64_t hash = number_hash(source, number);
    *word = 2 + (hash >> 32) % 500;
    *value = ~(number ^ mix64(source->seed));
    return true;
}

void source_page(const struct source *source, uint64_t number, uint64_t out[PAGE_WORDS])
{
    struct rng rng = rng_make(source->seed ^ mix64(number));
    uint64_t hash = number_hash(source, number), value;
    size_t word;
    if (source->file_count) {
        uint64_t page = number % source->all_pages;
        size_t i = 0;
        while (page >= source->file_pages[i])
            page -= source->file_pages[i++];
        memcpy(out, source->files[i] + page * PAGE, PAGE);
    } else {
        switch (made_kind(source, number)) {
        case MADE_TEXT:
            make_text(out, &rng);
            break;
        case MADE_ZERO:
            memset(out, 0, PAGE);
            return;
        default: {
            size_t end = made_kind(source, number) == MADE_HALF ? PAGE_WORDS / 2 : PAGE_WORDS;
            memset(out, 0, PAGE);
            for (size_t i = 0; i < end; i++)
                out[i] = rng_next(&rng);
        }
        }
    }
    out[2 + hash % 500] = number ^ mix64(source->seed);
    /* The second stamp word may be the same word as the first, and then replaces it. */
    if (source_stamp(source, number, &word, &value))
        out[word] = value;
}

double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void cpu_seconds(double *user, double *sys)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *user = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6;
    *sys = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6;
}

struct job {
    pthread_t thread;
    unsigned index;
    void (*run)(unsigned index, void *shared);
    void *shared;
};

static void *job_main(void *arg)
{
    struct job *job = arg;
    job->run(job->index, job->shared);
    return NULL;
}

void in_threads(unsigned count, void (*run)(unsigned index, void *shared), void *shared)
{
    struct job jobs[256];
    if (count > 256)
        count = 256;
    for (unsigned i = 0; i < count; i++) {
        jobs[i] = (struct job){ .index = i, .run = run, .shared = shared };
        if ((errno = pthread_create(&jobs[i].thread, NULL, job_main, &jobs[i])) != 0)
            die("pthread_create");
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(jobs[i].thread, NULL);
}
