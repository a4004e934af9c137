/* Requests random keys from a memcached server over several connections, each of which waits for its answer.
 *
 * usage: gets SOCKET FIRST KEYS SECONDS
 *
 * Keys are key:000000000000 and so on, KEYS of them from FIRST on. Prints answers per second, and exits with 1
 * if a key was missing. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 8, ANSWER = 1 << 16 };

static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void ask(int fd, unsigned long first, unsigned long keys)
{
	char text[64];
	int length = snprintf(text, sizeof text, "get key:%012lu\r\n", first + next() % keys);
	if (write(fd, text, length) != length) {
		perror("gets: write");
		exit(1);
	}
}

int main(int count, char **words)
{
	if (count != 5) {
		fprintf(stderr, "usage: gets SOCKET FIRST KEYS SECONDS\n");
		return 2;
	}
	unsigned long first = strtoul(words[2], NULL, 10), keys = strtoul(words[3], NULL, 10), answers = 0;
	static char buffer[CONNECTIONS][ANSWER];
	size_t filled[CONNECTIONS] = {0};
	struct pollfd polls[CONNECTIONS];
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	strncpy(to.sun_path, words[1], sizeof to.sun_path - 1);
	double begin = now(), end = begin + atof(words[4]);
	for (int i = 0; i < CONNECTIONS; i++) {
		polls[i] = (struct pollfd){.fd = socket(AF_UNIX, SOCK_STREAM, 0), .events = POLLIN};
		if (connect(polls[i].fd, (struct sockaddr *)&to, sizeof to) < 0) {
			perror("gets: connect");
			return 1;
		}
		ask(polls[i].fd, first, keys);
	}
	while (now() < end) {
		poll(polls, CONNECTIONS, 1000);
		for (int i = 0; i < CONNECTIONS; i++) {
			if (!(polls[i].revents & POLLIN))
				continue;
			ssize_t got = read(polls[i].fd, buffer[i] + filled[i], ANSWER - filled[i]);
			if (got <= 0) {
				fprintf(stderr, "gets: the server has closed the connection\n");
				return 1;
			}
			filled[i] += got;
			if (filled[i] < 5 || memcmp(buffer[i] + filled[i] - 5, "END\r\n", 5))
				continue;
			if (filled[i] == 5) {
				fprintf(stderr, "gets: a key is missing\n");
				return 1;
			}
			answers++;
			filled[i] = 0;
			ask(polls[i].fd, first, keys);
		}
	}
	printf("%.0f\n", answers / (now() - begin));
	return 0;
}
