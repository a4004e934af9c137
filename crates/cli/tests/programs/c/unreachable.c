/* Fills argv[1] MiB, enters a PID and a network namespace of its own, and forks twice. The grandchild checks
 * the memory, prints its process id as it sees it and "right", and waits for a line. Exits with 9 where it may
 * not make namespaces. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 512 };

static uint64_t *memory;
static size_t pages;

static int grandchild(void) {
    char line[8];
    for (size_t i = 0; i < pages * WORDS; i++)
        if (memory[i] != i / WORDS * 7 + i % 5)
            return printf("wrong: word %zu\n", i), 1;
    printf("%d right\n", getpid());
    fflush(stdout);
    return fgets(line, sizeof line, stdin) == NULL;
}

static int ended(pid_t child) {
    int status;
    return waitpid(child, &status, 0) != child || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    pages = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 8;
    memory = malloc(pages * WORDS * sizeof *memory);
    for (size_t i = 0; i < pages * WORDS; i++)
        memory[i] = i / WORDS * 7 + i % 5;
    if (unshare(CLONE_NEWPID | CLONE_NEWNET) != 0)
        return 9;
    pid_t child = fork();
    if (child == 0) {
        pid_t inner = fork();
        exit(inner == 0 ? grandchild() : ended(inner));
    }
    return ended(child);
}
