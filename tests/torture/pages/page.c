/* Contents of pages and their verification; see page.h. */
#include "torture.h"

#include <fcntl.h>
#include <time.h>

enum kind { KIND_ZERO, KIND_SAME, KIND_TEXT, KIND_POINTERS, KIND_SPARSE, KIND_RANDOM, KINDS };
static const char *const kind_names[KINDS] = { "zero",    "same-filled", "text",
                                               "structs", "sparse",      "random" };

static uint64_t key_hash(struct page_key key)
{
    return mix64(options.seed ^ mix64(key.region ^ mix64(key.page ^ mix64(key.version))));
}

static enum kind key_kind(struct page_key key, uint64_t hash)
{
    unsigned roll = (unsigned)(hash >> 40) % 100;
    if (key.version == 0)
        return KIND_ZERO;
    if (roll < options.random)
        return KIND_RANDOM;
    switch (hash % 10) {
    case 0:
        return KIND_ZERO;
    case 1:
        return KIND_SAME;
    case 2:
        return KIND_SPARSE;
    case 3:
    case 4:
    case 5:
        return KIND_TEXT;
    default:
        return KIND_POINTERS;
    }
}

/*
 * Each word is stored by a copy of fixed length, and the next word partly overwrites it: a byte at a time
 * would make this the slowest part of the program.
 */
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

static void make_text(void *page, struct rng *rng, struct page_key key)
{
#define W(text) { text, sizeof text - 1 }
    static const struct word words[64] = {
        W("the "), W("of "), W("and "), W("memory "), W("block "), W("a "), W("cold "), W("kept "),
        W("in "), W("frame, "), W("is "), W("to "), W("page "), W("where "), W("thread "),
        W("which "), W("never "), W("bytes "), W("store "), W("that "), W("limit "), W("what "),
        W("for "), W("each "), W("name "), W("value "), W("\n"), W("count: "), W("true, "),
        W("false, "), W("null, "), W("\"id\": "), W("\"key\": "), W("list "), W("was "),
        W("written "), W("there "), W("again "), W("before "), W("after "), W("table "), W("row "),
        W("with "), W("without "), W("and so "), W("because "), W("it "), W("has "), W("been "),
        W("compress "), W("ed. "), W("Then "), W("one "), W("two "), W("many "), W("small "),
        W("large "), W("old "), W("new "), W("fault "), W("handler "), W("returns "), W("nothing "),
        W("else. "),
    };
#undef W
    char out[PAGE + 9 * sizeof(struct word)];
    size_t at = (size_t)snprintf(out, sizeof out, "%llx:%llu:%u ", (unsigned long long)key.region,
                                 (unsigned long long)key.page, key.version);
    while (at < PAGE) {
        uint64_t bits = rng_next(rng);
        for (int i = 0; i < 8; i++, bits >>= 6)
            at = put_word(out, at, &words[bits & 63]);
        /* Sometimes a number: text does not consist of dictionary words alone. */
        struct word number = { "", 5 };
        for (int i = 0; i < 5; i++, bits >>= 3)
            number.text[i] = (char)('0' + (bits & 7));
        at = put_word(out, at, &number);
    }
    memcpy(page, out, PAGE);
}

/* Nodes of 64 bytes as in a program's heap: pointers to addresses near each other, small numbers, flags. */
static void make_pointers(uint64_t out[PAGE_WORDS], struct rng *rng, uint64_t hash)
{
    uint64_t heap = 0x7f0000000000u | ((hash & 0xffff) << 20);
    for (size_t i = 0; i < PAGE_WORDS; i += 8) {
        uint64_t bits = rng_next(rng);
        out[i] = heap + ((bits & 0xffff) << 4);
        out[i + 1] = heap + (((bits >> 16) & 0xffff) << 4);
        out[i + 2] = 0x21;
        out[i + 3] = (bits >> 32) & 0xff;
        out[i + 4] = ((bits >> 40) & 3) << 32 | 1;
        out[i + 5] = 0;
        out[i + 6] = heap;
        out[i + 7] = hash + i;
    }
}

void page_patch(struct page_key key, unsigned number, size_t *word, uint64_t *value)
{
    uint64_t hash = mix64(key_hash(key) + 0x5851f42d4c957f2du * number);
    *word = hash % PAGE_WORDS;
    *value = mix64(hash);
}

void page_make(uint64_t out[PAGE_WORDS], struct page_key key)
{
    uint64_t hash = key_hash(key);
    struct rng rng = rng_make(hash);
    switch (key_kind(key, hash)) {
    case KIND_SAME:
        for (size_t i = 0; i < PAGE_WORDS; i++)
            out[i] = hash;
        break;
    case KIND_TEXT:
        make_text(out, &rng, key);
        break;
    case KIND_POINTERS:
        make_pointers(out, &rng, hash);
        break;
    case KIND_RANDOM:
        for (size_t i = 0; i < PAGE_WORDS; i++)
            out[i] = rng_next(&rng);
        break;
    case KIND_SPARSE:
        memset(out, 0, PAGE);
        for (int i = 0; i < 20; i++) {
            uint64_t bits = rng_next(&rng);
            out[bits % PAGE_WORDS] = bits;
        }
        break;
    default:
        memset(out, 0, PAGE);
    }
    for (unsigned i = 1; i <= key.patches; i++) {
        size_t word;
        uint64_t value;
        page_patch(key, i, &word, &value);
        out[word] = value;
    }
}

static size_t hex(char *out, size_t size, const char *name, const uint8_t *bytes, size_t from)
{
    size_t n = (size_t)snprintf(out, size, "  %s at +%zu:", name, from);
    for (size_t i = from; i < from + 32 && i < PAGE; i++)
        n += (size_t)snprintf(out + n, size - n, " %02x", bytes[i]);
    n += (size_t)snprintf(out + n, size - n, "\n");
    return n;
}

/* Finds out which state of which page was found: this identifies the bug. */
static size_t guess(char *out, size_t size, const uint8_t *got, struct page_key key, size_t length)
{
    bool zero = true, same = true;
    uint64_t expected[PAGE_WORDS];
    for (size_t i = 0; i < length; i++)
        zero &= got[i] == 0;
    for (size_t i = 8; i < length; i++)
        same &= got[i] == got[i - 8];
    if (zero)
        return (size_t)snprintf(out, size, "  found: zeros where data was\n");
    for (unsigned p = 0; p < key.patches; p++) {
        struct page_key older = key;
        older.patches = p;
        page_make(expected, older);
        if (memcmp(got, expected, length) == 0)
            return (size_t)snprintf(out, size, "  found: the same version with %u of %u patches (lost small writes)\n",
                                    p, key.patches);
    }
    for (int64_t away = -64; away <= 64; away++) {
        for (uint32_t back = 0; back <= 24; back++) {
            struct page_key other = key;
            other.page += (uint64_t)away;
            other.version = key.version + 2 - back;
            if (back > key.version + 2 || other.version == 0 || (away == 0 && back == 2))
                continue;
            for (other.patches = 0; other.patches <= MOST_PATCHES; other.patches++) {
                page_make(expected, other);
                if (memcmp(got, expected, length) == 0)
                    return (size_t)snprintf(out, size,
                                            "  found: version %u with %u patches of page %llu (%+lld)\n",
                                            other.version, other.patches,
                                            (unsigned long long)other.page, (long long)away);
            }
        }
    }
    return (size_t)snprintf(out, size, "  found: %s\n",
                            same ? "one word repeated" : "no known state of this page or its neighbours");
}

static size_t describe_pagemap(char *out, size_t size, const void *at)
{
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, &entry, 8, (off_t)((uintptr_t)at / PAGE * 8));
    close(fd);
    if (n != 8)
        return 0;
    return (size_t)snprintf(out, size, "  pagemap: present %d, swapped %d, uffd-wp %d, exclusive %d\n",
                            (int)(entry >> 63), (int)(entry >> 62 & 1), (int)(entry >> 57 & 1),
                            (int)(entry >> 56 & 1));
}

static _Noreturn void page_wrong(const uint8_t *at, struct page_key key, size_t length)
{
    uint64_t expected_words[PAGE_WORDS];
    uint8_t got[PAGE], again[PAGE];
    const uint8_t *expected = (const uint8_t *)expected_words;
    char text[3584];
    size_t n = 0, first = length, last = 0, differing = 0;
    struct timespec moment = { 0, 2000000 };

    memcpy(got, at, length);
    nanosleep(&moment, NULL);
    memcpy(again, at, length);
    page_make(expected_words, key);
    for (size_t i = 0; i < length; i++) {
        if (got[i] == expected[i])
            continue;
        first = first < i ? first : i;
        last = i;
        differing++;
    }
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "  wrong bytes at address %p: region %llx page %llu version %u patches %u (%s)\n",
                          (const void *)at, (unsigned long long)key.region, (unsigned long long)key.page,
                          key.version, key.patches, kind_names[key_kind(key, key_hash(key))]);
    if (differing == 0) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "  a first look found a difference, a second one none: the bytes were wrong for a moment\n");
    } else {
        n += (size_t)snprintf(text + n, sizeof text - n, "  %zu of %zu bytes differ, from +%zu to +%zu; %s after 2 ms\n",
                              differing, length, first, last,
                              memcmp(again, expected, length) == 0 ? "right again"
                              : memcmp(again, got, length) == 0    ? "still so"
                                                                   : "wrong in another way");
        size_t from = first & ~(size_t)15;
        n += hex(text + n, sizeof text - n, "expected", expected, from);
        n += hex(text + n, sizeof text - n, "got     ", got, from);
        n += guess(text + n, sizeof text - n, got, key, length);
    }
    n += describe_pagemap(text + n, sizeof text - n, at);
    n += describe_mapping(text + n, sizeof text - n, at);
    fail("%s", text);
}

bool page_holds(const void *at, struct page_key key, size_t length)
{
    uint64_t expected[PAGE_WORDS];
    page_make(expected, key);
    return memcmp(at, expected, length) == 0;
}

void page_check(const void *at, struct page_key key, size_t length)
{
    move_on();
    if (!page_holds(at, key, length))
        page_wrong(at, key, length);
}

void zeros_check(const void *at, size_t length, const char *why)
{
    const uint8_t *bytes = at;
    static const uint8_t zeros[PAGE];
    for (size_t done = 0; done < length; done += PAGE) {
        size_t n = length - done < PAGE ? length - done : PAGE;
        move_on();
        if (memcmp(bytes + done, zeros, n) == 0)
            continue;
        char text[256] = "";
        size_t i = 0;
        while (i + 1 < n && bytes[done + i] == 0)
            i++;
        describe_mapping(text, sizeof text, bytes + done);
        fail("  not zero at address %p (+%zu of %zu): got %02x, expected 00: %s\n%s",
             (const void *)(bytes + done + i), done + i, length, bytes[done + i], why, text);
    }
}

void bytes_make(void *out, size_t length, uint64_t region, uint32_t version)
{
    uint64_t made[PAGE_WORDS];
    for (size_t done = 0; done < length; done += PAGE) {
        struct page_key key = { region, done / PAGE, version, 0 };
        size_t n = length - done < PAGE ? length - done : PAGE;
        page_make(made, key);
        memcpy((uint8_t *)out + done, made, n);
        move_on();
    }
}

void bytes_check(const void *at, size_t length, uint64_t region, uint32_t version)
{
    for (size_t done = 0; done < length; done += PAGE) {
        struct page_key key = { region, done / PAGE, version, 0 };
        page_check((const uint8_t *)at + done, key, length - done < PAGE ? length - done : PAGE);
    }
}
