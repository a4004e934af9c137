// The peers that are written in C++: absl::btree_set and std::set. Prints one line of JSON for each.

#include <absl/container/btree_set.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <string>
#include <unistd.h>

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t elements, universe;
static bool in_order;

// The element that is added at turn `i`.
static uint64_t element(uint64_t i)
{
    if (in_order)
        return i;
    return universe ? mix(i) % universe : mix(i);
}

// Another order of turns.
static uint64_t turn(uint64_t i)
{
    return static_cast<uint64_t>(static_cast<unsigned __int128>(i) * 2654435761u % elements);
}

static double seconds()
{
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static uint64_t memory()
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    unsigned long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss_Anon: %lu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib << 10;
}

template <typename Set> static int run(const char *name)
{
    uint64_t before = memory();
    Set set;
    double begin = seconds();
    for (uint64_t i = 0; i < elements; i++)
        set.insert(element(i));
    double insert = seconds() - begin;
    uint64_t full = memory() - before, len = set.size(), found = 0, sum = 0;
    begin = seconds();
    for (uint64_t i = 0; i < elements; i++)
        found += set.find(element(turn(i))) != set.end();
    double find = seconds() - begin;
    begin = seconds();
    for (uint64_t x : set)
        sum += x;
    double scan = seconds() - begin;
    begin = seconds();
    for (uint64_t i = 0; i < elements / 2; i++)
        set.erase(element(turn(i)));
    double remove = seconds() - begin;
    sleep(1);
    remove += seconds() - begin - remove;
    uint64_t half = memory() - before, left = set.size();
    printf("{\"peer\":\"%s\",\"len\":%lu,\"found\":%lu,\"sum\":%lu,\"left\":%lu,\"insert\":%.9f,\"find\":%.9f,\"scan\":%.9f,"
           "\"remove\":%.9f,\"bytes\":%lu,\"half_bytes\":%lu}\n",
           name, len, found, sum, left, insert, find, scan, remove, full, half);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    elements = strtoull(argv[2], nullptr, 0);
    in_order = strcmp(argv[3], "sequential") == 0;
    universe = strtoull(argv[4], nullptr, 0);
    if (strcmp(argv[1], "absl") == 0)
        return run<absl::btree_set<uint64_t>>("absl::btree_set");
    return run<std::set<uint64_t>>("std::set");
}
