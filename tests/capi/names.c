/* A program with functions of the same names as functions in the library, which is linked statically. Each
 * side must call its own. */
#include "check.h"

static int called;

size_t ZSTD_compress(void *dst, size_t room, const void *src, size_t len, int level);
size_t ZSTD_compress(void *dst, size_t room, const void *src, size_t len, int level) {
    (void)dst, (void)room, (void)src, (void)len, (void)level;
    return (size_t)++called;
}
size_t ZSTD_compress2(void *context, void *dst, size_t room, const void *src, size_t len);
size_t ZSTD_compress2(void *context, void *dst, size_t room, const void *src, size_t len) {
    (void)context, (void)dst, (void)room, (void)src, (void)len;
    return (size_t)++called;
}
int LZ4_compress_default(const char *src, char *dst, int len, int room);
int LZ4_compress_default(const char *src, char *dst, int len, int room) {
    (void)src, (void)dst, (void)len, (void)room;
    return ++called;
}
int LZ4_decompress_safe(const char *src, char *dst, int len, int room);
int LZ4_decompress_safe(const char *src, char *dst, int len, int room) {
    (void)src, (void)dst, (void)len, (void)room;
    return ++called;
}
void rust_eh_personality(void);
void rust_eh_personality(void) { called++; }

int main(void) {
    static const char *const codecs[] = {"zstd:1", "lz4", "deflate:1", "xz:1"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        memfold_options options = small_options(1024, 2);
        memfold_stats stats;
        memfold_handle nodes[100];
        options.codec = codecs[i];
        memfold_heap *heap = new_heap(&options);
        memfold_session *session = open_session(heap);
        for (int n = 0; n < 100; n++) {
            OK(memfold_alloc(session, 100, &nodes[n]));
            OK(memfold_write_at(session, nodes[n], 0, &n, sizeof n));
        }
        for (int n = 0; n < 100; n++) {
            int read;
            OK(memfold_read_at(session, nodes[n], 0, &read, sizeof read));
            CHECK(read == n);
        }
        OK(memfold_heap_stats(heap, &stats, sizeof stats));
        CHECK(stats.compressions > 5 && stats.payload_bytes < 100 * 100 / 2);
        OK(memfold_session_close(session));
        OK(memfold_heap_destroy(heap));
    }
    CHECK(called == 0);
    return ZSTD_compress(NULL, 0, NULL, 0, 0) == 1 ? 0 : 1;
}
