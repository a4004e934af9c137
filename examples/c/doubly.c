/* A doubly linked list, in a heap with its own options. Single fields are written in place.
 *
 * usage: doubly [NODES] */
#include "example.h"

#include <stddef.h>

struct node {
    memfold_handle next, prev;
    int number;
};

static memfold_session *session;
static memfold_handle head, tail;

static void link_to(memfold_handle node, size_t field, memfold_handle to) {
    TRY(memfold_write_at(session, node, field, &to, sizeof to));
}

static void append(int number) {
    memfold_handle made;
    TRY(memfold_alloc(session, sizeof(struct node), &made));
    TRY(memfold_write_at(session, made, offsetof(struct node, number), &number, sizeof number));
    if (tail == MEMFOLD_NO_NODE) head = made;
    else {
        link_to(tail, offsetof(struct node, next), made);
        link_to(made, offsetof(struct node, prev), tail);
    }
    tail = made;
}

static void take_out(memfold_handle which) {
    struct node node;
    TRY(memfold_read_at(session, which, 0, &node, sizeof node));
    if (node.prev == MEMFOLD_NO_NODE) head = node.next;
    else link_to(node.prev, offsetof(struct node, next), node.next);
    if (node.next == MEMFOLD_NO_NODE) tail = node.prev;
    else link_to(node.next, offsetof(struct node, prev), node.prev);
    TRY(memfold_free(session, which));
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 50000;
    memfold_options options = memfold_default_options();
    memfold_heap *heap;
    struct node node;
    int numbers = 0;

    options.block_size = 16 << 10;
    options.limit_blocks = 10;
    options.codec = "lz4";
    TRY(memfold_heap_new(&options, &heap));
    TRY(memfold_session_open(heap, &session));
    for (int i = 0; i < count; i++) append(i);

    /* Remove every third node. */
    memfold_handle at = head, next;
    for (int i = 0; at != MEMFOLD_NO_NODE; i++, at = next) {
        TRY(memfold_read_at(session, at, 0, &node, sizeof node));
        next = node.next;
        if (i % 3 == 0) take_out(at);
    }

    /* Walk the rest backwards. */
    for (at = tail; at != MEMFOLD_NO_NODE; at = node.prev) {
        TRY(memfold_read_at(session, at, 0, &node, sizeof node));
        EXPECT(node.number % 3 != 0);
        numbers++;
    }
    EXPECT(numbers == count - (count + 2) / 3);
    say(heap, "doubly linked list");
    while (head != MEMFOLD_NO_NODE) take_out(head);
    TRY(memfold_session_close(session));
    TRY(memfold_heap_check(heap));
    TRY(memfold_heap_destroy(heap));
    return 0;
}
