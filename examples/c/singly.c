/* A singly linked list: each node has the handle of the next one. Nodes are copied out, changed, and copied back.
 *
 * usage: singly [NODES] */
#include "example.h"

struct node {
    memfold_handle next;
    long number;
};

int main(int argc, char **argv) {
    const long count = argc > 1 ? atol(argv[1]) : 200000;
    memfold_heap *heap;
    memfold_session *session;
    memfold_handle head = MEMFOLD_NO_NODE, after;
    struct node node;
    long sum = 0;

    TRY(memfold_heap_new(NULL, &heap));
    TRY(memfold_session_open(heap, &session));

    /* Add each new node at the front. */
    for (long i = 0; i < count; i++) {
        memfold_handle made;
        TRY(memfold_alloc(session, sizeof node, &made));
        node.next = head;
        node.number = i;
        TRY(memfold_write_at(session, made, 0, &node, sizeof node));
        head = made;
    }

    /* Insert a node after the first one: it takes over the first one's link. */
    struct node first;
    TRY(memfold_read_at(session, head, 0, &first, sizeof first));
    TRY(memfold_alloc_near(session, sizeof node, head, &after));
    node.next = first.next;
    node.number = 1000000;
    TRY(memfold_write_at(session, after, 0, &node, sizeof node));
    first.next = after;
    TRY(memfold_write_at(session, head, 0, &first, sizeof first));

    /* Walk. */
    for (memfold_handle at = head; at != MEMFOLD_NO_NODE; at = node.next) {
        TRY(memfold_read_at(session, at, 0, &node, sizeof node));
        sum += node.number;
    }
    EXPECT(sum == count * (count - 1) / 2 + 1000000);
    say(heap, "singly linked list");

    /* Free. */
    while (head != MEMFOLD_NO_NODE) {
        TRY(memfold_read_at(session, head, 0, &node, sizeof node));
        TRY(memfold_free(session, head));
        head = node.next;
    }
    TRY(memfold_session_close(session));
    TRY(memfold_heap_check(heap));
    TRY(memfold_heap_destroy(heap));
    return 0;
}
