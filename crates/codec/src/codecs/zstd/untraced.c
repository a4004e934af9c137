/* Zstandard calls these four functions at the beginning and end of each frame if
 * the program has them. The preload library is loaded into programs of all
 * kinds, and must not run functions of theirs. So it has its own, which report
 * that nothing is traced. They are hidden: the library neither needs nor
 * exports such symbols. The signatures are those of common/zstd_trace.h. */

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
