/* A slab list of numbers and a slab map of words: sets and dictionaries that may be larger than memory.
 *
 * usage: numbers [NUMBERS] */
#include "example.h"

#include <string.h>

/* memfold_slablist_foldl calls this for each element. */
static int add(void *context, const void *element, size_t len) {
    uint64_t number;
    memcpy(&number, element, len);
    *(uint64_t *)context += number;
    return 0; /* Any other number would stop it. */
}

static int print(void *context, const void *word, size_t len, const void *count, size_t count_len) {
    unsigned number;
    (void)context;
    memcpy(&number, count, count_len);
    printf("%.*s %u, ", (int)len, (const char *)word, number);
    return 0;
}

/* A sorted list that keeps each number once. */
static void numbers(memfold_session *session, uint64_t most) {
    memfold_slablist *list, *small;
    uint64_t len, sum = 0, first, position;
    int contains;

    TRY(memfold_slablist_new(session, NULL, &list));
    for (uint64_t i = 0; i < most; i++) TRY(memfold_slablist_add_u64(list, i * 7919 % most * 3, NULL));
    TRY(memfold_slablist_contains_u64(list, 300, &contains));
    EXPECT(contains);
    TRY(memfold_slablist_contains_u64(list, 301, &contains));
    EXPECT(!contains);

    /* All numbers from 1000 on, by their positions. */
    uint64_t from = 1000;
    TRY(memfold_slablist_lower_bound(list, &from, sizeof from, &position));
    TRY(memfold_slablist_get_u64(list, position, &first));
    EXPECT(first == 1002);
    TRY(memfold_slablist_foldl(list, 0, position, add, &sum, NULL));
    EXPECT(sum == 3 * 333 * 334 / 2);

    /* A cursor stays at its element while others are removed. */
    memfold_cursor cursor;
    TRY(memfold_slablist_cursor_new(list, position, &cursor));
    TRY(memfold_slablist_extract(list, 0, position, &small));
    TRY(memfold_slablist_cursor_position(list, cursor, &position));
    EXPECT(position == 0);
    for (len = 1; memfold_slablist_cursor_next(list, cursor) == MEMFOLD_OK && len < 10; len++) {
        TRY(memfold_slablist_cursor_get(list, cursor, &first, sizeof first, NULL));
        EXPECT(first == 1002 + 3 * len);
    }
    TRY(memfold_slablist_len(small, &len));
    EXPECT(len == 334);
    TRY(memfold_slablist_free(small));
    TRY(memfold_slablist_len(list, &len));
    printf("%llu numbers are left\n", (unsigned long long)len);
    /* Closing the session frees the other list. */
}

/* Counts how often each word occurs. */
static void words(memfold_session *session) {
    static const char *const text[] = {"slab", "list", "heap", "slab", "block", "list", "slab"};
    memfold_slabmap_options options = memfold_default_slabmap_options();
    memfold_slabmap *map;

    options.keys = MEMFOLD_BYTES;
    TRY(memfold_slabmap_new(session, &options, &map));
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        unsigned count = 0;
        int error = memfold_slabmap_get(map, text[i], strlen(text[i]), &count, sizeof count, NULL);
        if (error != MEMFOLD_NO_ELEMENT) TRY(error);
        count++;
        TRY(memfold_slabmap_put(map, text[i], strlen(text[i]), &count, sizeof count, NULL));
    }
    TRY(memfold_slabmap_foldl(map, 0, UINT64_MAX, print, NULL, NULL));
    putchar('\n');
    TRY(memfold_slabmap_free(map));
}

int main(int argc, char **argv) {
    memfold_heap *heap;
    memfold_session *session;

    TRY(memfold_heap_new(NULL, &heap));
    TRY(memfold_session_open(heap, &session));
    /* 7919 is prime, so this is a permutation unless 7919 divides the number. */
    numbers(session, argc > 1 ? strtoull(argv[1], NULL, 10) : 100000);
    words(session);
    say(heap, "a slab list");
    TRY(memfold_session_close(session));
    TRY(memfold_heap_check(heap));
    TRY(memfold_heap_destroy(heap));
    return 0;
}
