/*
 * code: a small just-in-time compiler. It writes functions into anonymous pages, makes these executable,
 * lets them rest, and calls them. A wrong byte gives a wrong answer or a crash.
 */
#include "torture.h"

#define FUNCTION 64 /* bytes for each */
#define PER_PAGE (PAGE / FUNCTION)

struct code {
    uint8_t *base;
    size_t pages;
    uint32_t *answers; /* of each function */
    bool both;         /* writable and executable at once */
};

/* A function that returns `answer`: mov $answer, %eax; ret, or mov w0, ...; ret. */
static void compile(uint8_t *at, uint32_t answer)
{
#if defined(__x86_64__)
    at[0] = 0xb8;
    memcpy(at + 1, &answer, 4);
    at[5] = 0xc3;
#elif defined(__aarch64__)
    uint32_t code[3] = { 0x52800000u | (answer & 0xffff) << 5, 0x72a00000u | (answer >> 16) << 5, 0xd65f03c0u };
    memcpy(at, code, sizeof code);
    __builtin___clear_cache((char *)at, (char *)at + sizeof code);
#else
    (void)at;
    (void)answer;
#endif
}

static void write_page(struct code *code, size_t page, struct rng *rng)
{
    for (size_t i = 0; i < PER_PAGE; i++) {
        code->answers[page * PER_PAGE + i] = (uint32_t)rng_next(rng);
        compile(code->base + page * PAGE + i * FUNCTION, code->answers[page * PER_PAGE + i]);
    }
    move_on();
}

static void protect(struct code *code, size_t page, size_t count, int protection)
{
    must(mprotect(code->base + page * PAGE, count * PAGE, protection));
}

static void setup(struct trial *trial)
{
    struct code *code = trial_alloc(trial, sizeof *code);
#if !defined(__x86_64__) && !defined(__aarch64__)
    trial->skipped = true;
    trial->state = NULL;
    free(code);
    return;
#endif
    code->pages = trial_pages(trial, 16);
    code->base = must(mmap(NULL, code->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    code->answers = calloc(code->pages * PER_PAGE, sizeof *code->answers);
    if (code->answers == NULL)
        fail_errno("calloc");
    for (size_t page = 0; page < code->pages; page++)
        write_page(code, page, &trial->rng);
    protect(code, 0, code->pages, PROT_READ | PROT_EXEC);
}

static void call(struct code *code, size_t function)
{
    uint32_t (*compiled)(void) = (uint32_t(*)(void))(uintptr_t)(code->base + function * FUNCTION);
    uint32_t got = compiled();
    if (got != code->answers[function])
        fail("  the function at address %p returned %08x, expected %08x", (void *)(code->base + function * FUNCTION),
             got, code->answers[function]);
    move_on();
}

static void op(struct trial *trial)
{
    struct code *code = trial->state;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 10; i++) {
        step("calls of old code");
        for (int k = 0; k < 100; k++)
            call(code, rng_below(rng, code->pages * PER_PAGE));
        step("new code");
        size_t count = rng_range(rng, 1, 8), page = rng_below(rng, code->pages - count + 1);
        code->both = rng_chance(rng, 30);
        protect(code, page, count, code->both ? PROT_READ | PROT_WRITE | PROT_EXEC : PROT_READ | PROT_WRITE);
        for (size_t k = 0; k < count; k++)
            if (rng_chance(rng, 60))
                write_page(code, page + k, rng);
        if (!code->both)
            protect(code, page, count, PROT_READ | PROT_EXEC);
        for (size_t k = 0; k < count * PER_PAGE; k++)
            call(code, page * PER_PAGE + k);
        protect(code, page, count, PROT_READ | PROT_EXEC);
    }
}

static void check(struct trial *trial)
{
    struct code *code = trial->state;
    for (size_t i = 0; i < code->pages * PER_PAGE; i++)
        call(code, i);
}

static void teardown(struct trial *trial)
{
    struct code *code = trial->state;
    munmap(code->base, code->pages * PAGE);
    free(code->answers);
    free(code);
}

TORTURE_CASE(code) = {
    .name = "code",
    .about = "functions compiled into anonymous pages, which rest and are called",
    .weight = 8,
    .share = 1,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
