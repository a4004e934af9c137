/* Elements of all kinds for the tests of slab lists and maps, and a plain array of them to compare with. */
#ifndef SLAB_ELEMENTS_H
#define SLAB_ELEMENTS_H

#include "check.h"

/* The longest elements are not in leaves, but in nodes of their own. */
enum { LONGEST = 900, PLACES = 4000 };

struct element {
    size_t len;
    unsigned char bytes[];
};

struct model {
    memfold_compare order;
    void *context;
    int many, ordered;
    size_t len;
    struct element *all[PLACES];
};

/* The context of the tests' own order, which compares sums of bytes, in descending order, so that different
 * elements may be equal. */
struct own_order {
    unsigned long calls;
    int lies;
};

static inline struct element *element_of(const void *bytes, size_t len) {
    struct element *e = malloc(sizeof *e + len);
    e->len = len;
    if (len) memcpy(e->bytes, bytes, len);
    return e;
}

static inline int is_element(const struct element *e, const void *bytes, size_t len) {
    return e->len == len && (len == 0 || memcmp(e->bytes, bytes, len) == 0);
}

/* A random element of a kind, one of not too many. */
static inline struct element *some_element(uint32_t kind, uint64_t *state) {
    uint64_t number = below(state, 3000);
    if (kind == MEMFOLD_U64) number = below(state, 50) ? number * number : next_random(state);
    if (kind == MEMFOLD_I64) number = below(state, 50) ? number - 1500 : next_random(state);
    if (kind == MEMFOLD_F64) {
        static const double special[] = {0.0, -0.0, 1e-310, -1e-310, 1e300 * 1e300, -1e300 * 1e300};
        double value = below(state, 20) ? ((double)number - 1500) / 8 : special[below(state, 6)];
        memcpy(&number, &value, 8);
        /* Any bits, including NaNs. */
        if (below(state, 50) == 0) number = next_random(state) | (below(state, 2) ? 0x7ff0000000000001u : 0);
    }
    if (kind != MEMFOLD_BYTES) return element_of(&number, 8);
    unsigned char bytes[LONGEST];
    int written = snprintf((char *)bytes, sizeof bytes, "element %05u", (unsigned)number);
    size_t len = number % 3 == 0 ? (size_t)written / 2 + number % 4 : (size_t)written;
    if (number % 211 == 0) memset(bytes + len, (int)number % 100, LONGEST - len), len = LONGEST;
    if (number == 7) len = 0;
    return element_of(bytes, len);
}

#define NATURAL(name, type, convert)                                                                    \
    static inline int name(void *context, const void *a, size_t a_len, const void *b, size_t b_len) {  \
        type x, y;                                                                                      \
        (void)context;                                                                                  \
        CHECK(a_len == 8 && b_len == 8);                                                                \
        memcpy(&x, a, 8), memcpy(&y, b, 8);                                                             \
        convert(x), convert(y);                                                                         \
        return (x > y) - (x < y);                                                                       \
    }
#define AS_IT_IS(x) (void)(x)
/* Negative doubles with greater lower bits are less. */
#define AS_A_DOUBLE(x) (x = x < 0 ? x ^ INT64_MAX : x)
NATURAL(natural_u64, uint64_t, AS_IT_IS)
NATURAL(natural_i64, int64_t, AS_IT_IS)
NATURAL(natural_f64, int64_t, AS_A_DOUBLE)

static inline int natural_bytes(void *context, const void *a, size_t a_len, const void *b, size_t b_len) {
    (void)context;
    size_t common = a_len < b_len ? a_len : b_len;
    int order = common ? memcmp(a, b, common) : 0;
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static const memfold_compare natural[] = {natural_u64, natural_i64, natural_f64, natural_bytes};

static inline unsigned sum_of(const unsigned char *bytes, size_t len) {
    unsigned sum = 0;
    for (size_t i = 0; i < len; i++) sum = (sum * 3 + bytes[i]) % 1021;
    return sum;
}

static inline int by_sums(void *context, const void *a, size_t a_len, const void *b, size_t b_len) {
    struct own_order *own = context;
    own->calls++;
    if (own->lies) return (int)(own->calls * 2654435761u >> 8 & 0xff) - 128;
    unsigned x = sum_of(a, a_len), y = sum_of(b, b_len);
    return (x < y) - (x > y);
}

static inline int order_of(const struct model *m, const struct element *a, const struct element *b) {
    return m->order(m->context, a->bytes, a->len, b->bytes, b->len);
}

/* How many elements are before this one; with `behind`, plus those equal to it. */
static inline size_t rank_of(const struct model *m, const struct element *e, int behind) {
    size_t from = 0, to = m->len;
    while (from < to) {
        size_t middle = (from + to) / 2;
        int order = order_of(m, m->all[middle], e);
        if (order < 0 || (behind && order == 0)) from = middle + 1;
        else to = middle;
    }
    return from;
}

static inline void model_insert(struct model *m, size_t at, struct element *e) {
    CHECK(m->len < PLACES && at <= m->len);
    memmove(&m->all[at + 1], &m->all[at], (m->len++ - at) * sizeof *m->all);
    m->all[at] = e;
}

static inline void model_remove(struct model *m, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) free(m->all[i]);
    memmove(&m->all[from], &m->all[to], (m->len - to) * sizeof *m->all);
    m->len -= to - from;
}

#endif
