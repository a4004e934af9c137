/* A small generator (xoroshiro128+), seeded by splitmix64. Each user owns one: no sharing, no lock. */
#ifndef TORTURE_RNG_H
#define TORTURE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t a, b;
};

/* The finaliser of splitmix64: every input bit changes about half of the output bits. */
static inline uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline struct rng rng_make(uint64_t seed)
{
    struct rng rng = { mix64(seed), mix64(seed + 1) | 1 };
    return rng;
}

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t a = rng->a, b = rng->b, out = a + b;
    b ^= a;
    rng->a = ((a << 24) | (a >> 40)) ^ b ^ (b << 16);
    rng->b = (b << 37) | (b >> 27);
    return out;
}

/* A number below `end`, which must not be 0. The bias is below end / 2^64. */
static inline uint64_t rng_below(struct rng *rng, uint64_t end)
{
    return (uint64_t)(((unsigned __int128)rng_next(rng) * end) >> 64);
}

/* From `low` to `high`, both included. */
static inline uint64_t rng_range(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static inline bool rng_chance(struct rng *rng, unsigned percent)
{
    return rng_below(rng, 100) < percent;
}

#endif
