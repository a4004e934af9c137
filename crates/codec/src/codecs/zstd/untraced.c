/* Zstandard calls these four functions at the begin and end of each frame if
 * the program has them. The preload library lives in programs of all kinds, and
 * none of their functions may run in it: so it has its own, which say that
 * nobody traces. Being hidden they are no symbols of the library, neither
 * missing nor offered. The signatures are those of common/zstd_trace.h. */

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN unsigned long long ZSTD_trace_compress_begin(const void *context) {
    (void)context;
    return 0;
}

HIDDEN void ZSTD_trace_compress_end(unsigned long long trace, const void *info) {
    (void)trace;
    (void)info;
}

HIDDEN unsigned long long ZSTD_trace_decompress_begin(const void *context) {
    (void)context;
    return 0;
}

HIDDEN void ZSTD_trace_decompress_end(unsigned long long trace, const void *info) {
    (void)trace;
    (void)info;
}
