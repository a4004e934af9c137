/* Stops every thread of a process, as py-spy and `strace -f -p` do, and reads 40 MiB of it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
enum { CHUNK = 1 << 20 };
static char chunk[CHUNK];
int main(int argc, char **argv)
{
    int pid = atoi(argv[1]);
    char *at = (char *)strtoull(argv[2], NULL, 16), path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        int thread = atoi(entry->d_name), status;
        if (thread == 0)
            continue;
        if (ptrace(PTRACE_SEIZE, thread, 0, 0) || ptrace(PTRACE_INTERRUPT, thread, 0, 0))
            return printf("refused: %s\n", strerror(errno)), 9;
        waitpid(thread, &status, __WALL);
    }
    puts("all are stopped");
    fflush(stdout);
    for (long i = 0; i < 40; i++) {
        struct iovec here = {chunk, CHUNK}, there = {at + i * CHUNK, CHUNK};
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) != CHUNK)
            return puts(strerror(errno)), 8;
    }
    puts("all is read");
    return 0;
}
