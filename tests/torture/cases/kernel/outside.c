/*
 * outside: another process writes into this one's memory while this one uses its other pages: by
 * process_vm_writev from memory that may itself be evicted, through /proc/PID/mem, and as a debugger
 * (PTRACE_POKEDATA). Every write that the kernel reports as done must arrive.
 *
 *   parent: mirror ◄── written by the child ── child: its own copy of the region, changed
 *           region ── the parent uses it meanwhile
 *
 * A page that both share says what was written. Where ptrace between processes is forbidden, the case is
 * skipped.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define BATCH 64 /* pages that the child writes before the parent looks */
#define BATCHES 6

struct note {
    struct page_key keys[BATCH];
    size_t at;
    pid_t writer_of; /* the thread whose memory it is */
    _Atomic uint32_t written, looked; /* batches */
    _Atomic uint32_t refused;
};

struct outside {
    struct region from;
    struct mirror to;
    struct note *note;
};

static _Atomic bool said;

static void setup(struct trial *trial)
{
    struct outside *outside = trial_alloc(trial, sizeof *outside);
    size_t pages = trial_pages(trial, 4 * BATCH) / 2;
    region_make(&outside->from, pages, &trial->rng);
    region_fill(&outside->from, &trial->rng);
    mirror_make(&outside->to, pages, 0);
    outside->note = mmap(NULL, sizeof *outside->note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outside->note == MAP_FAILED)
        fail_errno("mmap");
}

/* Reading restores an evicted page. Writing makes a page that is shared since a fork the process's own. */
static void make_ready(pid_t pid, void *at)
{
    char byte;
    struct iovec here = { &byte, 1 }, there = { at, 1 };
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != 1 || process_vm_writev(pid, &here, 1, &there, 1, 0) != 1)
        fail_errno("process_vm_readv and process_vm_writev of a byte");
    move_on();
}

static bool write_all_at_once(struct outside *outside, pid_t pid, size_t source, size_t target)
{
    struct iovec here = { region_at(&outside->from, source), BATCH * PAGE };
    struct iovec there = { mirror_at(&outside->to, target), BATCH * PAGE };
    step("outside: process_vm_writev");
    ssize_t n = process_vm_writev(pid, &here, 1, &there, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS))
        return false;
    if (n != BATCH * (ssize_t)PAGE)
        fail_errno("process_vm_writev of another process gave %zd", n);
    return true;
}

/* The kernel refuses (EIO) to write in this way to a page that is evicted, or shared since a fork. That is a
 * documented limit, and not silent. */
static bool write_to_file(struct outside *outside, pid_t pid, size_t source, size_t target)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    step("outside: /proc/PID/mem");
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return false;
    for (size_t i = 0; i < BATCH; i++) {
        uint8_t *at = mirror_at(&outside->to, target + i);
        for (size_t done = 0; done < PAGE;) {
            ssize_t n = pwrite(file, region_at(&outside->from, source + i) + done, PAGE - done, (off_t)(uintptr_t)(at + done));
            if (n > 0)
                done += (size_t)n;
            else if (errno == EIO)
                make_ready(pid, at + done);
            else
                fail_errno("a write to %s gave %zd", path, n);
        }
        move_on();
    }
    close(file);
    return true;
}

static bool poke(struct outside *outside, pid_t pid, size_t source, size_t target)
{
    step("outside: PTRACE_POKEDATA");
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0)
        return false;
    must(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
    int status;
    while (waitpid(pid, &status, __WALL) != pid)
        move_on();
    for (size_t i = 0; i < BATCH; i++) {
        uint64_t *at = (uint64_t *)mirror_at(&outside->to, target + i);
        const uint64_t *words = (const uint64_t *)region_at(&outside->from, source + i);
        for (size_t word = 0; word < PAGE_WORDS; word++)
            while (ptrace(PTRACE_POKEDATA, pid, at + word, words[word]) != 0) {
                if (errno != EIO && errno != EFAULT)
                    fail_errno("PTRACE_POKEDATA");
                make_ready(pid, at + word);
            }
        move_on();
    }
    must(ptrace(PTRACE_DETACH, pid, 0, 0));
    return true;
}

static void writer(struct outside *outside, struct rng *rng)
{
    struct note *note = outside->note;
    bool (*const ways[])(struct outside *, pid_t, size_t, size_t) = { write_all_at_once, write_to_file, poke };
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        unsigned kind = rng_below(rng, 10);
        size_t source = rng_below(rng, outside->from.pages - BATCH + 1);
        note->at = rng_below(rng, outside->to.pages - BATCH + 1);
        for (size_t i = 0; i < BATCH; i++) {
            region_write(&outside->from, source + i, rng);
            note->keys[i] = region_key(&outside->from, source + i);
        }
        if (!ways[kind < 6 ? 0 : kind < 9 ? 1 : 2](outside, note->writer_of, source, note->at)) {
            note->refused = 1;
            note->written = BATCHES;
            return;
        }
        note->written = batch + 1;
        step("outside: waits for the parent to look");
        while (note->looked <= batch) {
            usleep(100);
            move_on();
        }
    }
}

static void op(struct trial *trial)
{
    struct outside *outside = trial->state;
    struct note *note = outside->note;
    struct rng *rng = &trial->rng;
    uint64_t choice = rng_next(rng);
    struct child child;
    note->written = note->looked = note->refused = 0;
    note->writer_of = gettid();
    /* For systems where only ancestors may trace. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (child_fork(&child, "writer")) {
        struct rng own = rng_make(choice);
        writer(outside, &own);
        child_end();
    }
    for (uint32_t batch = 0; batch < BATCHES && !note->refused; batch++) {
        step("waits for what another process writes");
        while (note->written <= batch)
            region_churn(&outside->from, rng, 2, 50);
        if (note->refused)
            break;
        for (size_t i = 0; i < BATCH; i++)
            mirror_took(&outside->to, note->at + i, note->keys[i]);
        note->looked = batch + 1;
    }
    if (note->refused)
        say_skipped(&said, "outside: writing to another process is not permitted here");
    child_expect(&child, 0);
}

static void check(struct trial *trial)
{
    struct outside *outside = trial->state;
    region_check_all(&outside->from);
    mirror_check_all(&outside->to);
}

static void teardown(struct trial *trial)
{
    struct outside *outside = trial->state;
    region_drop(&outside->from);
    mirror_drop(&outside->to);
    munmap(outside->note, sizeof *outside->note);
    free(outside);
}

TORTURE_CASE(outside) = {
    .name = "outside",
    .about = "another process writes: process_vm_writev, /proc/PID/mem, PTRACE_POKEDATA",
    .weight = 4,
    .share = 3,
    .instances = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
