/*
 * torture: options, workers, the progress line and the verdict. See torture.h for the parts and
 * README.md for how to use it.
 */
#include "torture.h"
#include "watch.h"

#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

struct options options = {
    .seconds = 10,
    .threads = 4,
    .watchdog = 60,
    .pressure = 30,
    .random = 10,
    .memory = (size_t)256 << 20,
};

static _Atomic bool stop;

static const char usage[] =
    "usage: torture [--seed N] [--seconds N] [--memory SIZE] [--threads N] [--only CASE,CASE]\n"
    "               [--pressure PERCENT] [--random PERCENT] [--watchdog SECONDS] [--dir DIR]\n"
    "               [--halt] [--sabotage flip|zero|stale|lost|hang] [--list]\n";

static _Noreturn void usage_error(const char *what, const char *value)
{
    fprintf(stderr, "torture: %s: '%s'\n%s", what, value, usage);
    exit(2);
}

static uint64_t parse_number(const char *text, const char *name)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 0);
    if (*text == 0 || *text == '-' || *end || errno)
        usage_error(name, text);
    return n;
}

/* 1024-based: 4096, 64K, 512M, 1.5G. */
static size_t parse_size(const char *text)
{
    char *end;
    double n = strtod(text, &end);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || !(n > 0) || n > 1e15 || (*end && (unit == NULL || end[1])))
        usage_error("not a size", text);
    if (unit)
        n *= (double)((uint64_t)1 << (10 * (unit - units + 1)));
    return (size_t)n;
}

struct request {
    const char *only, *exec_mode, *arg;
    pid_t watch;
    int board, slot;
    bool seeded, list;
};

static void parse(struct request *request, int argc, char **argv)
{
    enum { SEED = 256, SECONDS, MEMORY, THREADS, ONLY, PRESSURE, RANDOM, WATCHDOG, DIR, HALT, LIST,
           HELP, SABOTAGE, EXEC_CHILD, ARG, BOARD, SLOT, WATCH };
    static const struct option names[] = {
        { "seed", 1, NULL, SEED },         { "seconds", 1, NULL, SECONDS },
        { "memory", 1, NULL, MEMORY },     { "threads", 1, NULL, THREADS },
        { "only", 1, NULL, ONLY },         { "pressure", 1, NULL, PRESSURE },
        { "random", 1, NULL, RANDOM },     { "watchdog", 1, NULL, WATCHDOG },
        { "dir", 1, NULL, DIR },           { "halt", 0, NULL, HALT },
        { "sabotage", 1, NULL, SABOTAGE }, { "list", 0, NULL, LIST },         { "help", 0, NULL, HELP },
        { "exec-child", 1, NULL, EXEC_CHILD }, { "arg", 1, NULL, ARG },
        { "board", 1, NULL, BOARD },       { "slot", 1, NULL, SLOT },
        { "watch", 1, NULL, WATCH },       { NULL, 0, NULL, 0 },
    };
    const char *dir = getenv("TMPDIR");
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case SEED: options.seed = parse_number(optarg, "--seed"); request->seeded = true; break;
        case SECONDS: options.seconds = (unsigned)parse_number(optarg, "--seconds"); break;
        case MEMORY: options.memory = parse_size(optarg); break;
        case THREADS: options.threads = (unsigned)parse_number(optarg, "--threads"); break;
        case ONLY: request->only = optarg; break;
        case PRESSURE: options.pressure = (unsigned)parse_number(optarg, "--pressure"); break;
        case RANDOM: options.random = (unsigned)parse_number(optarg, "--random"); break;
        case WATCHDOG: options.watchdog = (unsigned)parse_number(optarg, "--watchdog"); break;
        case DIR: dir = optarg; break;
        case HALT: options.halt = true; break;
        case SABOTAGE: options.sabotage = optarg; break;
        case LIST: request->list = true; break;
        case HELP: fputs(usage, stdout); exit(0);
        case EXEC_CHILD: request->exec_mode = optarg; break;
        case ARG: request->arg = optarg; break;
        case BOARD: request->board = (int)parse_number(optarg, "--board"); break;
        case SLOT: request->slot = (int)parse_number(optarg, "--slot"); break;
        case WATCH: request->watch = (pid_t)parse_number(optarg, "--watch"); break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    exec_argc = argc - optind;
    exec_argv = argv + optind;
    if (optind < argc && request->exec_mode == NULL)
        usage_error("unexpected argument", argv[optind]);
    if (options.threads < 1 || options.threads > 256)
        usage_error("--threads must be 1 to 256", "");
    if (options.pressure > 95 || options.random > 100)
        usage_error("--pressure is at most 95, --random at most 100", "");
    if (options.memory < (size_t)16 << 20)
        usage_error("--memory must be at least 16M", "");
    snprintf(options.dir, sizeof options.dir, "%s", dir ? dir : "/tmp");
    if (realpath("/proc/self/exe", NULL) == NULL ||
        readlink("/proc/self/exe", options.self, sizeof options.self - 1) < 0)
        usage_error("cannot find myself in", "/proc/self/exe");
}

static void worker(struct helper *helper)
{
    while (!atomic_load(&stop)) {
        struct trial *trial = trial_take(&helper->rng);
        trial_op(trial);
        trial_release(trial);
        atomic_fetch_add(&board->ops, 1);
    }
}

static unsigned long resident_mib(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * PAGE >> 20;
}

static void run(void)
{
    struct helper *helpers = calloc(options.threads, sizeof *helpers);
    if (helpers == NULL)
        fail_errno("calloc");
    for (unsigned i = 0; i < options.threads; i++) {
        helpers[i] = (struct helper){ .run = worker, .index = i,
                                      .rng = rng_make(options.seed + 1000003u * (i + 1)) };
        helper_start(&helpers[i], "worker", NULL);
    }
    uint64_t before = 0;
    for (unsigned second = 1; second <= options.seconds; second++) {
        struct timespec left = { 1, 0 };
        while (nanosleep(&left, &left) != 0)
            ;
        step("progress");
        uint64_t ops = atomic_load(&board->ops);
        say("%u/%u s, %llu ops (+%llu), resident %lu MiB", second, options.seconds,
            (unsigned long long)ops, (unsigned long long)(ops - before), resident_mib());
        before = ops;
    }
    atomic_store(&stop, true);
    step("waiting for the workers");
    for (unsigned i = 0; i < options.threads; i++)
        helper_join(&helpers[i]);
    free(helpers);
    trials_finish();
}

/* Blocks the signals that cases send; only helper threads that want them unblock them. */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGVTALRM);
    sigaddset(&set, SIGPROF);
    for (int i = 0; i < 8; i++)
        sigaddset(&set, SIGRTMIN + i);
    must(sigprocmask(SIG_BLOCK, &set, NULL));
    /* Writing to a pipe whose reader was killed must return an error, not end the program. */
    signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    struct request request = { .board = -1 };
    parse(&request, argc, argv);
    if (request.list) {
        cases_list();
        return 0;
    }
    if (request.board >= 0)
        board_join(request.board);
    else
        board_make();
    if (request.watch)
        return watch_main(request.watch);
    block_signals();
    faults_install();
    if (request.exec_mode) {
        child_begin(slot_at((unsigned)request.slot));
        step("exec child begins");
        return exec_mode_run(request.exec_mode, request.arg);
    }
    if (!request.seeded)
        options.seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid() % 1000;
    slot_become(slot_take("main"));
    printf("torture: seed=%llu seconds=%u memory=%zuM threads=%u pid=%d\n",
           (unsigned long long)options.seed, options.seconds, options.memory >> 20, options.threads,
           getpid());
    /* Nothing may stay in the buffer: forked children would print it again at exit(). */
    fflush(stdout);
    watch_start();
    /* Otherwise glibc raises the threshold up to 32 MiB, and realloc hardly ever uses mremap. */
    if (options.seed % 2 == 0)
        mallopt(M_MMAP_THRESHOLD, 128 << 10);
    trials_make(request.only);
    run();
    atomic_store(&board->finished, 1);
    printf("torture: PASS seed=%llu ops=%llu\n", (unsigned long long)options.seed,
           (unsigned long long)atomic_load(&board->ops));
    return 0;
}
