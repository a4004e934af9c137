/* compll with one thread and 1 to 20 uncompressed blocks; errors of programs; callbacks that lie.
 *
 * usage: compll_model [SEED] */
#include "compll_items.h"

static void alone(unsigned uncomp_count, int steps, uint64_t seed) {
    unsigned keeps = uncomp_count < 4 ? 4 : uncomp_count > 8 ? 8 : uncomp_count;
    OK(init(uncomp_count));
    compressed = 0;
    struct model *all = make_all(&seed);
    for (int i = 0; i < steps; i++) step(all, &seed, keeps);
    CHECK(compressed > 20);
    FAILS(MEMFOLD_BUSY, init(uncomp_count));
    free_all(all);
}

static void misuse(void) {
    int local;
    CHECK(compll_alloc(8) == 0 && compll_read(1) == NULL && compll_write(1) == NULL);
    compll_free(1);
    FAILS(MEMFOLD_OPTION, compll_init(0, 8, 1, compress, decompress));
    FAILS(MEMFOLD_OPTION, compll_init((16 << 20) + 1, 8, 1, compress, decompress));
    FAILS(MEMFOLD_OPTION, compll_init(BLOCK, 0, 1, compress, decompress));
    FAILS(MEMFOLD_OPTION, compll_init(BLOCK, 3, 1, compress, decompress));
    FAILS(MEMFOLD_OPTION, compll_init(BLOCK, 32, 1, compress, decompress));
    FAILS(MEMFOLD_OPTION, compll_init(BLOCK, 8, 0, compress, decompress));
    FAILS(MEMFOLD_NULL, compll_init(BLOCK, 8, 1, NULL, decompress));
    FAILS(MEMFOLD_NULL, compll_init(BLOCK, 8, 1, compress, NULL));
    CHECK(compll_alloc(8) == 0);
    OK(compll_init(1000, 16, 1, compress, decompress));
    compll_t large = compll_alloc(1 << 20);
    CHECK(large && ((char *)compll_write(large))[(1 << 20) - 1] == 0);
    ((char *)compll_write(large))[12345] = 'x';
    CHECK(((const char *)compll_read(large))[12345] == 'x');
    compll_free(large);
    CHECK(!compll_read(large));
    compll_t node = compll_alloc(0), other = compll_alloc(900);
    CHECK(node && other && compll_write(node));
    CHECK((uintptr_t)compll_read(node) % 16 == 0 && (uintptr_t)compll_read(other) % 16 == 0);
    compll_free(0);
    compll_free(other);
    compll_free(other);
    CHECK(!compll_read(other) && !compll_write(other) && !compll_read(0) && !compll_write(0));
    compll_t invented[] = {1, ~0ull, (uintptr_t)&local, other + 1, node ^ 1ull << 20, node ^ 1ull << 50, node ^ 1ull << 63};
    for (size_t i = 0; i < sizeof invented / sizeof *invented; i++) {
        compll_free(invented[i]);
        CHECK(!compll_read(invented[i]) && !compll_write(invented[i]));
    }
    CHECK(compll_read(node));
    compll_free(node);
}

static void lies(void) {
    uint64_t state = 5;
    OK(init(2));
    lie = TOO_MUCH;
    struct model *all = make_all(&state);
    for (int i = 0; i < 500; i++) step(all, &state, 4);
    lie = GOOD;
    for (int i = 0; i < 500; i++) step(all, &state, 4);
    lie = WRONG;
    int lost = 0;
    for (int i = 0; i < ITEMS; i++) {
        const struct item *item = compll_read(all[i].node);
        if (item) CHECK(memcmp(item, all[i].item, all[i].len) == 0);
        else lost++;
    }
    CHECK(lost > ITEMS / 2);
    CHECK(compll_alloc(8) != 0);
    lie = GOOD;
    free_all(all);
}

int main(int count, char **arguments) {
    uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 0) : 1;
    int steps = getenv("MEMFOLD_TEST_QUICK") ? 100 : 3000;
    misuse();
    for (unsigned uncomp_count = 1; uncomp_count <= 20; uncomp_count++) alone(uncomp_count, steps, seed + uncomp_count);
    lies();
    printf("compll_model %llu: ok\n", (unsigned long long)seed);
    return 0;
}
