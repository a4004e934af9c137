/* Compresses and restores the pages of files with codecs that are not in memfold, beside lz4, zstd and weft. One
 * process, all codecs in turn, several rounds. A page that does not shrink is copied. Prints a line for each file and
 * codec: bytes, compressed bytes, and the least CPU time of a round to compress and to restore, in ns. Called by
 * newer.py. */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <lz4.h>
#include <lz4hc.h>
#include <lzav.h>
#include <memfold_weft.h>
#include <misa77/misa77.h>
extern "C" {
#include <zxc.h>
}
#include <zstd.h>

using bytes = std::vector<unsigned char>;
/* Returns the compressed size, or 0. */
using compress_fn = std::function<size_t(const unsigned char *from, size_t len, unsigned char *to, size_t room)>;
using restore_fn = std::function<bool(const unsigned char *from, size_t size, unsigned char *to, size_t len)>;

struct codec {
    std::string name;
    compress_fn compress;
    restore_fn restore;
};

/* Room behind a page, for codecs that write beyond its end. */
const size_t SLACK = 65536;

static uint64_t cpu_ns()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static std::vector<codec> codecs()
{
    std::vector<codec> all;
    auto lz4_restore = [](auto from, size_t size, auto to, size_t len) {
        return LZ4_decompress_safe((const char *)from, (char *)to, size, len) == (int)len;
    };
    all.push_back({"lz4", [](auto from, size_t len, auto to, size_t room) -> size_t {
        return LZ4_compress_default((const char *)from, (char *)to, len, room);
    }, lz4_restore});
    all.push_back({"lz4hc:9", [](auto from, size_t len, auto to, size_t room) -> size_t {
        return LZ4_compress_HC((const char *)from, (char *)to, len, room, 9);
    }, lz4_restore});
    auto lzav_restore = [](auto from, size_t size, auto to, size_t len) {
        return lzav_decompress(from, to, size, len) == (int)len;
    };
    all.push_back({"lzav", [](auto from, size_t len, auto to, size_t room) -> size_t {
        return lzav_compress_default(from, to, len, room);
    }, lzav_restore});
    all.push_back({"lzav:hi", [](auto from, size_t len, auto to, size_t room) -> size_t {
        return lzav_compress_hi(from, to, len, room);
    }, lzav_restore});
    static ZSTD_CCtx *zstd = ZSTD_createCCtx();
    static ZSTD_DCtx *unzstd = ZSTD_createDCtx();
    all.push_back({"zstd:1", [](auto from, size_t len, auto to, size_t room) -> size_t {
        size_t size = ZSTD_compressCCtx(zstd, to, room, from, len, 1);
        return ZSTD_isError(size) ? 0 : size;
    }, [](auto from, size_t size, auto to, size_t len) {
        return ZSTD_decompressDCtx(unzstd, to, len, from, size) == len;
    }});
    static zxc_dctx *dctx = zxc_create_dctx();
    for (int level : {1, 3, 5}) {
        static zxc_compress_opts_t options[8];
        options[level].level = level;
        zxc_cctx *cctx = zxc_create_cctx(&options[level]);
        all.push_back({"zxc:" + std::to_string(level), [=](auto from, size_t len, auto to, size_t room) -> size_t {
            int64_t size = zxc_compress_block(cctx, from, len, to, room, &options[level]);
            return size > 0 ? size : 0;
        }, [](auto from, size_t size, auto to, size_t len) {
            return zxc_decompress_block(dctx, from, size, to, len + SLACK, NULL) == (int64_t)len;
        }});
    }
    for (int level : {-1, 0, 1})
        all.push_back({"misa77:" + std::to_string(level), [=](auto from, size_t len, auto to, size_t room) -> size_t {
            return misa77::compress(from, len, to, room, misa77::config(level));
        }, [](auto from, size_t size, auto to, size_t len) {
            return misa77::decompress(from, size, to, len + SLACK, misa77::dconfig(true)) == len;
        }});
    static void *scratch = aligned_alloc(64, (memfold_weft_scratch_size() + 63) / 64 * 64);
    for (int effort : {1, 3, 4})
        all.push_back({"weft:" + std::to_string(effort), [=](auto from, size_t len, auto to, size_t room) -> size_t {
            size_t size;
            return memfold_weft_compress(from, len, to, room, effort, scratch, &size) == 0 ? size : 0;
        }, [](auto from, size_t size, auto to, size_t len) {
            return memfold_weft_decompress(from, size, to, len, scratch) == 0;
        }});
    return all;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "usage: newer UNIT ROUNDS FILE...\n"), 2;
    size_t unit = strtoul(argv[1], NULL, 0);
    int rounds = atoi(argv[2]);
    for (int number = 3; number < argc; number++) {
        FILE *file = fopen(argv[number], "rb");
        if (file == NULL)
            return perror(argv[number]), 1;
        bytes data;
        unsigned char buffer[65536];
        for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;)
            data.insert(data.end(), buffer, buffer + got);
        fclose(file);
        size_t pages = data.size() / unit;
        if (pages == 0 || unit > 65536)
            return fprintf(stderr, "%s: give units of at most 64 KiB, and files that have one\n", argv[number]), 1;
        auto all = codecs();
        std::vector<uint64_t> to_compress(all.size(), UINT64_MAX), to_restore(all.size(), UINT64_MAX);
        std::vector<size_t> stored(all.size());
        bytes forms(pages * 2 * unit + SLACK), again(pages * unit + SLACK);
        std::vector<size_t> sizes(pages);
        for (int round = 0; round < rounds; round++)
            for (size_t one = 0; one < all.size(); one++) {
                const codec &of = all[one];
                unsigned char *to = forms.data();
                uint64_t begin = cpu_ns();
                for (size_t page = 0; page < pages; page++) {
                    const unsigned char *from = &data[page * unit];
                    sizes[page] = of.compress(from, unit, to, forms.data() + forms.size() - to);
                    if (sizes[page] == 0 || sizes[page] >= unit) {
                        memcpy(to, from, unit);
                        sizes[page] = unit;
                    }
                    to += sizes[page];
                }
                to_compress[one] = std::min(to_compress[one], cpu_ns() - begin);
                stored[one] = to - forms.data();
                bool right = true;
                const unsigned char *at = forms.data();
                begin = cpu_ns();
                for (size_t page = 0; page < pages; at += sizes[page++]) {
                    unsigned char *back = &again[page * unit];
                    if (sizes[page] == unit)
                        memcpy(back, at, unit);
                    else
                        right &= of.restore(at, sizes[page], back, unit);
                }
                to_restore[one] = std::min(to_restore[one], cpu_ns() - begin);
                if (!right || memcmp(again.data(), data.data(), pages * unit) != 0)
                    return fprintf(stderr, "%s: wrong bytes\n", of.name.c_str()), 1;
            }
        for (size_t one = 0; one < all.size(); one++)
            printf("%s\t%s\t%zu\t%zu\t%llu\t%llu\n", argv[number], all[one].name.c_str(), pages * unit, stored[one],
                   (unsigned long long)to_compress[one], (unsigned long long)to_restore[one]);
        fflush(stdout);
    }
    return 0;
}
