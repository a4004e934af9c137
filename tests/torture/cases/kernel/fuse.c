/*
 * fuse: files of a FUSE server that asks for direct I/O (FOPEN_DIRECT_IO). The kernel pins the reader's
 * pages, waits for the server, and copies the answer to their physical addresses. The program's own calls
 * do not show this: it opens and reads the file like any other. The server is a child process: if it were a
 * thread, the process could not be ended while a reader waits.
 */
#include "torture.h"
#include "mirror.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define RUN_MOST 32
#define FILE_PAGES ((uint64_t)1 << 28)
#define CONTENTS 0xf05eull
#define REQUEST_ROOM ((size_t)64 << 10) /* the kernel wants room for a write of some pages */

struct fuse {
    struct region around;
    struct mirror to;
    int file;
    struct child server;
};

struct reading {
    struct fuse *fuse;
    size_t target, count;
    uint64_t first; /* page of the file */
};

static _Atomic bool said;

/* Passed to a server by the thread that starts it. One server is started at a time. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static int device;
static struct rng server_rng;

static struct page_key contents(uint64_t page)
{
    return (struct page_key){ .region = CONTENTS, .page = page, .version = 1 };
}

static void answer(uint64_t unique, int error, void *body, size_t length)
{
    struct fuse_out_header head = { .len = (uint32_t)(sizeof head + length), .error = error, .unique = unique };
    struct iovec parts[2] = { { &head, sizeof head }, { body, length } };
    /* ENOENT: the reader was interrupted, and no longer waits. */
    if (writev(device, parts, length ? 2 : 1) < 0 && errno != ENOENT)
        fail_errno("an answer of %zu bytes to a FUSE request", length);
}

static struct fuse_attr attributes(uint64_t node)
{
    bool root = node == FUSE_ROOT_ID;
    return (struct fuse_attr){ .ino = node, .nlink = 1, .size = root ? 0 : FILE_PAGES * PAGE,
                               .mode = root ? S_IFDIR | 0755 : S_IFREG | 0644 };
}

/* The answer comes late, so that the waiting pages can become old. */
static void answer_read(uint64_t unique, const struct fuse_read_in *in)
{
    static uint64_t pages[RUN_MOST][PAGE_WORDS];
    size_t count = in->size / PAGE < RUN_MOST ? in->size / PAGE : RUN_MOST;
    for (size_t i = 0; i < count; i++)
        page_make(pages[i], contents(in->offset / PAGE + i));
    usleep((useconds_t)rng_below(&server_rng, 3000));
    answer(unique, 0, pages, count * PAGE);
}

static void serve(const uint8_t *request)
{
    const struct fuse_in_header *head = (const void *)request;
    const void *in = head + 1;
    switch (head->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *asked = in;
        struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
                                     .max_readahead = asked->max_readahead, .max_write = 4 * PAGE };
        answer(head->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = { .nodeid = 2, .entry_valid = 100, .attr_valid = 100, .attr = attributes(2) };
        answer(head->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = { .attr_valid = 100, .attr = attributes(head->nodeid) };
        answer(head->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = { .open_flags = FOPEN_DIRECT_IO };
        answer(head->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_READ:
        answer_read(head->unique, in);
        break;
    case FUSE_RELEASE:
        answer(head->unique, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(head->unique, -ENOSYS, NULL, 0);
    }
}

/* Whether the reading process has ended, or is a zombie because it still waits for this one. */
static bool is_forsaken(pid_t parent)
{
    char path[40], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", parent);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return true;
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    return n <= 0 || strstr(text, ") Z ") != NULL;
}

static _Noreturn void serve_while(pid_t parent)
{
    static uint8_t request[REQUEST_ROOM];
    step("serves files");
    /* The server must not end with the thread that started it: other threads read the files. */
    must(prctl(PR_SET_PDEATHSIG, 0));
    /* Close inherited descriptors: the reader of a pipe among them would wait for the end of this process. */
    if (device > 3)
        must(close_range(3, (unsigned)device - 1, 0));
    must(close_range((unsigned)device + 1, ~0U, 0));
    for (;;) {
        struct pollfd wait_for = { .fd = device, .events = POLLIN };
        if (poll(&wait_for, 1, 500) == 0) {
            if (is_forsaken(parent))
                child_end();
            /* Otherwise a server without requests for a minute would count as hung. */
            step("serves files");
            continue;
        }
        ssize_t n = read(device, request, sizeof request);
        if (n > 0)
            serve(request);
        else if (n < 0 && errno == ENODEV)
            child_end();
        move_on();
    }
}

static void skip(struct trial *trial, const char *what)
{
    say_skipped(&said, "fuse: %s: %s", what, strerrordesc_np(errno));
    trial->skipped = true;
}

/* Mounts, opens the only file, and unmounts: the open file still works. */
static bool open_file(struct fuse *fuse)
{
    char place[300], path[310], mount_options[100];
    snprintf(place, sizeof place, "%s/torture-fuse-XXXXXX", options.dir);
    snprintf(mount_options, sizeof mount_options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u", device, getuid(), getgid());
    if (mkdtemp(place) == NULL)
        return false;
    snprintf(path, sizeof path, "%s/file", place);
    int error = 0;
    fuse->file = -1;
    if (mount("torture", place, "fuse", MS_NOSUID | MS_NODEV, mount_options) == 0) {
        fuse->file = open(path, O_RDONLY | O_CLOEXEC);
        error = errno;
        must(umount2(place, MNT_DETACH));
    } else {
        error = errno;
    }
    must(rmdir(place));
    errno = error;
    return fuse->file >= 0;
}

static void stop_server(struct fuse *fuse)
{
    kill(fuse->server.pid, SIGKILL);
    child_expect_signal(&fuse->server, SIGKILL);
}

static bool start_server(struct trial *trial, struct fuse *fuse)
{
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0) {
        skip(trial, "/dev/fuse");
        return false;
    }
    server_rng = rng_make(rng_next(&trial->rng));
    pid_t self = getpid();
    if (child_fork(&fuse->server, "FUSE server"))
        serve_while(self);
    bool opened = open_file(fuse);
    if (!opened)
        skip(trial, "mounting");
    /* Only the server may have the device open: if it dies, readers get an error. */
    must(close(device));
    if (!opened)
        stop_server(fuse);
    return opened;
}

static void setup(struct trial *trial)
{
    struct fuse *fuse = trial_alloc(trial, sizeof *fuse);
    must_zero(pthread_mutex_lock(&making));
    bool started = start_server(trial, fuse);
    must_zero(pthread_mutex_unlock(&making));
    if (!started)
        return;
    size_t pages = trial_pages(trial, 4 * RUN_MOST) / 2;
    region_make(&fuse->around, pages, &trial->rng);
    region_fill(&fuse->around, &trial->rng);
    mirror_make(&fuse->to, pages, 0);
}

static void reader(struct helper *helper)
{
    struct reading *reading = helper->shared;
    step("waits for a FUSE server");
    pread_all(reading->fuse->file, mirror_at(&reading->fuse->to, reading->target), reading->count * PAGE,
              (off_t)(reading->first * PAGE));
}

static void op(struct trial *trial)
{
    struct fuse *fuse = trial->state;
    struct rng *rng = &trial->rng;
    for (int i = 0; i < 4; i++) {
        struct reading reading = { .fuse = fuse, .count = rng_range(rng, 1, RUN_MOST) };
        reading.target = rng_below(rng, fuse->to.pages - reading.count + 1);
        /* Pages that were hardly ever read before, so that old contents can't pass for new ones. */
        reading.first = rng_below(rng, FILE_PAGES - RUN_MOST);
        struct helper helper = { .run = reader, .shared = &reading, .rng = rng_make(rng_next(rng)) };
        helper_start(&helper, "fuse reader", NULL);
        region_churn(&fuse->around, rng, 30, 50);
        helper_join(&helper);
        for (size_t k = 0; k < reading.count; k++)
            mirror_took(&fuse->to, reading.target + k, contents(reading.first + k));
        move_on();
    }
}

static void check(struct trial *trial)
{
    struct fuse *fuse = trial->state;
    region_check_all(&fuse->around);
    mirror_check_all(&fuse->to);
}

static void teardown(struct trial *trial)
{
    struct fuse *fuse = trial->state;
    stop_server(fuse);
    close(fuse->file);
    region_drop(&fuse->around);
    mirror_drop(&fuse->to);
    free(fuse);
}

TORTURE_CASE(fuse) = {
    .name = "fuse",
    .about = "files of a FUSE server that asks for direct I/O",
    .weight = 6,
    .share = 4,
    .instances = 2,
    .flags = NEEDS_ROOT,
    .setup = setup,
    .op = op,
    .check = check,
    .teardown = teardown,
};
