/* Cases and trials; see trial.h. */
#include "torture.h"

#define CASES_MOST 64
#define TRIALS_MOST 512

/* One case has half of the memory: the big regions, which cause everything else to be evicted. */
#define BALLAST "random"

static const struct torture_case *cases[CASES_MOST];
static size_t case_count;

static struct trial *trials[TRIALS_MOST];
static size_t trial_count, ballast_count;
/* For each case that can be chosen: its trials, a row in `trials`, and the sum of the weights so far. */
static struct row {
    size_t first, count;
    unsigned weight_end;
} rows[CASES_MOST];
static size_t row_count;
static unsigned weight_all;

void case_add(const struct torture_case *kind)
{
    if (case_count == CASES_MOST)
        abort();
    cases[case_count++] = kind;
}

void cases_list(void)
{
    for (size_t i = 0; i < case_count; i++)
        printf("%-12s %s%s\n", cases[i]->name, cases[i]->about,
               cases[i]->flags & OFF_BY_DEFAULT ? " [only when named]" : "");
}

static bool named(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ','))
            return true;
    return false;
}

static bool wanted(const struct torture_case *kind, const char *only)
{
    if (only ? !named(only, kind->name) : kind->flags & OFF_BY_DEFAULT)
        return false;
    if (UNDER_ASAN && kind->flags & NOT_UNDER_ASAN) {
        say("skipped: %s: not under AddressSanitizer", kind->name);
        return false;
    }
    if (kind->flags & NEEDS_ROOT && geteuid() != 0) {
        say("skipped: %s: needs root", kind->name);
        return false;
    }
    return true;
}

static void check_names(const char *only)
{
    char list[1024], *rest = list, *name;
    snprintf(list, sizeof list, "%s", only);
    while ((name = strsep(&rest, ","))) {
        bool known = false;
        for (size_t i = 0; i < case_count; i++)
            known |= strcmp(cases[i]->name, name) == 0;
        if (!known) {
            fprintf(stderr, "torture: no such case: '%s' (see --list)\n", name);
            exit(2);
        }
    }
}

static void add_trials(const struct torture_case *kind, size_t bytes)
{
    unsigned count = kind->instances;
    if (count == 0)
        count = options.threads / 2 < 2 ? 2 : options.threads / 2;
    for (unsigned i = 0; i < count && trial_count < TRIALS_MOST; i++) {
        struct trial *trial = calloc(1, sizeof *trial);
        if (trial == NULL)
            fail_errno("calloc");
        trial->kind = kind;
        trial->index = i;
        trial->bytes = bytes / count;
        uint64_t name = 0;
        for (const char *c = kind->name; *c; c++)
            name = mix64(name ^ (uint8_t)*c);
        trial->rng = rng_make(options.seed ^ mix64(name + i));
        trials[trial_count++] = trial;
    }
}

void trials_make(const char *only)
{
    const struct torture_case *chosen[CASES_MOST], *ballast = NULL;
    size_t count = 0;
    unsigned shares = 0;
    if (only)
        check_names(only);
    for (size_t i = 0; i < case_count; i++) {
        if (strcmp(cases[i]->name, BALLAST) == 0)
            ballast = cases[i];
        else if (wanted(cases[i], only))
            shares += (chosen[count++] = cases[i])->share;
    }
    /* Alone, the big regions get everything; else half, so that there is pressure. */
    add_trials(ballast, count ? options.memory / 2 : options.memory);
    ballast_count = trial_count;
    for (size_t i = 0; i < count; i++) {
        struct row *row = &rows[row_count++];
        row->first = trial_count;
        add_trials(chosen[i], options.memory / 2 / shares * chosen[i]->share);
        row->count = trial_count - row->first;
        weight_all += chosen[i]->weight;
        row->weight_end = weight_all;
    }
}

static struct trial *take_one_of(size_t first, size_t count, struct rng *rng)
{
    size_t start = rng_below(rng, count);
    for (size_t i = 0; i < count; i++) {
        struct trial *trial = trials[first + (start + i) % count];
        if (!trial->skipped && !atomic_exchange(&trial->taken, true)) {
            if (!trial->skipped)
                return trial;
            atomic_store(&trial->taken, false);
        }
    }
    return NULL;
}

struct trial *trial_take(struct rng *rng)
{
    for (;;) {
        struct trial *trial = NULL;
        if (row_count == 0 || rng_chance(rng, options.pressure)) {
            trial = take_one_of(0, ballast_count, rng);
        } else {
            unsigned roll = (unsigned)rng_below(rng, weight_all);
            size_t i = 0;
            while (rows[i].weight_end <= roll)
                i++;
            trial = take_one_of(rows[i].first, rows[i].count, rng);
            /* All trials of that case are taken: do something useful instead of spinning. */
            if (trial == NULL)
                trial = take_one_of(0, ballast_count, rng);
        }
        if (trial)
            return trial;
        usleep(100);
    }
}

void trial_release(struct trial *trial)
{
    atomic_store(&trial->taken, false);
}

void trial_op(struct trial *trial)
{
    snprintf(me->kind, sizeof me->kind, "%s", trial->kind->name);
    if (trial->state == NULL) {
        step("setup");
        trial->kind->setup(trial);
        if (trial->skipped)
            return;
    }
    step("begins");
    trial->kind->op(trial);
    trial->ops++;
    step("rests");
}

void trials_freeze(struct frozen *frozen, unsigned most, struct rng *rng)
{
    frozen->count = 0;
    for (unsigned tries = 0; tries < most * 2 && frozen->count < most; tries++) {
        struct trial *trial = trials[rng_below(rng, trial_count)];
        if (trial->skipped || atomic_exchange(&trial->taken, true))
            continue;
        if (trial->state)
            frozen->trials[frozen->count++] = trial;
        else
            trial_release(trial);
    }
}

void trials_thaw(struct frozen *frozen)
{
    for (unsigned i = 0; i < frozen->count; i++)
        trial_release(frozen->trials[i]);
    frozen->count = 0;
}

void trials_check(struct frozen *frozen)
{
    for (unsigned i = 0; i < frozen->count; i++) {
        char what[64];
        snprintf(what, sizeof what, "checking %s/%u", frozen->trials[i]->kind->name,
                 frozen->trials[i]->index);
        step(what);
        frozen->trials[i]->kind->check(frozen->trials[i]);
    }
}

/* How much each case has done: "random 812, fork 40, ...". */
static void say_ops(void)
{
    char text[960] = "";
    size_t n = 0;
    for (size_t i = 0; i < trial_count;) {
        const struct torture_case *kind = trials[i]->kind;
        uint64_t ops = 0;
        for (; i < trial_count && trials[i]->kind == kind; i++)
            ops += trials[i]->ops;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %llu", n ? ", " : "", kind->name,
                              (unsigned long long)ops);
    }
    say("%s", text);
}

void trials_finish(void)
{
    say_ops();
    for (size_t i = 0; i < trial_count; i++) {
        struct trial *trial = trials[i];
        if (trial->state) {
            snprintf(me->kind, sizeof me->kind, "%s", trial->kind->name);
            step("final check");
            trial->kind->check(trial);
            step("teardown");
            trial->kind->teardown(trial);
        }
        free(trial);
    }
    trial_count = 0;
}

void *trial_alloc(struct trial *trial, size_t size)
{
    trial->state = calloc(1, size);
    if (trial->state == NULL)
        fail_errno("calloc of %zu bytes", size);
    return trial->state;
}

void one_region_make(struct trial *trial)
{
    struct region *region = trial_alloc(trial, sizeof *region);
    region_make(region, trial_pages(trial, 64), &trial->rng);
    region_fill(region, &trial->rng);
}

void one_region_check(struct trial *trial)
{
    region_check_all(trial->state);
}

void one_region_drop(struct trial *trial)
{
    region_drop(trial->state);
    free(trial->state);
}
