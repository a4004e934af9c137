/* Slab lists of all kinds against a plain array, with so few resident blocks that everything is evicted all
 * the time.
 *
 * usage: slablist [SEED] */
#include "slab_elements.h"

enum { CURSORS = 4 };

struct cursor {
    memfold_cursor cursor;
    size_t number;
    int gap;
};

static struct model model;
static memfold_slablist *list;
static struct cursor cursors[CURSORS];
static int circular;

static void note_inserted(size_t at) {
    for (int i = 0; i < CURSORS; i++)
        if (cursors[i].cursor && (at < cursors[i].number || (at == cursors[i].number && !cursors[i].gap))) cursors[i].number++;
}

static void note_removed(size_t from, size_t to) {
    for (int i = 0; i < CURSORS && from < to; i++) {
        if (cursors[i].number >= to) cursors[i].number -= to - from;
        else if (cursors[i].number >= from) cursors[i].gap = 1, cursors[i].number = from;
    }
}

static void insert(size_t at, struct element *e) {
    model_insert(&model, at, e);
    note_inserted(at);
}

static void take_out(size_t from, size_t to) {
    model_remove(&model, from, to);
    note_removed(from, to);
}

struct walk {
    size_t at, end;
    int step;
    size_t stop;
};

static int visit(void *context, const void *element, size_t len) {
    struct walk *walk = context;
    CHECK(walk->at != walk->end && is_element(model.all[walk->at], element, len));
    walk->at += (size_t)walk->step;
    return walk->stop && --walk->stop == 0 ? 77 : 0;
}

/* Checks that the list has the model's elements in a range. */
static void same(memfold_slablist *of, size_t from, size_t to) {
    int said = -1;
    struct walk walk = {from, to, 1, 0};
    OK(memfold_slablist_foldl(of, from, to, visit, &walk, &said));
    CHECK(walk.at == to && said == 0);
    walk = (struct walk){to - 1, from - 1, -1, 0};
    OK(memfold_slablist_foldr(of, from, to, visit, &walk, NULL));
    CHECK(walk.at == from - 1);
}

static void same_all(void) {
    uint64_t len;
    size_t bytes;
    OK(memfold_slablist_len(list, &len));
    CHECK(len == model.len);
    same(list, 0, model.len);
    OK(memfold_slablist_check(list));
    OK(memfold_slablist_own_bytes(list, &bytes));
    /* A short list has its elements in plain memory, up to 4 KiB. */
    CHECK(bytes > 0 && bytes < 6000 + 16 * model.len);
}

static void get(uint64_t position) {
    unsigned char bytes[LONGEST];
    size_t len = 12345;
    if (position >= model.len) {
        FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_get(list, position, bytes, sizeof bytes, &len));
        CHECK(len == 12345);
        return;
    }
    const struct element *e = model.all[position];
    OK(memfold_slablist_get(list, position, bytes, sizeof bytes, &len));
    CHECK(is_element(e, bytes, len));
    if (!e->len) return;
    memset(bytes, 0xee, sizeof bytes);
    len = 0;
    FAILS(MEMFOLD_RANGE, memfold_slablist_get(list, position, bytes, e->len - 1, &len));
    CHECK(len == e->len && bytes[0] == 0xee);
    FAILS(MEMFOLD_RANGE, memfold_slablist_get(list, position, NULL, 0, NULL));
    OK(memfold_slablist_get(list, position, bytes, e->len, NULL));
    CHECK(is_element(e, bytes, e->len));
}

/* An operation of sorted lists with an element. */
static void sorted_step(struct element *e, uint64_t *state) {
    size_t low = rank_of(&model, e, 0), high = rank_of(&model, e, 1);
    int is = -1, there = low < high;
    uint64_t position = 0;
    switch (below(state, 10)) {
    case 0:
        OK(memfold_slablist_replace(list, e->bytes, e->len, &is));
        CHECK(is == there);
        if (there) {
            free(model.all[high - 1]);
            model.all[high - 1] = e;
        } else insert(high, e);
        return;
    case 1:
    case 2:
        OK(memfold_slablist_remove(list, e->bytes, e->len, &is));
        CHECK(is == there);
        if (there) take_out(high - 1, high);
        break;
    case 3:
        OK(memfold_slablist_contains(list, e->bytes, e->len, &is));
        CHECK(is == there);
        if (there) OK(memfold_slablist_find(list, e->bytes, e->len, &position));
        else FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_find(list, e->bytes, e->len, &position));
        CHECK(position == (there ? high - 1 : 0));
        OK(memfold_slablist_lower_bound(list, e->bytes, e->len, &position));
        CHECK(position == low);
        OK(memfold_slablist_upper_bound(list, e->bytes, e->len, &position));
        CHECK(position == high);
        break;
    default:
        OK(memfold_slablist_add(list, e->bytes, e->len, &is));
        CHECK(is == (model.many || !there));
        if (is) {
            insert(high, e);
            return;
        }
    }
    free(e);
}

/* The model's sort: a bottom-up merge sort. */
static void sort_model(void) {
    static struct element *merged[PLACES];
    for (size_t width = 1; width < model.len; width *= 2)
        for (size_t from = 0; from < model.len; from += 2 * width) {
            size_t middle = from + width < model.len ? from + width : model.len, to = middle + width < model.len ? middle + width : model.len;
            for (size_t a = from, b = middle, n = from; n < to; n++)
                merged[n] = a < middle && (b == to || order_of(&model, model.all[b], model.all[a]) >= 0) ? model.all[a++] : model.all[b++];
            memcpy(&model.all[from], &merged[from], (to - from) * sizeof *merged);
        }
}

/* An operation of ordered lists with an element. */
static void ordered_step(struct element *e, uint64_t *state) {
    size_t at = below(state, model.len + 1);
    switch (below(state, 40)) {
    case 0:
        OK(memfold_slablist_sort(list));
        sort_model();
        break;
    case 1:
        OK(memfold_slablist_reverse(list));
        for (size_t i = 0; i < model.len / 2; i++) {
            struct element *other = model.all[i];
            model.all[i] = model.all[model.len - 1 - i];
            model.all[model.len - 1 - i] = other;
        }
        for (int i = 0; i < CURSORS; i++)
            if (cursors[i].cursor) cursors[i].number = model.len - (cursors[i].number + !cursors[i].gap);
        break;
    default:
        switch (below(state, 4)) {
        case 0:
            OK(memfold_slablist_push(list, e->bytes, e->len));
            insert(model.len, e);
            return;
        case 1:
            if (at == model.len) {
                FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_set_at(list, at, e->bytes, e->len));
                break;
            }
            OK(memfold_slablist_set_at(list, at, e->bytes, e->len));
            free(model.all[at]);
            model.all[at] = e;
            return;
        case 2: FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_insert_at(list, model.len + 1, e->bytes, e->len)); break;
        default:
            OK(memfold_slablist_insert_at(list, at, e->bytes, e->len));
            insert(at, e);
            return;
        }
    }
    free(e);
}

static void cursor_step(uint64_t *state) {
    struct cursor *c = &cursors[below(state, CURSORS)];
    uint64_t position = 0;
    unsigned char bytes[LONGEST];
    size_t len;
    if (!c->cursor) {
        size_t at = below(state, model.len + 1);
        if (at == model.len) FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_cursor_new(list, at, &c->cursor));
        else {
            OK(memfold_slablist_cursor_new(list, at, &c->cursor));
            c->number = at, c->gap = 0;
        }
        return;
    }
    if (c->gap) {
        FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_cursor_position(list, c->cursor, &position));
        FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_cursor_get(list, c->cursor, bytes, sizeof bytes, &len));
    } else {
        OK(memfold_slablist_cursor_position(list, c->cursor, &position));
        CHECK(position == c->number);
        OK(memfold_slablist_cursor_get(list, c->cursor, bytes, sizeof bytes, &len));
        CHECK(is_element(model.all[position], bytes, len));
    }
    size_t to;
    int is;
    switch (below(state, 8)) {
    case 0:
        OK(memfold_slablist_cursor_free(list, c->cursor));
        FAILS(MEMFOLD_NO_LIST, memfold_slablist_cursor_free(list, c->cursor));
        FAILS(MEMFOLD_NO_LIST, memfold_slablist_cursor_next(list, c->cursor));
        c->cursor = 0;
        return;
    case 1:
    case 2:
    case 3:
        is = c->number > 0 || (circular && model.len);
        to = c->number > 0 ? c->number - 1 : model.len - 1;
        FAILS(is ? MEMFOLD_OK : MEMFOLD_NO_ELEMENT, memfold_slablist_cursor_previous(list, c->cursor));
        break;
    default:
        to = c->number + !c->gap;
        is = to < model.len || (circular && model.len);
        if (is) to %= model.len;
        FAILS(is ? MEMFOLD_OK : MEMFOLD_NO_ELEMENT, memfold_slablist_cursor_next(list, c->cursor));
    }
    if (is) c->number = to, c->gap = 0;
}

/* An operation of all lists with positions. */
static void positions_step(uint64_t *state, int full) {
    size_t from = below(state, model.len + 1), len = below(state, full ? 400 : 30);
    size_t to = from + len < model.len ? from + len : model.len;
    uint64_t count = 99;
    int said, order;
    struct walk walk = {from, to, 1, 1 + len / 2};
    memfold_slablist *part;
    switch (below(state, 6)) {
    case 0:
        OK(memfold_slablist_remove_range(list, from, from + len, &count));
        CHECK(count == to - from);
        take_out(from, to);
        break;
    case 1:
        if (from == model.len) FAILS(MEMFOLD_NO_ELEMENT, memfold_slablist_remove_at(list, from));
        else {
            OK(memfold_slablist_remove_at(list, from));
            take_out(from, from + 1);
        }
        break;
    case 2:
        OK(memfold_slablist_foldl(list, from, from + len, visit, &walk, &said));
        CHECK(said == (1 + len / 2 <= to - from ? 77 : 0));
        break;
    case 3:
        OK(memfold_slablist_extract(list, from, from + len, &part));
        OK(memfold_slablist_len(part, &count));
        CHECK(count == to - from);
        OK(memfold_slablist_check(part));
        /* They are the model's elements from that position on. */
        for (size_t i = 0; i < count; i++) {
            unsigned char bytes[LONGEST];
            OK(memfold_slablist_get(part, i, bytes, sizeof bytes, &len));
            CHECK(is_element(model.all[from + i], bytes, len));
        }
        OK(memfold_slablist_compare(part, list, &order));
        CHECK(count || order == (to - from < model.len ? -1 : 0));
        OK(memfold_slablist_free(part));
        take_out(from, to);
        break;
    case 4: OK(memfold_slablist_reap(list, &count)); break;
    default: same(list, from, to);
    }
}

static void run(memfold_slablist_options options, uint64_t seed, int steps) {
    memfold_options small = small_options(4096, 3);
    memfold_heap *heap = new_heap(&small);
    memfold_session *session = open_session(heap);
    memfold_stats stats;
    uint64_t state = seed;
    struct own_order own = {0, 0};
    const char *name;
    memset(&model, 0, sizeof model);
    memset(cursors, 0, sizeof cursors);
    options.name = "a list";
    /* The model has a context of its own, so that only the list's calls are counted. */
    static struct own_order models;
    model.order = options.compare ? options.compare : natural[options.elements];
    model.context = &models;
    options.context = &own;
    model.ordered = options.flags & MEMFOLD_ORDERED;
    model.many = model.ordered || options.flags & MEMFOLD_MANY;
    circular = (options.flags & MEMFOLD_CIRCULAR) != 0;
    OK(memfold_slablist_new(session, &options, &list));
    OK(memfold_slablist_name(list, &name));
    CHECK(strcmp(name, "a list") == 0);
    for (int i = 0; i < steps; i++) {
        /* The list grows, shrinks, and grows again. */
        int full = model.len > 2000 || (i > steps / 2 && i < steps * 2 / 3);
        struct element *e = some_element(options.elements, &state);
        if (model.ordered) ordered_step(e, &state);
        else sorted_step(e, &state);
        if (i % 8 == 0) get(below(&state, model.len + 2));
        if (i % 16 == 1) cursor_step(&state);
        if (i % (full ? 8 : 64) == 3) positions_step(&state, full);
        if (i % 500 == 0) same_all();
    }
    same_all();
    CHECK((own.calls > 0) == (options.compare != NULL) && model.len > 50);
    OK(memfold_heap_stats(heap, &stats, sizeof stats));
    CHECK(stats.nodes > 0);
    OK(memfold_slablist_clear(list));
    take_out(0, model.len);
    same_all();
    OK(memfold_slablist_free(list));
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
        memfold_slablist_options options = memfold_default_slablist_options();
        options.elements = kind;
        run(options, seed++, steps);
        options.flags = MEMFOLD_MANY;
        options.compare = by_sums;
        options.per_slab = 20;
        run(options, seed++, steps);
        options.flags = MEMFOLD_ORDERED | MEMFOLD_CIRCULAR;
        options.per_sublayer = 2;
        run(options, seed++, steps);
        options.compare = NULL;
        options.flags = MEMFOLD_ORDERED | MEMFOLD_NEVER_REAP;
        run(options, seed++, steps);
        options.flags = MEMFOLD_MANY | MEMFOLD_CIRCULAR;
        options.reap_least_slabs = 3;
        options.reap_least_percent = 30;
        run(options, seed++, steps);
    }
    printf("slablist %llu: ok\n", (unsigned long long)seed);
    return 0;
}
