/* Callbacks of slab lists and maps that do what they must not: they call the library, and return answers that
 * are not an order. */
#include "slab_elements.h"

static memfold_session *session_of_all;
static memfold_slablist *list_of_all;

static int calls_compare(void *context, const void *a, size_t a_len, const void *b, size_t b_len) {
    memfold_handle node;
    memfold_slablist *list = NULL;
    uint64_t len;
    CHECK(context == &session_of_all);
    FAILS(MEMFOLD_CALLBACK, memfold_alloc(session_of_all, 8, &node));
    FAILS(MEMFOLD_CALLBACK, memfold_slablist_new(session_of_all, NULL, &list));
    FAILS(MEMFOLD_CALLBACK, memfold_slablist_len(list_of_all, &len));
    FAILS(MEMFOLD_CALLBACK, memfold_slablist_add_u64(list_of_all, 1, NULL));
    FAILS(MEMFOLD_CALLBACK, memfold_slablist_free(list_of_all));
    FAILS(MEMFOLD_CALLBACK, memfold_session_close(session_of_all));
    return natural_bytes(NULL, a, a_len, b, b_len);
}

static int calls_visit(void *context, const void *element, size_t len) {
    (void)len;
    return calls_compare(context, element, 8, element, 8);
}

static int calls_visit_entry(void *context, const void *key, size_t key_len, const void *value, size_t value_len) {
    return calls_compare(context, key, key_len, value, value_len);
}

static void callbacks_that_call(void) {
    memfold_options small = small_options(4096, 3);
    memfold_heap *heap = new_heap(&small);
    memfold_session *session = session_of_all = open_session(heap);
    memfold_slablist_options options = memfold_default_slablist_options();
    memfold_slabmap *map;
    int said;
    options.compare = calls_compare;
    options.context = &session_of_all;
    OK(memfold_slablist_new(session, &options, &list_of_all));
    for (uint64_t i = 0; i < 500; i++) OK(memfold_slablist_add_u64(list_of_all, i * 77 % 500, NULL));
    OK(memfold_slablist_foldl(list_of_all, 0, 10, calls_visit, &session_of_all, &said));
    OK(memfold_slabmap_new(session, NULL, &map));
    uint64_t number = 9;
    OK(memfold_slabmap_put(map, &number, 8, &number, 8, NULL));
    OK(memfold_slabmap_foldr(map, 0, 10, calls_visit_entry, &session_of_all, &said));
    OK(memfold_slablist_check(list_of_all));
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
}

static int adds_up(void *context, const void *element, size_t len) {
    *(uint64_t *)context += sum_of(element, len) * 31 + len;
    return 0;
}

/* Whatever an order answers, all elements stay in the list, which can be used and freed. */
static void orders_that_lie(uint32_t kind, uint32_t flags) {
    memfold_options small = small_options(4096, 3);
    memfold_heap *heap = new_heap(&small);
    memfold_session *session = open_session(heap);
    memfold_slablist_options options = memfold_default_slablist_options();
    struct own_order own = {0, 1};
    memfold_slablist *list, *part;
    memfold_stats stats;
    uint64_t state = kind, sum = 0, found = 0, len, count = 0;
    int is, order, steps = getenv("MEMFOLD_TEST_QUICK") ? 600 : 6000;
    options.elements = kind;
    options.flags = flags;
    options.compare = by_sums;
    options.context = &own;
    OK(memfold_slablist_new(session, &options, &list));
    for (int i = 0; i < steps; i++) {
        struct element *e = some_element(kind, &state);
        int added = 1;
        if (flags & MEMFOLD_ORDERED) OK(memfold_slablist_push(list, e->bytes, e->len));
        else OK(memfold_slablist_add(list, e->bytes, e->len, &added));
        if (added) {
            adds_up(&sum, e->bytes, e->len);
            count++;
        }
        if (!(flags & MEMFOLD_ORDERED)) OK(memfold_slablist_contains(list, e->bytes, e->len, &is));
        free(e);
    }
    if (flags & MEMFOLD_ORDERED) OK(memfold_slablist_sort(list));
    OK(memfold_slablist_len(list, &len));
    CHECK(len == count && count > 100 && own.calls > 500);
    OK(memfold_slablist_foldl(list, 0, UINT64_MAX, adds_up, &found, NULL));
    CHECK(found == sum);
    OK(memfold_slablist_extract(list, len / 3, len / 2, &part));
    OK(memfold_slablist_compare(list, part, &order));
    found = 0;
    OK(memfold_slablist_foldr(list, 0, UINT64_MAX, adds_up, &found, NULL));
    OK(memfold_slablist_foldr(part, 0, UINT64_MAX, adds_up, &found, NULL));
    CHECK(found == sum);
    int checked = memfold_slablist_check(list);
    CHECK(checked == (flags & MEMFOLD_ORDERED ? MEMFOLD_OK : MEMFOLD_VIOLATION));
    for (uint64_t i = 0; i < 300; i++) {
        struct element *e = some_element(kind, &state);
        if (!(flags & MEMFOLD_ORDERED)) {
            OK(memfold_slablist_remove(list, e->bytes, e->len, &is));
            OK(memfold_slablist_replace(list, e->bytes, e->len, &is));
        }
        free(e);
    }
    OK(memfold_slablist_free(list));
    OK(memfold_slablist_free(part));
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 0);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

static int fails;

static size_t compress(void *context, const void *block, size_t len, void *to, size_t room) {
    (void)context;
    return shorten(block, len, to, room);
}

static size_t decompress(void *context, const void *from, size_t from_len, void *block, size_t len) {
    int *countdown = context;
    if (fails && *countdown > 0) --*countdown;
    return fails && *countdown == 0 ? 0 : lengthen(from, from_len, block, len);
}

/* Operations that fail because a block cannot be restored change nothing: the list has the results of the
 * others. */
static void blocks_that_do_not_come_back(uint32_t elements) {
    memfold_options small = small_options(4096, 2);
    int countdown = 0, failed = 0, done = 0, steps = getenv("MEMFOLD_TEST_QUICK") ? 1000 : 10000;
    uint64_t state = elements, sum = 0, found = 0;
    small.compress = compress;
    small.decompress = decompress;
    small.context = &countdown;
    memfold_heap *heap = new_heap(&small);
    memfold_session *session = open_session(heap);
    memfold_slablist_options options = memfold_default_slablist_options();
    memfold_slablist *list, *part;
    options.elements = elements;
    options.flags = MEMFOLD_MANY;
    OK(memfold_slablist_new(session, &options, &list));
    fails = 0;
    for (int i = 0; i < 5000; i++) {
        struct element *e = some_element(elements, &state);
        OK(memfold_slablist_add(list, e->bytes, e->len, NULL));
        adds_up(&sum, e->bytes, e->len);
        free(e);
    }
    for (int i = 0; i < steps; i++) {
        struct element *e = some_element(elements, &state);
        uint64_t part_sum = 0, from = below(&state, 5000);
        int error, is = 0;
        /* Some blocks can be restored, the next one cannot. */
        countdown = (int)below(&state, 6);
        fails = 1;
        switch (below(&state, 8)) {
        case 0:
            error = memfold_slablist_extract(list, from, from + 50, &part);
            fails = 0;
            if (error != MEMFOLD_OK) break;
            OK(memfold_slablist_foldl(part, 0, UINT64_MAX, adds_up, &part_sum, NULL));
            OK(memfold_slablist_free(part));
            sum -= part_sum;
            break;
        case 1:
        case 2:
        case 3:
            error = memfold_slablist_remove(list, e->bytes, e->len, &is);
            if (error == MEMFOLD_OK && is) adds_up(&part_sum, e->bytes, e->len);
            sum -= part_sum;
            break;
        default:
            error = memfold_slablist_add(list, e->bytes, e->len, NULL);
            if (error == MEMFOLD_OK) adds_up(&sum, e->bytes, e->len);
        }
        if (error != MEMFOLD_OK) CHECK(error == MEMFOLD_DAMAGED);
        failed += error != MEMFOLD_OK;
        done += error == MEMFOLD_OK;
        fails = 0;
        free(e);
        if (i % 100 == 0) {
            found = 0;
            OK(memfold_slablist_foldl(list, 0, UINT64_MAX, adds_up, &found, NULL));
            if (found != sum) FAIL("elements %u, %d: %llu, not %llu", elements, i, (unsigned long long)found, (unsigned long long)sum);
            OK(memfold_slablist_check(list));
        }
    }
    if (failed < steps / 20 || done < steps / 20) FAIL("%d failed, %d did not", failed, done);
    OK(memfold_slablist_free(list));
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

int main(void) {
    callbacks_that_call();
    for (uint32_t kind = MEMFOLD_U64; kind <= MEMFOLD_BYTES; kind += 3) {
        orders_that_lie(kind, MEMFOLD_MANY);
        orders_that_lie(kind, MEMFOLD_ORDERED);
        orders_that_lie(kind, 0);
    }
    blocks_that_do_not_come_back(MEMFOLD_U64);
    blocks_that_do_not_come_back(MEMFOLD_BYTES);
    puts("slabcallbacks: ok");
    return 0;
}
