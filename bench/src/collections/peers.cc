// The peers written in C++: absl::btree_set and std::set, of integers and of strings. Prints one line of JSON.
//
// usage: peers PEER integers|strings ELEMENTS ORDER FINDS UNIVERSE
//        peers PEER trace ELEMENTS ORDER SAMPLES FILE     integers; the trace goes to FILE, as in trace.rs

#include <absl/container/btree_set.h>
#include <absl/strings/string_view.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t elements, universe;
static bool in_order, by_zipf;

// A string of 8 to 40 bytes, as in load.rs.
struct Text {
    char bytes[48];
    size_t len;
};

// The type that a set accepts instead of a string for lookups. In Debian, absl's string view is not the
// standard library's.
static std::string_view view(const std::set<std::string, std::less<>> &, const Text &x) { return {x.bytes, x.len}; }
static absl::string_view view(const absl::btree_set<std::string> &, const Text &x) { return {x.bytes, x.len}; }

// The element that is added at index `i`.
template <typename Key> Key element(uint64_t i);

template <> uint64_t element(uint64_t i)
{
    if (in_order)
        return i;
    return universe ? mix(i) % universe : mix(i);
}

template <> Text element(uint64_t i)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    uint64_t first = mix(i);
    Text text;
    int from = in_order ? snprintf(text.bytes, sizeof text.bytes, "%08lu", i) : 0;
    for (int at = from; at < 40; at += 8) {
        uint64_t word = mix(first ^ at);
        for (int j = 0; j < 8; j++)
            text.bytes[at + j] = letters[word >> 8 * j & 31];
    }
    text.len = 8 + first % 33;
    return text;
}

template <typename Set> void add(Set &set, uint64_t x) { set.insert(x); }
template <typename Set> void add(Set &set, const Text &x) { set.emplace(x.bytes, x.len); }
template <typename Set> bool has(const Set &set, uint64_t x) { return set.find(x) != set.end(); }
template <typename Set> bool has(const Set &set, const Text &x) { return set.find(view(set, x)) != set.end(); }
template <typename Set> void take(Set &set, uint64_t x) { set.erase(x); }
template <typename Set> void take(Set &set, const Text &x)
{
    auto found = set.find(view(set, x));
    if (found != set.end())
        set.erase(found);
}

// The number that a scan adds up per element.
static uint64_t weight(uint64_t x) { return x; }
static uint64_t weight(const std::string &x) { return x.size() + static_cast<unsigned char>(x[0]); }

// Another order of the indices.
static uint64_t turn(uint64_t i)
{
    return static_cast<uint64_t>(static_cast<unsigned __int128>(i) * 2654435761u % elements);
}

// Ranks by Zipf's law: see load.rs.
struct Zipf {
    double theta = 0.99, ranks, zeta = 0, alpha, eta;

    Zipf() : ranks(elements)
    {
        for (uint64_t rank = 1; rank <= elements; rank++)
            zeta += pow(rank, -theta);
        alpha = 1 / (1 - theta);
        eta = (1 - pow(2 / ranks, 1 - theta)) / (1 - (1 + pow(0.5, theta)) / zeta);
    }

    uint64_t rank(uint64_t i) const
    {
        double u = static_cast<double>(mix(i ^ 0x5eed00000000) >> 11) / static_cast<double>(1ull << 53), at = u * zeta;
        if (at < 1)
            return 0;
        if (at < 1 + pow(0.5, theta))
            return 1;
        return static_cast<uint64_t>(std::min(ranks * pow(eta * u - eta + 1, alpha), ranks - 1));
    }
};

static double seconds()
{
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

// A figure in bytes from a file under /proc/self, which has it in KiB.
static uint64_t figure(const char *path, const char *form)
{
    FILE *file = fopen(path, "r");
    char line[256];
    unsigned long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, form, &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib << 10;
}

static uint64_t memory() { return figure("/proc/self/smaps_rollup", "Pss_Anon: %lu"); }

template <typename Key, typename Set> static uint64_t finds(const Set &set, double &time)
{
    uint64_t found = 0;
    if (!by_zipf) {
        double begin = seconds();
        for (uint64_t i = 0; i < elements; i++)
            found += has(set, element<Key>(turn(i)));
        time = seconds() - begin;
        return found;
    }
    Zipf zipf;
    std::vector<uint64_t> ranks(1 << 16);
    for (uint64_t from = 0; from < elements; from += ranks.size()) {
        ranks.resize(std::min<uint64_t>(ranks.size(), elements - from));
        for (uint64_t i = 0; i < ranks.size(); i++)
            ranks[i] = zipf.rank(from + i);
        double begin = seconds();
        for (uint64_t rank : ranks)
            found += has(set, element<Key>(rank));
        time += seconds() - begin;
    }
    return found;
}

template <typename Key, typename Set> static int run(const char *name)
{
    uint64_t before = memory();
    Set set;
    double begin = seconds();
    for (uint64_t i = 0; i < elements; i++)
        add(set, element<Key>(i));
    double insert = seconds() - begin, find = 0;
    uint64_t full = memory() - before, len = set.size(), found = finds<Key>(set, find), sum = 0;
    begin = seconds();
    for (const auto &x : set)
        sum += weight(x);
    double scan = seconds() - begin;
    begin = seconds();
    for (uint64_t i = 0; i < elements / 2; i++)
        take(set, element<Key>(turn(i)));
    sleep(1);
    double remove = seconds() - begin;
    uint64_t half = memory() - before, left = set.size(), peak = figure("/proc/self/status", "VmHWM: %lu");
    printf("{\"peer\":\"%s\",\"len\":%lu,\"found\":%lu,\"sum\":%lu,\"left\":%lu,\"insert\":%.9f,\"find\":%.9f,\"scan\":%.9f,"
           "\"remove\":%.9f,\"bytes\":%lu,\"half_bytes\":%lu,\"peak\":%lu}\n",
           name, len, found, sum, left, insert, find, scan, remove, full, half, peak);
    return 0;
}

// Traces: the time of each operation, and the events during it, as in trace.rs.

static uint64_t allocations;

void *operator new(size_t size)
{
    allocations++;
    void *memory = malloc(size);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}

void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

enum { ALLOCATED = 1, FAULTED = 16, INTERRUPTED = 32 };

static uint64_t wall()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static inline uint64_t ticks()
{
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
#else
    return wall();
#endif
}

// The flags of the kernel's work for this thread since the last call.
static uint32_t kernel()
{
    static rusage last;
    rusage now;
    getrusage(RUSAGE_THREAD, &now);
    uint32_t flags = (now.ru_minflt + now.ru_majflt > last.ru_minflt + last.ru_majflt ? FAULTED : 0)
        | (now.ru_nivcsw > last.ru_nivcsw ? INTERRUPTED : 0);
    last = now;
    return flags;
}

template <typename Set> static int trace(uint64_t samples, const char *path)
{
    struct Record {
        uint64_t took;
        uint32_t flags;
    };
    struct Sample {
        uint64_t done, took, bytes;
    };
    uint64_t removals = elements / 2, all = elements + removals, every = std::max<uint64_t>(all / samples, 1), sum = 0;
    std::vector<Record> records(all, Record{1, 1});
    std::vector<Sample> memories;
    memories.reserve(samples + 2);
    uint64_t begin_ticks = ticks(), begin = wall();
    while (wall() - begin < 20000000)
        ;
    double per_ns = static_cast<double>(ticks() - begin_ticks) / static_cast<double>(wall() - begin);
    uint64_t slow = static_cast<uint64_t>(1000 * per_ns), interruption = 20 * slow, before = memory();
    Set set;
    kernel();
    for (uint64_t i = 0; i < all; i++) {
        uint64_t key = element<uint64_t>(i < elements ? i : turn(i - elements)), made = allocations, from = ticks();
        if (i < elements)
            set.insert(key);
        else
            set.erase(key);
        uint64_t took = ticks() - from;
        records[i].took = took;
        records[i].flags = (allocations != made ? ALLOCATED : 0) | (took > slow ? kernel() : 0);
        if (took < interruption)
            records[i].flags &= ~INTERRUPTED;
        sum += took;
        if (i % every == every - 1 || i == elements - 1) {
            uint64_t now = memory();
            memories.push_back({i + 1, sum, now > before ? now - before : 0});
            kernel();
        }
    }
    per_ns = static_cast<double>(ticks() - begin_ticks) / static_cast<double>(wall() - begin);
    FILE *file = fopen(path, "wb");
    if (!file)
        return 1;
    for (const Record &record : records) {
        uint64_t ns = static_cast<uint64_t>(record.took / per_ns + 0.5);
        uint32_t words[2] = {static_cast<uint32_t>(std::min<uint64_t>(ns, UINT32_MAX)), record.flags};
        fwrite(words, sizeof words, 1, file);
    }
    if (fclose(file))
        return 1;
    printf("{\"left\":%lu,\"samples\":[", set.size());
    for (const Sample &sample : memories)
        printf("%s[%lu,%.9f,%lu]", &sample == memories.data() ? "" : ",", sample.done, sample.took / per_ns * 1e-9, sample.bytes);
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    bool is_absl = strcmp(argv[1], "absl") == 0;
    elements = strtoull(argv[3], nullptr, 0);
    in_order = strcmp(argv[4], "sequential") == 0;
    if (strcmp(argv[2], "trace") == 0) {
        uint64_t samples = strtoull(argv[5], nullptr, 0);
        return is_absl ? trace<absl::btree_set<uint64_t>>(samples, argv[6]) : trace<std::set<uint64_t>>(samples, argv[6]);
    }
    by_zipf = strcmp(argv[5], "zipf") == 0;
    universe = strtoull(argv[6], nullptr, 0);
    if (strcmp(argv[2], "strings") == 0)
        return is_absl ? run<Text, absl::btree_set<std::string>>("absl::btree_set<string>")
                       : run<Text, std::set<std::string, std::less<>>>("std::set<string>");
    return is_absl ? run<uint64_t, absl::btree_set<uint64_t>>("absl::btree_set") : run<uint64_t, std::set<uint64_t>>("std::set");
}
