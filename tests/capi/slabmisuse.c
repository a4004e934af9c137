/* Everything that a program can do wrong with slab lists and maps, and the errors that it gets. */
#include "check.h"

#include <pthread.h>

static memfold_slablist *new_list(memfold_session *session, uint32_t elements, uint32_t flags) {
    memfold_slablist_options options = memfold_default_slablist_options();
    memfold_slablist *list = NULL;
    options.elements = elements;
    options.flags = flags;
    OK(memfold_slablist_new(session, &options, &list));
    return list;
}

static void bad_options(void) {
    memfold_heap *heap = new_heap(NULL);
    memfold_session *session = open_session(heap);
    memfold_slablist *list = (memfold_slablist *)1;
    memfold_slabmap *map = (memfold_slabmap *)1;
    struct {
        const char *says;
        memfold_slablist_options options;
    } cases[24];
    size_t n = 0;
    memset(cases, 0, sizeof cases);
#define CASE(text, set)                                 \
    do {                                                \
        memfold_slablist_options *o = &cases[n].options; \
        *o = memfold_default_slablist_options();        \
        set;                                            \
        cases[n++].says = text;                         \
    } while (0)
    CASE("elements is 4", o->elements = 4);
    CASE("flags are 0x10", o->flags = 16);
    CASE("not UTF-8", o->name = "\xff");
    CASE("reap_least_percent is 101", o->reap_least_percent = 101);
    CASE("give one", (o->reap_least_slabs = 1, o->flags = MEMFOLD_NEVER_REAP));
    CASE("per_slab is 1", o->per_slab = 1);
    CASE("2 to 255", o->per_slab = 256);
    CASE("2 to 65535", o->per_sublayer = 1);
    CASE("2 to 65535", o->per_sublayer = 65536);
    CASE("struct_size is 0", o->struct_size = 0);
    CASE("struct_size is 8", o->struct_size = 8);
    CASE("struct_size", o->struct_size = SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        FAILS(MEMFOLD_OPTION, memfold_slablist_new(session, &cases[i].options, &list));
        if (!strstr(memfold_last_error(), cases[i].says))
            FAIL("case %zu: '%s' does not say '%s'", i, memfold_last_error(), cases[i].says);
        CHECK(list == (memfold_slablist *)1);
    }
    memfold_slabmap_options options = memfold_default_slabmap_options();
    options.keys = 4;
    FAILS(MEMFOLD_OPTION, memfold_slabmap_new(session, &options, &map));
    options = memfold_default_slabmap_options();
    options.flags = MEMFOLD_ORDERED;
    FAILS(MEMFOLD_OPTION, memfold_slabmap_new(session, &options, &map));
    options = memfold_default_slabmap_options();
    options.struct_size--;
    FAILS(MEMFOLD_OPTION, memfold_slabmap_new(session, &options, &map));
    CHECK(map == (memfold_slabmap *)1);
    FAILS(MEMFOLD_NULL, memfold_slablist_new(session, NULL, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_new(NULL, NULL, &list));
    FAILS(MEMFOLD_NULL, memfold_slabmap_new(session, NULL, NULL));
    FAILS(MEMFOLD_NO_SESSION, memfold_slablist_new((memfold_session *)heap, NULL, &list));
    OK(memfold_session_close(session));
    FAILS(MEMFOLD_NO_SESSION, memfold_slablist_new(session, NULL, &list));
    OK(memfold_heap_destroy(heap));
}

/* Checks that all functions say that there is no such list. */
static void is_none(memfold_slablist *list, int code) {
    uint64_t number = 0;
    size_t size;
    int is;
    const char *name;
    memfold_slablist *other;
    FAILS(code, memfold_slablist_add(list, &number, 8, &is));
    FAILS(code, memfold_slablist_add_u64(list, 1, NULL));
    FAILS(code, memfold_slablist_replace(list, &number, 8, NULL));
    FAILS(code, memfold_slablist_remove(list, &number, 8, NULL));
    FAILS(code, memfold_slablist_remove_u64(list, 1, NULL));
    FAILS(code, memfold_slablist_contains(list, &number, 8, &is));
    FAILS(code, memfold_slablist_contains_u64(list, 1, &is));
    FAILS(code, memfold_slablist_find(list, &number, 8, &number));
    FAILS(code, memfold_slablist_lower_bound(list, &number, 8, &number));
    FAILS(code, memfold_slablist_upper_bound(list, &number, 8, &number));
    FAILS(code, memfold_slablist_insert_at(list, 0, &number, 8));
    FAILS(code, memfold_slablist_set_at(list, 0, &number, 8));
    FAILS(code, memfold_slablist_push(list, &number, 8));
    FAILS(code, memfold_slablist_sort(list));
    FAILS(code, memfold_slablist_reverse(list));
    FAILS(code, memfold_slablist_get(list, 0, &number, 8, &size));
    FAILS(code, memfold_slablist_get_u64(list, 0, &number));
    FAILS(code, memfold_slablist_remove_at(list, 0));
    FAILS(code, memfold_slablist_remove_range(list, 0, 1, NULL));
    FAILS(code, memfold_slablist_extract(list, 0, 1, &other));
    FAILS(code, memfold_slablist_foldl(list, 0, 1, NULL, NULL, NULL));
    FAILS(code, memfold_slablist_foldr(list, 0, 1, NULL, NULL, NULL));
    FAILS(code, memfold_slablist_cursor_new(list, 0, &number));
    FAILS(code, memfold_slablist_cursor_free(list, 1));
    FAILS(code, memfold_slablist_cursor_get(list, 1, &number, 8, NULL));
    FAILS(code, memfold_slablist_cursor_position(list, 1, &number));
    FAILS(code, memfold_slablist_cursor_next(list, 1));
    FAILS(code, memfold_slablist_cursor_previous(list, 1));
    FAILS(code, memfold_slablist_name(list, &name));
    FAILS(code, memfold_slablist_len(list, &number));
    FAILS(code, memfold_slablist_own_bytes(list, &size));
    FAILS(code, memfold_slablist_compare(list, list, &is));
    FAILS(code, memfold_slablist_reap(list, NULL));
    FAILS(code, memfold_slablist_clear(list));
    FAILS(code, memfold_slablist_check(list));
    FAILS(code, memfold_slablist_free(list));
}

static void is_no_map(memfold_slabmap *map, int code) {
    uint64_t number = 0;
    size_t size;
    int is;
    FAILS(code, memfold_slabmap_put(map, &number, 8, &number, 8, &is));
    FAILS(code, memfold_slabmap_get(map, &number, 8, &number, 8, &size));
    FAILS(code, memfold_slabmap_contains(map, &number, 8, &is));
    FAILS(code, memfold_slabmap_remove(map, &number, 8, &is));
    FAILS(code, memfold_slabmap_at(map, 0, NULL, 0, NULL, NULL, 0, NULL));
    FAILS(code, memfold_slabmap_lower_bound(map, &number, 8, &number));
    FAILS(code, memfold_slabmap_upper_bound(map, &number, 8, &number));
    FAILS(code, memfold_slabmap_remove_range(map, 0, 1, NULL));
    FAILS(code, memfold_slabmap_foldl(map, 0, 1, NULL, NULL, NULL));
    FAILS(code, memfold_slabmap_foldr(map, 0, 1, NULL, NULL, NULL));
    FAILS(code, memfold_slabmap_len(map, &number));
    FAILS(code, memfold_slabmap_own_bytes(map, &size));
    FAILS(code, memfold_slabmap_reap(map, NULL));
    FAILS(code, memfold_slabmap_clear(map));
    FAILS(code, memfold_slabmap_check(map));
    FAILS(code, memfold_slabmap_free(map));
}

static memfold_heap *shared;
static memfold_slablist *foreign;
static memfold_slabmap *foreign_map;

static void *uses_anothers(void *unused) {
    (void)unused;
    is_none(foreign, MEMFOLD_NO_LIST);
    /* Now this thread has sessions of its own, and lists in them. */
    memfold_session *first = open_session(shared), *second = open_session(shared);
    memfold_slablist *own = new_list(first, MEMFOLD_U64, 0);
    new_list(second, MEMFOLD_BYTES, 0);
    is_none(foreign, MEMFOLD_NO_LIST);
    is_no_map(foreign_map, MEMFOLD_NO_LIST);
    /* The list is left with its elements: all of it is freed when the thread ends. */
    for (uint64_t i = 0; i < 1000; i++) OK(memfold_slablist_add_u64(own, i, NULL));
    return NULL;
}

static void bad_lists(void) {
    memfold_options options = small_options(4096, 8);
    memfold_heap *heap = shared = new_heap(&options);
    memfold_session *session = open_session(heap), *other = open_session(heap);
    memfold_slablist *list = new_list(session, MEMFOLD_U64, 0), *second = new_list(other, MEMFOLD_U64, 0);
    memfold_slabmap *map;
    memfold_stats stats;
    int local, order;
    OK(memfold_slabmap_new(session, NULL, &map));
    void *invented[] = {(void *)1, (void *)-1, &local, (void *)((uintptr_t)list + 4096), (void *)((uintptr_t)list ^ 1ull << 40),
                        (void *)((uintptr_t)list + 1), (void *)((uintptr_t)list + 4), session, heap, map};
    for (size_t i = 0; i < sizeof invented / sizeof *invented; i++)
        if (invented[i] != second) is_none((memfold_slablist *)invented[i], MEMFOLD_NO_LIST);
    is_no_map((memfold_slabmap *)(void *)list, MEMFOLD_NO_LIST);
    is_no_map(NULL, MEMFOLD_NULL);

    FAILS(MEMFOLD_NULL, memfold_slablist_free(NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_add_u64(NULL, 1, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_compare(list, NULL, &order));
    FAILS(MEMFOLD_NULL, memfold_slablist_compare(list, list, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_add(list, NULL, 8, NULL));
    FAILS(MEMFOLD_RANGE, memfold_slablist_add(list, &local, SIZE_MAX, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_contains_u64(list, 1, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_len(list, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_extract(list, 0, 1, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_foldl(list, 0, 1, NULL, NULL, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_cursor_new(list, 0, NULL));
    for (uint64_t i = 0; i < 3000; i++) OK(memfold_slablist_add_u64(list, i * i, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_get(list, 1, NULL, 8, NULL));
    FAILS(MEMFOLD_NULL, memfold_slablist_get_u64(list, 1, NULL));
    FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_get_u64(list, 3000, &stats.nodes));
    FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_remove_at(list, UINT64_MAX));

    /* Lists of two sessions. */
    OK(memfold_slablist_compare(list, second, &order));
    CHECK(order == 1);
    OK(memfold_slablist_compare(second, list, &order));
    CHECK(order == -1);
    OK(memfold_slablist_compare(list, list, &order));
    CHECK(order == 0);
    /* The cursor of a list is not valid for another one. */
    memfold_cursor cursor;
    OK(memfold_slablist_cursor_new(list, 5, &cursor));
    OK(memfold_slablist_add_u64(second, 7, NULL));
    FAILS(MEMFOLD_NO_LIST, memfold_slablist_cursor_next(second, cursor));

    pthread_t thread;
    foreign = list, foreign_map = map;
    CHECK(pthread_create(&thread, NULL, uses_anothers, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(memfold_slablist_check(list));
    FAILS(MEMFOLD_OPEN, memfold_heap_check(heap));

    OK(memfold_slablist_free(second));
    is_none(second, MEMFOLD_NO_LIST);
    /* Closing a session frees its lists, with their nodes. */
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes > 0);
    OK(memfold_session_close(session));
    is_none(list, MEMFOLD_NO_LIST);
    is_no_map(map, MEMFOLD_NO_LIST);
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 0);
    /* A new session in the same place has none of the lists. */
    session = open_session(heap);
    is_none(list, MEMFOLD_NO_LIST);
    OK(memfold_session_close(session));
    OK(memfold_session_close(other));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

static void other_kinds(void) {
    memfold_heap *heap = new_heap(NULL);
    memfold_session *session = open_session(heap);
    memfold_slablist *sorted = new_list(session, MEMFOLD_U64, 0), *ordered = new_list(session, MEMFOLD_I64, MEMFOLD_ORDERED);
    uint64_t number = 5, position;
    const char *name;
    int is;
    FAILS(MEMFOLD_KIND, memfold_slablist_push(sorted, &number, 8));
    FAILS(MEMFOLD_KIND, memfold_slablist_insert_at(sorted, 0, &number, 8));
    FAILS(MEMFOLD_KIND, memfold_slablist_set_at(sorted, 0, &number, 8));
    FAILS(MEMFOLD_KIND, memfold_slablist_sort(sorted));
    FAILS(MEMFOLD_KIND, memfold_slablist_reverse(sorted));
    FAILS(MEMFOLD_KIND, memfold_slablist_add(ordered, &number, 8, NULL));
    FAILS(MEMFOLD_KIND, memfold_slablist_replace(ordered, &number, 8, NULL));
    FAILS(MEMFOLD_KIND, memfold_slablist_remove(ordered, &number, 8, NULL));
    FAILS(MEMFOLD_KIND, memfold_slablist_contains(ordered, &number, 8, &is));
    FAILS(MEMFOLD_KIND, memfold_slablist_find(ordered, &number, 8, &position));
    FAILS(MEMFOLD_KIND, memfold_slablist_lower_bound(ordered, &number, 8, &position));
    FAILS(MEMFOLD_KIND, memfold_slablist_add_u64(ordered, 5, NULL));
    FAILS(MEMFOLD_KIND, memfold_slablist_get_u64(ordered, 0, &position));
    CHECK(strstr(memfold_last_error(), "MEMFOLD_U64"));
    FAILS(MEMFOLD_KIND, memfold_slablist_compare(sorted, ordered, &is));
    for (size_t len = 0; len < 20; len++)
        if (len != 8) FAILS(MEMFOLD_KIND, memfold_slablist_add(sorted, &number, len < 8 ? len : 9, NULL));
    CHECK(strstr(memfold_last_error(), "8 bytes"));
    OK(memfold_slablist_len(sorted, &position));
    CHECK(position == 0);
    OK(memfold_slablist_name(sorted, &name));
    CHECK(strcmp(name, "") == 0);
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
}

/* A heap without room refuses an element, and the list stays unchanged. */
static void limits(void) {
    memfold_options options = memfold_default_options();
    options.limit_bytes = 1 << 20;
    memfold_heap *heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    memfold_slablist *list = new_list(session, MEMFOLD_U64, 0);
    uint64_t state = 1, count = 0, len;
    int error = MEMFOLD_OK;
    while (error == MEMFOLD_OK && count < 10000000) {
        error = memfold_slablist_add_u64(list, next_random(&state), NULL);
        count += error == MEMFOLD_OK;
    }
    if (error != MEMFOLD_LIMIT || count < 10000) FAIL("%d after %llu", error, (unsigned long long)count);
    OK(memfold_slablist_len(list, &len));
    CHECK(len == count);
    OK(memfold_slablist_check(list));
    /* Without room nothing can be packed, but elements can be removed. */
    for (uint64_t i = 0; i < len / 2; i++) OK(memfold_slablist_remove_at(list, 0));
    OK(memfold_slablist_add_u64(list, 12, NULL));
    OK(memfold_slablist_check(list));
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

int main(void) {
    bad_options();
    bad_lists();
    other_kinds();
    if (!getenv("MEMFOLD_TEST_QUICK")) limits();
    puts("slabmisuse: ok");
    return 0;
}
