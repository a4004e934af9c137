/* A binary tree of words: each node has two links, followed by a text of any length.
 *
 * usage: tree [WORDS] */
#include "example.h"

#include <stddef.h>
#include <string.h>

struct node {
    memfold_handle left, right;
    unsigned count;
    char word[32];
};

static memfold_session *session;
static memfold_handle root;

/* Counts a word; a new word gets a new node. */
static void count(const char *word) {
    struct node node;
    memfold_handle parent = MEMFOLD_NO_NODE, at = root;
    size_t field = 0, size;
    while (at != MEMFOLD_NO_NODE) {
        TRY(memfold_read(session, at, &node, sizeof node, &size));
        int order = strcmp(word, node.word);
        if (order == 0) {
            node.count++;
            TRY(memfold_write_at(session, at, offsetof(struct node, count), &node.count, sizeof node.count));
            return;
        }
        parent = at;
        field = order < 0 ? offsetof(struct node, left) : offsetof(struct node, right);
        at = order < 0 ? node.left : node.right;
    }
    memset(&node, 0, sizeof node);
    node.count = 1;
    strncpy(node.word, word, sizeof node.word - 1);
    size = offsetof(struct node, word) + strlen(node.word) + 1;
    TRY(memfold_alloc(session, size, &at));
    TRY(memfold_write_at(session, at, 0, &node, size));
    if (parent == MEMFOLD_NO_NODE) root = at;
    else TRY(memfold_write_at(session, parent, field, &at, sizeof at));
}

/* Walks the tree in order; returns how many words were counted. */
static unsigned long walk(memfold_handle at, char *before) {
    struct node node;
    if (at == MEMFOLD_NO_NODE) return 0;
    TRY(memfold_read(session, at, &node, sizeof node, NULL));
    unsigned long sum = walk(node.left, before);
    EXPECT(strcmp(before, node.word) < 0);
    strcpy(before, node.word);
    return sum + node.count + walk(node.right, before);
}

static void free_all(memfold_handle at) {
    struct node node;
    if (at == MEMFOLD_NO_NODE) return;
    TRY(memfold_read(session, at, &node, sizeof node, NULL));
    free_all(node.left);
    free_all(node.right);
    TRY(memfold_free(session, at));
}

int main(int argc, char **argv) {
    const unsigned words = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
    memfold_heap *heap;
    unsigned random = 1;
    char word[40], before[40] = "";

    TRY(memfold_heap_new(NULL, &heap));
    TRY(memfold_session_open(heap, &session));
    for (unsigned i = 0; i < words; i++) {
        random = random * 1103515245u + 12345u;
        snprintf(word, sizeof word, "word number %u", (random >> 8) % (words / 5 + 1));
        count(word);
    }
    EXPECT(walk(root, before) == words);
    say(heap, "binary tree");
    free_all(root);
    TRY(memfold_session_close(session));
    TRY(memfold_heap_check(heap));
    TRY(memfold_heap_destroy(heap));
    return 0;
}
