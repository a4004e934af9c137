/* A circular list: the last node links to the first one. Going round, every third node is removed until one
 * is left (the Josephus problem). Nodes are pinned and used through pointers.
 *
 * usage: circular [NODES] */
#include "example.h"

struct node {
    memfold_handle next;
    unsigned number;
};

int main(int argc, char **argv) {
    const unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 20000, every = 3;
    memfold_heap *heap;
    memfold_session *session;
    memfold_handle first = MEMFOLD_NO_NODE, last = MEMFOLD_NO_NODE;

    TRY(memfold_heap_new(NULL, &heap));
    TRY(memfold_session_open(heap, &session));
    for (unsigned i = 0; i < count; i++) {
        memfold_handle made;
        void *bytes;
        TRY(memfold_alloc(session, sizeof(struct node), &made));
        if (first == MEMFOLD_NO_NODE) first = made;
        TRY(memfold_pin_mut(session, made, &bytes));
        *(struct node *)bytes = (struct node){.next = first, .number = i + 1};
        TRY(memfold_unpin(session, made));
        if (last != MEMFOLD_NO_NODE) {
            TRY(memfold_pin_mut(session, last, &bytes));
            ((struct node *)bytes)->next = made;
            TRY(memfold_unpin(session, last));
        }
        last = made;
    }
    say(heap, "circular list");

    /* `last` is always the node before the one that counts next. */
    for (unsigned left = count; left > 1; left--) {
        for (unsigned step = 1; step < every; step++) {
            const void *bytes;
            TRY(memfold_pin(session, last, &bytes));
            memfold_handle next = ((const struct node *)bytes)->next;
            TRY(memfold_unpin(session, last));
            last = next;
        }
        void *before;
        const void *out;
        TRY(memfold_pin_mut(session, last, &before));
        memfold_handle goes = ((struct node *)before)->next;
        TRY(memfold_pin(session, goes, &out));
        ((struct node *)before)->next = ((const struct node *)out)->next;
        TRY(memfold_unpin(session, goes));
        TRY(memfold_unpin(session, last));
        TRY(memfold_free(session, goes));
    }

    /* The known answer: with each further node in the circle, the survivor is three places further on. */
    unsigned survivor = 0;
    for (unsigned n = 2; n <= count; n++) survivor = (survivor + every) % n;
    struct node node;
    TRY(memfold_read_at(session, last, 0, &node, sizeof node));
    printf("of %u, number %u is left\n", count, node.number);
    EXPECT(node.number == survivor + 1 && node.next == last);

    TRY(memfold_free(session, last));
    TRY(memfold_session_close(session));
    TRY(memfold_heap_check(heap));
    TRY(memfold_heap_destroy(heap));
    return 0;
}
