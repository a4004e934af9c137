/*
 * shared: several threads in the same pages at the same moment. Atomic counters in many old pages must
 * lose no addition, and lanes of 64 bytes, each with one writer, must keep their bytes while the other
 * lanes of the page are written.
 */
#include "torture.h"

#define TEAM 4
#define LANES (PAGE / 64)

struct crowd {
    size_t pages;
    _Atomic uint64_t *counters; /* a page each */
    uint64_t *sums;             /* what each page of counters must add up to */
    uint64_t (*lanes)[8];       /* lane l of page p: [p * LANES + l] */
    uint32_t *versions;         /* of each lane */
    uint64_t id, where; /* where: chosen for each operation, the same for the whole team */
    uint64_t *tallies[TEAM];
};

static void *map_pages(size_t pages)
{
    return must(mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void setup(struct trial *trial)
{
    struct crowd *crowd = trial_alloc(trial, sizeof *crowd);
    crowd->pages = trial_pages(trial, 64) / 3;
    crowd->id = rng_next(&trial->rng);
    crowd->counters = map_pages(crowd->pages);
    crowd->lanes = map_pages(crowd->pages);
    crowd->sums = calloc(crowd->pages, sizeof *crowd->sums);
    crowd->versions = calloc(crowd->pages * LANES, sizeof *crowd->versions);
    for (int i = 0; i < TEAM; i++)
        crowd->tallies[i] = calloc(crowd->pages, sizeof **crowd->tallies);
    if (crowd->sums == NULL || crowd->versions == NULL || crowd->tallies[TEAM - 1] == NULL)
        fail_errno("calloc");
}

static uint64_t lane_word(const struct crowd *crowd, size_t lane, size_t word)
{
    uint32_t version = crowd->versions[lane];
    /* Every third version is hardly compressible, the others are. */
    if (version == 0)
        return 0;
    return version % 3 ? version * 0x0101010101010101u + lane : mix64(crowd->id ^ mix64(lane * 8 + word) ^ version);
}

static void check_lane(const struct crowd *crowd, size_t lane)
{
    for (size_t word = 0; word < 8; word++)
        if (crowd->lanes[lane][word] != lane_word(crowd, lane, word))
            fail("  word %zu of lane %zu at address %p: got %016llx, expected %016llx (version %u)", word, lane,
                 (void *)&crowd->lanes[lane][word], (unsigned long long)crowd->lanes[lane][word],
                 (unsigned long long)lane_word(crowd, lane, word), crowd->versions[lane]);
    move_on();
}

static void worker(struct helper *helper)
{
    struct crowd *crowd = helper->shared;
    struct rng *rng = &helper->rng;
    /* All use the same few pages, so that several threads fault on one page. */
    size_t first = 0;
    step("counters and lanes in shared pages");
    for (int i = 0; i < 400; i++) {
        if (i % 50 == 0)
            first = mix64(crowd->where + (uint64_t)i) % crowd->pages;
        size_t page = (first + rng_below(rng, 8)) % crowd->pages;
        uint64_t amount = rng_below(rng, 1000);
        atomic_fetch_add_explicit(&crowd->counters[page * PAGE_WORDS + rng_below(rng, PAGE_WORDS)], amount,
                                  memory_order_relaxed);
        crowd->tallies[helper->index][page] += amount;
        size_t lane = page * LANES + rng_below(rng, LANES / TEAM) * TEAM + helper->index;
        check_lane(crowd, lane);
        crowd->versions[lane]++;
        for (size_t word = 0; word < 8; word++)
            ((volatile uint64_t *)crowd->lanes[lane])[word] = lane_word(crowd, lane, word);
    }
}

static void check_page(const struct crowd *crowd, size_t page)
{
    uint64_t sum = 0;
    for (size_t word = 0; word < PAGE_WORDS; word++)
        sum += atomic_load_explicit(&crowd->counters[page * PAGE_WORDS + word], memory_order_relaxed);
    if (sum != crowd->sums[page])
        fail("  counters of the page at address %p: got a sum of %llu, expected %llu",
             (void *)&crowd->counters[page * PAGE_WORDS], (unsigned long long)sum,
             (unsigned long long)crowd->sums[page]);
    for (size_t lane = 0; lane < LANES; lane++)
        check_lane(crowd, page * LANES + lane);
}

static void op(struct trial *trial)
{
    struct crowd *crowd = trial->state;
    crowd->where = rng_next(&trial->rng);
    team_run(TEAM, "crowd", &trial->rng, worker, crowd);
    step("sums of the counters");
    for (size_t page = 0; page < crowd->pages; page++) {
        for (int i = 0; i < TEAM; i++) {
            crowd->sums[page] += crowd->tallies[i][page];
            crowd->tallies[i][page] = 0;
        }
        if (rng_chance(&trial->rng, 20))
            check_page(crowd, page);
    }
}

static void check(struct trial *trial)
{
    struct crowd *crowd = trial->state;
    for (size_t page = 0; page < crowd->pages; page++)
        check_page(crowd, page);
}

static void teardown(struct trial *trial)
{
    struct crowd *crowd = trial->state;
    munmap((void *)crowd->counters, crowd->pages * PAGE);
    munmap(crowd->lanes, crowd->pages * PAGE);
    free(crowd->sums);
    free(crowd->versions);
    for (int i = 0; i < TEAM; i++)
        free(crowd->tallies[i]);
    free(crowd);
}

TORTURE_CASE(shared) = {
    .name = "shared",
    .about = "threads in the same pages at once: atomic counters, lanes with one writer each",
    .weight = 16,
    .share = 3,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
