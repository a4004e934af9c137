/* The codec alone: round trips of every effort and of many lengths, too little room, damaged forms, wrong arguments. */
#include "check.h"

#include <memfold_weft.h>

/* Records with a pointer, a counter and a text, and noise in some places. */
static void records(uint64_t *state, unsigned char *to, size_t len) {
    uint64_t base = next_random(state) >> 16 << 4;
    for (size_t at = 0; at < len; at++) {
        uint64_t word = at / 8 % 3 == 0 ? base + at : at / 8 % 3 == 1 ? at / 24 : UINT64_C(0x6574206568742065);
        to[at] = (unsigned char)(word >> 8 * (at % 8));
        if (below(state, 40) == 0) to[at] = (unsigned char)next_random(state);
    }
}

int main(void) {
    uint64_t state = 5;
    size_t size = memfold_weft_scratch_size();
    CHECK(size % 64 == 0);
    void *scratch = aligned_alloc(64, size);
    unsigned char *unit = malloc(MEMFOLD_WEFT_MOST), *again = malloc(MEMFOLD_WEFT_MOST);
    CHECK(scratch && unit && again);
    static const size_t LENGTHS[] = {0, 1, 7, 64, 100, 4095, 4096, 4097, 8192, 16384, 32768, 65535, 65536};
    int rounds = getenv("MEMFOLD_TEST_QUICK") ? 2 : 20;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++)
            for (int effort = 1; effort <= 4; effort++) {
                size_t len = LENGTHS[i], stored = 77;
                records(&state, unit, len);
                /* In a buffer whose end sanitizers know. */
                CHECK(memfold_weft_bound(len) == MEMFOLD_WEFT_BOUND(len));
                size_t room = MEMFOLD_WEFT_BOUND(len);
                unsigned char *form = malloc(room + 1);
                CHECK(form);
                OK(memfold_weft_compress(unit, len, form, room, effort, scratch, &stored));
                CHECK(stored <= room && (len < 4096 || stored < len / 2));
                unsigned char *exact = malloc(stored + 1);
                CHECK(exact);
                memcpy(exact, form, stored);
                memset(again, 0xee, MEMFOLD_WEFT_MOST);
                OK(memfold_weft_decompress(exact, stored, again, len, scratch));
                CHECK(memcmp(unit, again, len) == 0);
                CHECK(len == MEMFOLD_WEFT_MOST || again[len] == 0xee);
                if (len > 0) {
                    FAILS(MEMFOLD_DAMAGED, memfold_weft_decompress(exact, stored - 1, again, len, scratch));
                    FAILS(MEMFOLD_DAMAGED, memfold_weft_decompress(exact, 0, again, len, scratch));
                    size_t other = 78;
                    FAILS(MEMFOLD_RANGE, memfold_weft_compress(unit, len, form, stored / 4, effort, scratch, &other));
                    CHECK(other == 78);
                    /* Damaged: refused, or other bytes. */
                    exact[below(&state, stored)] ^= (unsigned char)(1 + below(&state, 255));
                    int code = memfold_weft_decompress(exact, stored, again, len, scratch);
                    CHECK(code == MEMFOLD_OK || code == MEMFOLD_DAMAGED);
                }
                free(exact);
                free(form);
            }

    size_t stored;
    unsigned char form[MEMFOLD_WEFT_BOUND(4096)];
    CHECK(memfold_weft_bound(MEMFOLD_WEFT_MOST + 1) == 0);
    FAILS(MEMFOLD_SIZE, memfold_weft_compress(unit, MEMFOLD_WEFT_MOST + 1, form, sizeof form, 1, scratch, &stored));
    FAILS(MEMFOLD_SIZE, memfold_weft_decompress(form, sizeof form, unit, MEMFOLD_WEFT_MOST + 1, scratch));
    FAILS(MEMFOLD_OPTION, memfold_weft_compress(unit, 4096, form, sizeof form, 0, scratch, &stored));
    FAILS(MEMFOLD_OPTION, memfold_weft_compress(unit, 4096, form, sizeof form, 5, scratch, &stored));
    FAILS(MEMFOLD_NULL, memfold_weft_compress(NULL, 4096, form, sizeof form, 1, scratch, &stored));
    FAILS(MEMFOLD_NULL, memfold_weft_compress(unit, 4096, NULL, sizeof form, 1, scratch, &stored));
    FAILS(MEMFOLD_NULL, memfold_weft_compress(unit, 4096, form, sizeof form, 1, NULL, &stored));
    FAILS(MEMFOLD_NULL, memfold_weft_compress(unit, 4096, form, sizeof form, 1, scratch, NULL));
    FAILS(MEMFOLD_NULL, memfold_weft_decompress(NULL, 9, unit, 4096, scratch));
    FAILS(MEMFOLD_NULL, memfold_weft_decompress(form, 9, NULL, 4096, scratch));
    FAILS(MEMFOLD_RANGE, memfold_weft_decompress(form, SIZE_MAX, unit, 4096, scratch));
    unsigned char *odd = aligned_alloc(64, size + 64);
    CHECK(odd);
    FAILS(MEMFOLD_OPTION, memfold_weft_decompress(form, 9, unit, 4096, odd + 8));
    free(odd);
    OK(memfold_weft_compress(NULL, 0, NULL, 0, 1, scratch, &stored));
    CHECK(stored == 0);
    free(again);
    free(unit);
    free(scratch);
    puts("weft: all efforts and lengths");
    return 0;
}
