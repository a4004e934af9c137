/* Heaps that are saved and loaded, the debugging twin, and the heap's own thread. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <unistd.h>

typedef struct {
    memfold_handle next;
    uint64_t number;
    char text[40];
} item;

/* Makes a list of `count` items, the last one first; the heap's root leads to it. */
static void make_list(memfold_heap *heap, uint64_t count) {
    memfold_session *session = NULL;
    memfold_handle first = MEMFOLD_NO_NODE;
    OK(memfold_session_open(heap, &session));
    for (uint64_t i = 0; i < count; i++) {
        item it = {.next = first, .number = i};
        snprintf(it.text, sizeof it.text, "item %llu", (unsigned long long)i);
        OK(memfold_alloc(session, sizeof it, &first));
        OK(memfold_write_at(session, first, 0, &it, sizeof it));
    }
    OK(memfold_session_close(session));
    OK(memfold_heap_set_root(heap, first));
}

static void walk_list(memfold_heap *heap, uint64_t count) {
    memfold_session *session = NULL;
    uint64_t root = 1;
    OK(memfold_session_open(heap, &session));
    OK(memfold_heap_root(heap, &root));
    memfold_handle at = root;
    for (uint64_t i = count; i-- > 0;) {
        item it;
        char text[40];
        OK(memfold_read_at(session, at, 0, &it, sizeof it));
        snprintf(text, sizeof text, "item %llu", (unsigned long long)i);
        CHECK(it.number == i && strcmp(it.text, text) == 0);
        at = it.next;
    }
    CHECK(at == MEMFOLD_NO_NODE);
    OK(memfold_session_close(session));
    OK(memfold_heap_check(heap));
}

static void change_byte(const char *file, long at) {
    FILE *f = fopen(file, "r+b");
    CHECK(f && fseek(f, at, SEEK_SET) == 0);
    int byte = fgetc(f);
    CHECK(byte != EOF && fseek(f, at, SEEK_SET) == 0 && fputc(byte ^ 0x40, f) != EOF && fclose(f) == 0);
}

static void files(const char *directory, uint64_t count) {
    char file[300], missing[300];
    snprintf(file, sizeof file, "%s/list.heap", directory);
    snprintf(missing, sizeof missing, "%s/none/list.heap", directory);
    memfold_options options = memfold_default_options();
    options.limit_blocks = 4;
    memfold_heap *heap = new_heap(&options), *loaded = NULL;
    make_list(heap, count);

    memfold_session *session = NULL;
    OK(memfold_session_open(heap, &session));
    FAILS(MEMFOLD_OPEN, memfold_heap_save(heap, file));
    OK(memfold_session_close(session));
    FAILS(MEMFOLD_NULL, memfold_heap_save(heap, NULL));
    FAILS(MEMFOLD_FILE, memfold_heap_save(heap, missing));
    OK(memfold_heap_save(heap, file));
    walk_list(heap, count);
    OK(memfold_heap_destroy(heap));

    /* Load and save again, with other options each time. */
    const char *codecs[] = {NULL, "lz4", "zstd:3"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        options.codec = codecs[i];
        OK(memfold_heap_load(file, &options, &loaded));
        walk_list(loaded, count);
        OK(memfold_heap_save(loaded, file));
        OK(memfold_heap_destroy(loaded));
    }
    FAILS(MEMFOLD_NULL, memfold_heap_load(NULL, NULL, &loaded));
    FAILS(MEMFOLD_NULL, memfold_heap_load(file, NULL, NULL));
    FAILS(MEMFOLD_FILE, memfold_heap_load(missing, NULL, &loaded));
    options.codec = "no such";
    FAILS(MEMFOLD_OPTION, memfold_heap_load(file, &options, &loaded));
    options.codec = NULL;
    change_byte(file, 200);
    FAILS(MEMFOLD_FILE, memfold_heap_load(file, NULL, &loaded));
    CHECK(strstr(memfold_last_error(), "damaged"));
    change_byte(file, 200);
    change_byte(file, 1);
    FAILS(MEMFOLD_FILE, memfold_heap_load(file, NULL, &loaded));
    CHECK(strstr(memfold_last_error(), "not a saved heap"));
    CHECK(unlink(file) == 0);
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_save((memfold_heap *)8, file));
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_set_root((memfold_heap *)8, 1));
}

static void kinds(const char *directory, uint64_t count) {
    memfold_options options = memfold_default_options();
    options.limit_blocks = 8;
    options.background = 1;
    options.ahead_neighbours = 2;
    memfold_heap *heap = new_heap(&options);
    make_list(heap, count);
    walk_list(heap, count);
    OK(memfold_heap_destroy(heap));

    const uint32_t links[] = {0};
    options.ahead_neighbours = 0;
    options.ahead_links = links;
    options.ahead_links_count = 1;
    heap = new_heap(&options);
    make_list(heap, count);
    walk_list(heap, count);
    OK(memfold_heap_destroy(heap));

    options = memfold_default_options();
    options.plain = 1;
    heap = new_heap(&options);
    make_list(heap, count);
    walk_list(heap, count);
    char file[300];
    snprintf(file, sizeof file, "%s/twin.heap", directory);
    FAILS(MEMFOLD_FILE, memfold_heap_save(heap, file));
    OK(memfold_heap_destroy(heap));

    const struct {
        uint32_t background, neighbours, count;
        const uint32_t *links;
    } bad[] = {{2, 0, 0, NULL}, {0, 1, 1, links}, {0, 0, 1, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options = memfold_default_options();
        options.background = bad[i].background;
        options.ahead_neighbours = bad[i].neighbours;
        options.ahead_links_count = bad[i].count;
        options.ahead_links = bad[i].links;
        FAILS(MEMFOLD_OPTION, memfold_heap_new(&options, &heap));
    }
}

int main(void) {
    char directory[] = "/tmp/memfold-files-XXXXXX";
    CHECK(mkdtemp(directory));
    uint64_t count = getenv("MEMFOLD_TEST_QUICK") ? 3000 : 50000;
    files(directory, count);
    kinds(directory, count);
    CHECK(rmdir(directory) == 0);
    puts("files: ok");
    return 0;
}
