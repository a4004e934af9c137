/*
 * vmreadv: process_vm_readv and process_vm_writev, in this process and between parent and child: the kernel
 * faults pages in for another process. Where ptrace between processes is forbidden, the part with the child
 * is skipped.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <sys/uio.h>

struct remote {
    struct region from;
    struct mirror to;
};

static _Atomic bool said;

static void setup(struct trial *trial)
{
    struct remote *remote = trial_alloc(trial, sizeof *remote);
    size_t pages = trial_pages(trial, 128) / 2;
    region_make(&remote->from, pages, &trial->rng);
    region_fill(&remote->from, &trial->rng);
    mirror_make(&remote->to, pages, 16);
}

/* False if it is not permitted. */
static bool copy(pid_t pid, void *to, const void *from, size_t length, bool write)
{
    struct iovec here = { write ? (void *)(uintptr_t)from : to, length };
    struct iovec there = { write ? to : (void *)(uintptr_t)from, length };
    ssize_t n = write ? process_vm_writev(pid, &here, 1, &there, 1, 0)
                      : process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS)) {
        say_skipped(&said, "vmreadv: process_vm_readv is not permitted here");
        return false;
    }
    if (n != (ssize_t)length)
        fail_errno("process_vm_%s of %zu bytes at %p gave %zd", write ? "writev" : "readv", length,
                   write ? to : from, n);
    move_on();
    return true;
}

static void in_self(struct remote *remote, struct rng *rng)
{
    size_t count = rng_range(rng, 1, 24);
    size_t source = rng_below(rng, remote->from.pages - count + 1), target = rng_below(rng, remote->to.pages - count + 1);
    step("process_vm_readv of itself");
    if (copy(getpid(), mirror_at(&remote->to, target), region_at(&remote->from, source), count * PAGE, rng_chance(rng, 50)))
        for (size_t i = 0; i < count; i++)
            mirror_took(&remote->to, target + i, region_key(&remote->from, source + i));
}

/* The child changes its copy and waits; the parent reads it and writes into it; the child checks it. */
static void in_child_process(struct remote *remote, struct rng *rng)
{
    int to_parent[2], to_child[2];
    char byte = 0;
    size_t count = rng_range(rng, 1, 24), source = rng_below(rng, remote->from.pages - count + 1);
    struct child child;
    must(pipe2(to_parent, O_CLOEXEC));
    must(pipe2(to_child, O_CLOEXEC));
    uint64_t choice = rng_next(rng);
    if (child_fork(&child, "vmreadv-child")) {
        struct rng own = rng_make(choice);
        for (size_t i = 0; i < count; i++)
            region_write(&remote->from, source + i, &own);
        step("child: its memory is read by the parent");
        write_all(to_parent[1], &byte, 1);
        read_all(to_child[0], &byte, 1);
        if (byte == 'w')
            for (size_t i = 0; i < count; i++) {
                struct page_key key = region_key(&remote->from, source + i);
                region_set(&remote->from, source + i, key.version + 1, 0);
            }
        region_check_all(&remote->from);
        child_end();
    }
    read_all(to_parent[0], &byte, 1);
    step("process_vm_readv of a child");
    uint8_t *page = malloc(PAGE);
    if (page == NULL)
        fail_errno("malloc");
    byte = 'w';
    for (size_t i = 0; i < count; i++) {
        struct page_key key = region_key(&remote->from, source + i);
        void *there = region_at(&remote->from, source + i);
        uint64_t made[PAGE_WORDS];
        key.version++;
        key.patches = 0;
        if (!copy(child.pid, page, there, PAGE, false)) {
            byte = 'n';
            break;
        }
        page_check(page, key, PAGE);
        key.version++;
        page_make(made, key);
        copy(child.pid, there, made, PAGE, true);
    }
    free(page);
    write_all(to_child[1], &byte, 1);
    child_expect(&child, 0);
    region_check_run(&remote->from, source, count);
    for (int i = 0; i < 2; i++) {
        close(to_parent[i]);
        close(to_child[i]);
    }
}

static void op(struct trial *trial)
{
    struct remote *remote = trial->state;
    for (int i = 0; i < 6; i++) {
        in_self(remote, &trial->rng);
        region_churn(&remote->from, &trial->rng, 20, 50);
    }
    if (rng_chance(&trial->rng, 10))
        in_child_process(remote, &trial->rng);
}

static void check(struct trial *trial)
{
    struct remote *remote = trial->state;
    region_check_all(&remote->from);
    mirror_check_all(&remote->to);
}

static void teardown(struct trial *trial)
{
    struct remote *remote = trial->state;
    region_drop(&remote->from);
    mirror_drop(&remote->to);
    free(remote);
}

TORTURE_CASE(vmreadv) = {
    .name = "vmreadv",
    .about = "process_vm_readv and process_vm_writev of itself and of a child",
    .weight = 8,
    .share = 2,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
