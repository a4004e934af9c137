/* A typical client of compll: it nests reads and writes, and keeps pointers across a few calls. Everything is
 * compared with a model in memory from malloc. */
#ifndef COMPLL_ITEMS_H
#define COMPLL_ITEMS_H

#include "check.h"

#include <compll.h>

struct item {
    compll_t next;
    unsigned x, y;
    unsigned char bytes[];
};

#define R(node) ((const struct item *)there(compll_read(node)))
#define W(node) ((struct item *)(uintptr_t)there(compll_write(node)))

static inline const void *there(const void *node) {
    if (!node) FAIL("no pointer: %s", memfold_last_error());
    return node;
}

enum { ITEMS = 300, MOST_BYTES = 250, BLOCK = 1024 };

struct model {
    compll_t node;
    struct item *item;
    size_t len;
};

static unsigned compressed;
static enum { GOOD, TOO_MUCH, WRONG } lie;

static inline unsigned compress(const unsigned char *src, unsigned src_len, unsigned char *dest, unsigned dest_len) {
    __atomic_add_fetch(&compressed, 1, __ATOMIC_RELAXED);
    CHECK(dest_len >= src_len + src_len / 6 + 1024);
    unsigned made = (unsigned)shorten(src, src_len, dest, dest_len);
    return lie == TOO_MUCH ? dest_len + 1 : made;
}

static inline void decompress(const unsigned char *src, unsigned src_len, unsigned char *dest, unsigned dest_len) {
    size_t made = lengthen(src, src_len, dest, dest_len);
    CHECK(made == dest_len);
    if (lie == WRONG) dest[dest_len / 3] ^= 4;
}

static inline void same(const struct model *m) {
    const struct item *item = R(m->node);
    CHECK(item && memcmp(item, m->item, m->len) == 0);
}

/* A random live node. */
static inline struct model *any(struct model *all, uint64_t *state) {
    struct model *m;
    do m = &all[below(state, ITEMS)];
    while (!m->item);
    return m;
}

static inline void make(struct model *m, uint64_t *state) {
    size_t bytes = below(state, MOST_BYTES);
    m->len = sizeof(struct item) + bytes;
    m->node = compll_alloc((unsigned)m->len);
    CHECK(m->node != 0);
    m->item = calloc(1, m->len);
    same(m);
    memset(m->item->bytes, (int)below(state, 4), bytes);
    memcpy(W(m->node)->bytes, m->item->bytes, bytes);
}

/* `keeps`: how many blocks stay in place. */
static inline void step(struct model *all, uint64_t *state, unsigned keeps) {
    struct model *a = any(all, state), *b = any(all, state), *c;
    struct item *kept[8];
    struct model *of[8];
    unsigned value = (unsigned)next_random(state);
    switch (below(state, 10)) {
    case 0: /* The compiler chooses the order of the two calls. */
        W(a->node)->x += R(b->node)->y + value;
        a->item->x += b->item->y + value;
        break;
    case 1: { /* The program does. */
        struct item *to = W(a->node);
        const struct item *from = R(b->node);
        to->x = from->x + value;
        a->item->x = b->item->x + value;
        break;
    }
    case 2: {
        const struct item *from = R(b->node);
        struct item *to = W(a->node);
        to->y = from->x ^ value;
        a->item->y = b->item->x ^ value;
        break;
    }
    case 3: /* As many pointers as stay valid; all are used at the end. */
        for (unsigned i = 0; i < keeps; i++) {
            of[i] = any(all, state);
            kept[i] = W(of[i]->node);
        }
        for (unsigned i = 0; i < keeps; i++) {
            kept[i]->x = of[i]->item->x = value + i;
            if (of[i]->len > sizeof(struct item)) kept[i]->bytes[0] = of[i]->item->bytes[0] = (unsigned char)i;
        }
        break;
    case 4: { /* A pointer is kept while others are only read. */
        struct item *to = W(a->node);
        for (unsigned i = 1; i < keeps; i++) same(any(all, state));
        to->y = a->item->y = value;
        break;
    }
    case 5: { /* A pointer is kept while a node is freed and another is made. */
        struct item *to = W(a->node);
        do c = &all[below(state, ITEMS)];
        while (c == a);
        if (c->item) {
            compll_free(c->node);
            CHECK(compll_read(c->node) == NULL && compll_write(c->node) == NULL);
            free(c->item);
        }
        c->len = sizeof(struct item);
        c->node = compll_alloc(sizeof(struct item));
        CHECK(c->node != 0);
        c->item = calloc(1, c->len);
        to->x = a->item->x = value;
        break;
    }
    case 6: /* A link is followed. */
        W(a->node)->next = b->node;
        a->item->next = b->node;
        CHECK(memcmp(R(R(a->node)->next), b->item, b->len) == 0);
        break;
    case 7:
        compll_free(a->node);
        free(a->item);
        a->item = NULL;
        make(a, state);
        break;
    default: same(a);
    }
}

static inline struct model *make_all(uint64_t *state) {
    struct model *all = calloc(ITEMS, sizeof *all);
    for (int i = 0; i < ITEMS; i++) make(&all[i], state);
    return all;
}

static inline void free_all(struct model *all) {
    for (int i = 0; i < ITEMS; i++) {
        same(&all[i]);
        compll_free(all[i].node);
        free(all[i].item);
    }
    free(all);
}

static inline int init(unsigned uncomp_count) {
    return compll_init(BLOCK, 8, (unsigned short)uncomp_count, compress, decompress);
}

#endif
