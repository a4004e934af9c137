/* Says, at several moments, how many threads the kernel counts in this process: by its list, and by the number that Python looks at. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *when) {
    int listed = -2;
    long counted = 0;
    char text[1024] = "";
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) listed++;
    closedir(tasks);
    FILE *file = fopen("/proc/self/stat", "r");
    if (fread(text, 1, sizeof text - 1, file) > 0)
        sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", &counted);
    fclose(file);
    printf("%s %d %ld\n", when, listed, counted);
    fflush(stdout);
}

int main(void) {
    say("start");
    usleep(300000);
    say("later");
    char *mapped = mmap(NULL, 4ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    usleep(300000);
    say("mapped");
    mapped[0] = 1;
    char *filled = malloc(100 << 20);
    memset(filled, 1, 100 << 20);
    usleep(300000);
    say("filled");
    if (fork() == 0) {
        say("child");
        usleep(200000);
        say("child-later");
        _exit(0);
    }
    wait(NULL);
    printf("unshare %d\n", unshare(CLONE_NEWUSER));
    say("end");
    return 0;
}
