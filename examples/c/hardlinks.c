/* A directory with hard links, as in figure 3.5 of the compll report: ncdu's structure for a disk.
 *
 *     /home/user ─┬─ README ──────┐ the same file: the nodes of one file are a circle by `hlnk`
 *                 ├─ ChangeLog    │
 *                 ├─ src ─── main.c ...
 *                 └─ doc ─── README
 *
 * Each node links to its parent, to the next node in its directory, and to the first node below it. Sizes
 * are added to all ancestors, but a file with several names counts once in each of them.
 *
 * usage: hardlinks [FILES] */
#include "example.h"

#include <stddef.h>
#include <string.h>

struct entry {
    memfold_handle parent, next, sub, hlnk;
    long long size;
    unsigned long long inode;
    char name[64];
};

static memfold_session *session;

static size_t length(const char *name) { return offsetof(struct entry, name) + strlen(name) + 1; }

static struct entry load(memfold_handle node) {
    struct entry entry;
    TRY(memfold_read(session, node, &entry, sizeof entry, NULL));
    return entry;
}

static void set(memfold_handle node, size_t field, memfold_handle to) {
    TRY(memfold_write_at(session, node, field, &to, sizeof to));
}

/* Whether another name of a file is somewhere below `directory`. */
static int is_below(memfold_handle file, memfold_handle directory) {
    for (memfold_handle other = load(file).hlnk; other != file && other != MEMFOLD_NO_NODE; other = load(other).hlnk)
        for (memfold_handle up = load(other).parent; up != MEMFOLD_NO_NODE; up = load(up).parent)
            if (up == directory) return 1;
    return 0;
}

/* Adds an entry to a directory. `same`: another name of the same file, or none. */
static memfold_handle add(memfold_handle parent, const char *name, long long size, memfold_handle same) {
    struct entry entry = {0};
    memfold_handle made;
    entry.parent = parent;
    entry.size = size;
    strncpy(entry.name, name, sizeof entry.name - 1);
    if (parent == MEMFOLD_NO_NODE) TRY(memfold_alloc(session, length(entry.name), &made));
    else TRY(memfold_alloc_near(session, length(entry.name), parent, &made));
    if (parent != MEMFOLD_NO_NODE) entry.next = load(parent).sub;
    if (same != MEMFOLD_NO_NODE) {
        /* Put it into the circle, which begins with the second name. */
        memfold_handle next = load(same).hlnk;
        entry.inode = load(same).inode;
        entry.hlnk = next == MEMFOLD_NO_NODE ? same : next;
    }
    TRY(memfold_write_at(session, made, 0, &entry, length(entry.name)));
    if (same != MEMFOLD_NO_NODE) set(same, offsetof(struct entry, hlnk), made);
    if (parent != MEMFOLD_NO_NODE) set(parent, offsetof(struct entry, sub), made);
    for (memfold_handle up = parent; up != MEMFOLD_NO_NODE; up = load(up).parent) {
        if (same != MEMFOLD_NO_NODE && is_below(made, up)) continue;
        long long sum = load(up).size + size;
        TRY(memfold_write_at(session, up, offsetof(struct entry, size), &sum, sizeof sum));
    }
    return made;
}

static void path(memfold_handle node, char *to, size_t room) {
    struct entry entry = load(node);
    if (entry.parent != MEMFOLD_NO_NODE) {
        path(entry.parent, to, room);
        strncat(to, "/", room - strlen(to) - 1);
    } else to[0] = 0;
    strncat(to, entry.name, room - strlen(to) - 1);
}

static int free_all(memfold_handle node) {
    int freed = 0;
    while (node != MEMFOLD_NO_NODE) {
        struct entry entry = load(node);
        freed += free_all(entry.sub) + 1;
        TRY(memfold_free(session, node));
        node = entry.next;
    }
    return freed;
}

int main(int argc, char **argv) {
    const int files = argc > 1 ? atoi(argv[1]) : 20000;
    memfold_heap *heap;
    char text[300], name[64];

    TRY(memfold_heap_new(NULL, &heap));
    TRY(memfold_session_open(heap, &session));
    memfold_handle home = add(MEMFOLD_NO_NODE, "/home/user", 0, MEMFOLD_NO_NODE);
    memfold_handle readme = add(home, "README", 1000, MEMFOLD_NO_NODE);
    add(home, "ChangeLog", 500, MEMFOLD_NO_NODE);
    memfold_handle src = add(home, "src", 4096, MEMFOLD_NO_NODE);
    memfold_handle doc = add(home, "doc", 4096, MEMFOLD_NO_NODE);
    memfold_handle again = add(doc, "README", 1000, readme);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "source-file-number-%d.c", i);
        add(src, name, i, MEMFOLD_NO_NODE);
    }

    /* The two names link to each other. */
    EXPECT(load(readme).hlnk == again && load(again).hlnk == readme);
    path(load(readme).hlnk, text, sizeof text);
    printf("README is also %s\n", text);
    EXPECT(strcmp(text, "/home/user/doc/README") == 0);
    /* Both names are below home, but the file counts once. */
    EXPECT(load(doc).size == 4096 + 1000);
    EXPECT(load(home).size == 1000 + 500 + 4096 + 4096 + (long long)files * (files - 1) / 2);
    say(heap, "directory");
    EXPECT(free_all(home) == files + 6);
    TRY(memfold_session_close(session));
    TRY(memfold_heap_check(heap));
    TRY(memfold_heap_destroy(heap));
    return 0;
}
