// Both headers in C++: the first of two files.
#include <memfold.h>
#include <compll.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

void need(bool is_so, const char *what) {
    if (is_so) return;
    std::fprintf(stderr, "not so: %s (%s)\n", what, memfold_last_error());
    std::exit(1);
}

bool other_file();

namespace {

struct item {
    compll_t next;
    int number;
};

extern "C" unsigned int compress_block(const unsigned char *, unsigned int, unsigned char *, unsigned int) { return 0; }
extern "C" void decompress_block(const unsigned char *, unsigned int, unsigned char *, unsigned int) {}

item *W(compll_t node) { return static_cast<item *>(compll_write(node)); }
const item *R(compll_t node) { return static_cast<const item *>(compll_read(node)); }

}

int main() {
    memfold_options options = memfold_default_options();
    options.codec = "lz4";
    memfold_heap *heap = nullptr;
    memfold_session *session = nullptr;
    memfold_handle node = MEMFOLD_NO_NODE;
    const void *bytes = nullptr;
    need(memfold_heap_new(&options, &heap) == MEMFOLD_OK, "a heap");
    need(memfold_session_open(heap, &session) == MEMFOLD_OK, "a session");
    need(memfold_alloc(session, sizeof(int), &node) == MEMFOLD_OK, "a node");
    int number = 7;
    need(memfold_write_at(session, node, 0, &number, sizeof number) == MEMFOLD_OK, "it is written");
    need(memfold_pin(session, node, &bytes) == MEMFOLD_OK, "it is pinned");
    need(*static_cast<const int *>(bytes) == 7, "what was written is there");
    memfold_slablist_options as = memfold_default_slablist_options();
    as.flags = MEMFOLD_ORDERED | MEMFOLD_CIRCULAR;
    memfold_slablist *list = nullptr;
    memfold_slabmap *map = nullptr;
    std::uint64_t three = 3, element = 0;
    need(memfold_slablist_new(session, &as, &list) == MEMFOLD_OK, "a list");
    need(memfold_slablist_push(list, &three, sizeof three) == MEMFOLD_OK, "an element");
    need(memfold_slablist_get_u64(list, 0, &element) == MEMFOLD_OK && element == 3, "it is there");
    need(memfold_slabmap_new(session, nullptr, &map) == MEMFOLD_OK, "a map");
    need(memfold_slabmap_put(map, &three, sizeof three, "three", 5, nullptr) == MEMFOLD_OK, "a key");
    need(memfold_session_close(session) == MEMFOLD_OK, "the session ends");
    need(memfold_heap_destroy(heap) == MEMFOLD_OK, "the heap ends");

    need(compll_init(1024, 8, 1, compress_block, decompress_block) == 0, "compll begins");
    compll_t first = compll_alloc(sizeof(item)), second = compll_alloc(sizeof(item));
    W(first)->number = 3;
    W(second)->next = first;
    W(second)->number += R(R(second)->next)->number;
    need(R(second)->number == 3, "compll keeps what is written");
    need(other_file(), "the other file");
    return 0;
}
