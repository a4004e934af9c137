/*
 * spawn: other programs, started with arguments and environments in old pages, which the kernel itself
 * reads: by posix_spawn, vfork and exec, fork and exec, popen, system. The started program is this one; it
 * checks whether every argument arrived.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STRINGS 24
#define STRING_MOST ((size_t)40 << 10)

struct spawn {
    /* The vectors are in the same memory as the strings. */
    struct vectors {
        char *argv[STRINGS + 32], *envp[STRINGS + 128];
    } *vectors;
    char *strings;
    size_t bytes;
    struct region around; /* other memory to use meanwhile */
    struct mirror answer;
};

/* String `index`, which an executed child makes again to compare: printable, of any length. */
static size_t string_length(uint64_t id, unsigned index)
{
    uint64_t hash = mix64(id ^ index);
    size_t most = hash % 4 == 0 ? STRING_MOST : 2000;
    return 1 + (hash >> 8) % (most - 1);
}

static void string_make(char *out, uint64_t id, unsigned index)
{
    size_t length = string_length(id, index);
    struct rng rng = rng_make(options.seed ^ mix64(id + index));
    for (size_t i = 0; i < length; i++)
        out[i] = (char)('!' + rng_below(&rng, 90));
    out[length] = 0;
}

static bool string_holds(const char *got, uint64_t id, unsigned index)
{
    char *wanted = malloc(STRING_MOST + 1);
    if (wanted == NULL)
        fail_errno("malloc");
    string_make(wanted, id, index);
    bool same = strcmp(got, wanted) == 0;
    free(wanted);
    return same;
}

/* The started program: the arguments after "--" and the variables T0, T1, ... must be as made. */
static int run_args(const char *arg)
{
    unsigned long long id = 0;
    unsigned args = 0, variables = 0;
    if (arg == NULL || sscanf(arg, "%llx:%u:%u", &id, &args, &variables) != 3)
        fail("bad --arg of the args mode");
    if ((unsigned)exec_argc != args)
        fail("%d arguments arrived, expected %u", exec_argc, args);
    for (unsigned i = 0; i < args; i++)
        if (!string_holds(exec_argv[i], id, i))
            fail("argument %u of an executed program arrived with other bytes: \"%.40s...\"", i, exec_argv[i]);
    for (unsigned i = 0; i < variables; i++) {
        char name[16];
        snprintf(name, sizeof name, "T%u", i);
        const char *value = getenv(name);
        if (value == NULL || !string_holds(value, id, args + i))
            fail("environment variable %s of an executed program arrived with other bytes", name);
    }
    return 0;
}
EXEC_MODE(run_args, "args")

static void setup(struct trial *trial)
{
    struct spawn *spawn = trial_alloc(trial, sizeof *spawn);
    /* Room for all strings at their longest, mostly unused, so that strings are scattered in it. */
    spawn->bytes = STRINGS * (STRING_MOST + 64);
    spawn->strings = must(mmap(NULL, spawn->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    spawn->vectors = must(mmap(NULL, sizeof *spawn->vectors, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    region_make(&spawn->around, trial_pages(trial, 64) / 2, &trial->rng);
    region_fill(&spawn->around, &trial->rng);
    mirror_make(&spawn->answer, 16, 100);
}

struct strings {
    char numbers[8][32], identity[64];
    unsigned args, variables;
    struct slot *slot;
};

/* Fills argv and envp: own options first, then "--" and the strings. */
static void compose(struct spawn *spawn, struct strings *strings, struct rng *rng)
{
    struct vectors *v = spawn->vectors;
    uint64_t id = rng_next(rng);
    unsigned n = 0, e = 0, string = 0;
    strings->args = (unsigned)rng_range(rng, 1, STRINGS / 2);
    strings->variables = (unsigned)rng_range(rng, 0, STRINGS / 2);
    strings->slot = slot_take("args");
    snprintf(strings->numbers[0], 32, "%llu", (unsigned long long)options.seed);
    snprintf(strings->numbers[1], 32, "%d", board_fd);
    snprintf(strings->numbers[2], 32, "%u", slot_index(strings->slot));
    snprintf(strings->identity, sizeof strings->identity, "%llx:%u:%u", (unsigned long long)id, strings->args,
             strings->variables);
    char *own[] = { options.self, "--exec-child", "args", "--seed", strings->numbers[0],
                    "--board", strings->numbers[1], "--slot", strings->numbers[2],
                    "--arg", strings->identity, "--" };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        v->argv[n++] = own[i];
    for (char **inherited = environ; *inherited && e < 96; inherited++)
        v->envp[e++] = *inherited;
    for (; string < strings->args + strings->variables; string++) {
        char *at = spawn->strings + string * (STRING_MOST + 64);
        if (string < strings->args) {
            v->argv[n++] = at;
        } else {
            v->envp[e++] = at;
            at += sprintf(at, "T%u=", string - strings->args);
        }
        string_make(at, id, string);
    }
    v->argv[n] = NULL;
    v->envp[e] = NULL;
}

/* Lets the strings rest while others use memory, so that exec finds them old. */
static void let_rest(struct spawn *spawn, struct rng *rng)
{
    region_churn(&spawn->around, rng, 60, 50);
    usleep((unsigned)rng_below(rng, 3000));
    madvise(spawn->strings, spawn->bytes, MADV_COLD);
}

static void start(struct spawn *spawn, struct rng *rng)
{
    struct strings strings;
    struct child child;
    struct vectors *v = spawn->vectors;
    unsigned how = (unsigned)rng_below(rng, 4);
    step("composing arguments");
    compose(spawn, &strings, rng);
    let_rest(spawn, rng);
    child.slot = strings.slot;
    if (how <= 1) {
        posix_spawn_file_actions_t actions;
        must_zero(posix_spawn_file_actions_init(&actions));
        must_zero(posix_spawn_file_actions_adddup2(&actions, board_fd, board_fd));
        step(how ? "posix_spawnp" : "posix_spawn");
        must_zero(how ? posix_spawnp(&child.pid, v->argv[0], &actions, NULL, v->argv, v->envp)
                      : posix_spawn(&child.pid, v->argv[0], &actions, NULL, v->argv, v->envp));
        posix_spawn_file_actions_destroy(&actions);
    } else {
        step(how == 2 ? "vfork and exec" : "fork and exec");
        /* A vfork child may only make system calls; fcntl changes its own table of descriptors. */
        child.pid = how == 2 ? vfork() : fork();
        if (child.pid == 0) {
            fcntl(board_fd, F_SETFD, 0);
            execve(v->argv[0], v->argv, v->envp);
            _exit(127);
        }
        if (child.pid < 0)
            fail_errno("fork");
    }
    child_expect(&child, 0);
}

static void through_shell(struct spawn *spawn, struct rng *rng)
{
    char *command = spawn->strings;
    int want = (int)rng_below(rng, 100);
    step("system");
    size_t n = (size_t)sprintf(command, ": ");
    for (size_t end = n + rng_below(rng, STRING_MOST - 64); n < end; n++)
        command[n] = (char)('a' + n % 26);
    sprintf(command + n, "; exit %d", want);
    let_rest(spawn, rng);
    status_expect(system(command), want, "a shell started by system()");
}

static void through_popen(struct spawn *spawn, struct rng *rng)
{
    size_t count = rng_range(rng, 1, 16), page = rng_below(rng, spawn->around.pages - count + 1);
    char path[320], command[512];
    step("popen");
    snprintf(path, sizeof path, "%s/torture-XXXXXX", options.dir);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        fail_errno("a scratch file in %s", options.dir);
    snprintf(command, sizeof command, "cat > '%s'", path);
    FILE *pipe = popen(command, "we");
    if (pipe == NULL || fwrite(region_at(&spawn->around, page), PAGE, count, pipe) != count)
        fail_errno("writing to a command");
    status_expect(pclose(pipe), 0, "cat > file");
    snprintf(command, sizeof command, "cat '%s'", path);
    pipe = popen(command, "re");
    if (pipe == NULL || fread(mirror_at(&spawn->answer, 0), PAGE, count, pipe) != count)
        fail_errno("reading from a command");
    status_expect(pclose(pipe), 0, "cat file");
    unlink(path);
    close(fd);
    for (size_t i = 0; i < count; i++)
        mirror_took(&spawn->answer, i, region_key(&spawn->around, page + i));
}

static void op(struct trial *trial)
{
    struct spawn *spawn = trial->state;
    unsigned roll = (unsigned)rng_below(&trial->rng, 10);
    if (roll < 7)
        start(spawn, &trial->rng);
    else if (roll < 9)
        through_shell(spawn, &trial->rng);
    else
        through_popen(spawn, &trial->rng);
}

static void check(struct trial *trial)
{
    struct spawn *spawn = trial->state;
    region_check_all(&spawn->around);
    mirror_check_all(&spawn->answer);
}

static void teardown(struct trial *trial)
{
    struct spawn *spawn = trial->state;
    region_drop(&spawn->around);
    mirror_drop(&spawn->answer);
    munmap(spawn->strings, spawn->bytes);
    munmap(spawn->vectors, sizeof *spawn->vectors);
    free(spawn);
}

TORTURE_CASE(spawn) = {
    .name = "spawn",
    .about = "posix_spawn, vfork and exec, popen, system, with arguments in old pages",
    .weight = 3,
    .share = 3,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
