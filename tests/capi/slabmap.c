/* Slab maps with keys of all kinds against plain arrays, with so few resident blocks that everything is
 * evicted all the time.
 *
 * usage: slabmap [SEED] */
#include "slab_elements.h"

static struct model keys;
static struct element *values[PLACES];
static memfold_slabmap *map;

static void take_out(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) free(values[i]);
    memmove(&values[from], &values[to], (keys.len - to) * sizeof *values);
    model_remove(&keys, from, to);
}

struct walk {
    size_t at;
    int step;
    size_t stop;
};

static int visit(void *context, const void *key, size_t key_len, const void *value, size_t value_len) {
    struct walk *walk = context;
    CHECK(walk->at < keys.len);
    CHECK(is_element(keys.all[walk->at], key, key_len) && is_element(values[walk->at], value, value_len));
    walk->at += (size_t)walk->step;
    return walk->stop && --walk->stop == 0 ? -3 : 0;
}

static void same_all(void) {
    uint64_t len;
    size_t bytes;
    int said = 1;
    struct walk walk = {0, 1, 0};
    OK(memfold_slabmap_len(map, &len));
    CHECK(len == keys.len);
    OK(memfold_slabmap_foldl(map, 0, UINT64_MAX, visit, &walk, &said));
    CHECK(walk.at == keys.len && said == 0);
    walk = (struct walk){keys.len - 1, -1, 0};
    OK(memfold_slabmap_foldr(map, 0, UINT64_MAX, visit, &walk, NULL));
    CHECK(walk.at == (size_t)-1);
    OK(memfold_slabmap_check(map));
    OK(memfold_slabmap_own_bytes(map, &bytes));
    CHECK(bytes > 0);
}

/* An operation of maps with a key. */
static void step(struct element *key, uint64_t *state) {
    size_t low = rank_of(&keys, key, 0), high = rank_of(&keys, key, 1), len = 0;
    int is = -1, there = low < high;
    unsigned char bytes[LONGEST];
    uint64_t position;
    struct element *value = some_element(MEMFOLD_BYTES, state);
    switch (below(state, 10)) {
    case 0:
    case 1:
        OK(memfold_slabmap_remove(map, key->bytes, key->len, &is));
        CHECK(is == there);
        if (there) take_out(low, high);
        break;
    case 2:
        OK(memfold_slabmap_lower_bound(map, key->bytes, key->len, &position));
        CHECK(position == low);
        OK(memfold_slabmap_upper_bound(map, key->bytes, key->len, &position));
        CHECK(position == high);
        break;
    case 3:
    case 4:
        OK(memfold_slabmap_contains(map, key->bytes, key->len, &is));
        CHECK(is == there);
        if (!there) {
            FAILS(MEMFOLD_NO_ELEMENT, memfold_slabmap_get(map, key->bytes, key->len, bytes, sizeof bytes, &len));
            break;
        }
        OK(memfold_slabmap_get(map, key->bytes, key->len, bytes, sizeof bytes, &len));
        CHECK(is_element(values[low], bytes, len));
        if (len) FAILS(MEMFOLD_RANGE, memfold_slabmap_get(map, key->bytes, key->len, bytes, len - 1, &len));
        CHECK(len == values[low]->len);
        break;
    default:
        OK(memfold_slabmap_put(map, key->bytes, key->len, value->bytes, value->len, &is));
        CHECK(is == there);
        if (there) {
            free(keys.all[low]);
            free(values[low]);
            keys.all[low] = key;
        } else {
            memmove(&values[low + 1], &values[low], (keys.len - low) * sizeof *values);
            model_insert(&keys, low, key);
        }
        values[low] = value;
        return;
    }
    free(key);
    free(value);
}

static void positions_step(uint64_t *state, int full) {
    unsigned char key[LONGEST], value[LONGEST];
    size_t from = below(state, keys.len + 1), len = below(state, full ? 300 : 30), key_len = 0, value_len = 0;
    size_t to = from + len < keys.len ? from + len : keys.len;
    struct walk walk = {from, 1, 1 + len / 2};
    uint64_t count = 99;
    int said;
    switch (below(state, 4)) {
    case 0:
        OK(memfold_slabmap_remove_range(map, from, from + len, &count));
        CHECK(count == to - from);
        take_out(from, to);
        break;
    case 1:
        OK(memfold_slabmap_foldl(map, from, from + len, visit, &walk, &said));
        CHECK(said == (1 + len / 2 <= to - from ? -3 : 0));
        break;
    case 2: OK(memfold_slabmap_reap(map, &count)); break;
    default:
        if (from == keys.len) {
            FAILS(MEMFOLD_NO_ELEMENT, memfold_slabmap_at(map, from, key, sizeof key, &key_len, value, sizeof value, &value_len));
            break;
        }
        OK(memfold_slabmap_at(map, from, key, sizeof key, &key_len, value, sizeof value, &value_len));
        CHECK(is_element(keys.all[from], key, key_len) && is_element(values[from], value, value_len));
        if (!value_len) break;
        memset(key, 0xee, sizeof key);
        size_t before = key_len;
        key_len = 0;
        FAILS(MEMFOLD_RANGE, memfold_slabmap_at(map, from, key, sizeof key, &key_len, value, value_len - 1, NULL));
        CHECK(key_len == before && key[0] == 0xee);
    }
}

static void run(memfold_slabmap_options options, uint64_t seed, int steps) {
    memfold_options small = small_options(4096, 3);
    memfold_heap *heap = new_heap(&small);
    memfold_session *session = open_session(heap);
    memfold_stats stats;
    uint64_t state = seed;
    struct own_order own = {0, 0};
    static struct own_order models;
    memset(&keys, 0, sizeof keys);
    keys.order = options.compare ? options.compare : natural[options.keys];
    keys.context = &models;
    options.context = &own;
    OK(memfold_slabmap_new(session, &options, &map));
    for (int i = 0; i < steps; i++) {
        int full = keys.len > 2000 || (i > steps / 2 && i < steps * 2 / 3);
        step(some_element(options.keys, &state), &state);
        if (i % (full ? 8 : 64) == 3) positions_step(&state, full);
        if (i % 500 == 0) same_all();
    }
    same_all();
    CHECK((own.calls > 0) == (options.compare != NULL));
    if (keys.len < 30) FAIL("only %zu keys", keys.len);
    OK(memfold_slabmap_clear(map));
    take_out(0, keys.len);
    same_all();
    uint64_t number = 0;
    for (; number < 100; number++) OK(memfold_slabmap_put(map, &number, sizeof number, &number, 3, NULL));
    OK(memfold_slabmap_free(map));
    FAILS(MEMFOLD_NO_LIST, memfold_slabmap_free(map));
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes == 0);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
}

int main(int count, char **arguments) {
    uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 0) : 1;
    /* Under valgrind everything takes fifty times as long. */
    int steps = getenv("MEMFOLD_TEST_QUICK") ? 700 : 9000;
    for (uint32_t kind = MEMFOLD_U64; kind <= MEMFOLD_BYTES; kind++) {
        memfold_slabmap_options options = memfold_default_slabmap_options();
        options.keys = kind;
        run(options, seed++, steps);
        options.compare = by_sums;
        options.reap_least_slabs = 3;
        run(options, seed++, steps);
    }
    printf("slabmap %llu: ok\n", (unsigned long long)seed);
    return 0;
}
