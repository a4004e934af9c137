/*
 * Zipf-distributed ranks: rank k (1..n) with probability proportional to 1 / k^s, by rejection
 * inversion (W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from monotone
 * discrete distributions", 1996). Exact for any n and s > 0, without tables; a few logarithms per draw.
 */
#ifndef TORTURE_ZIPF_H
#define TORTURE_ZIPF_H

#include <math.h>

#include "rng.h"

struct zipf {
    double n, s, first, last, sure;
};

/* (exp(x) - 1) / x and log(1 + x) / x, also accurate near 0. */
static inline double zipf_expm1(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2 * (1 + x / 3);
}

static inline double zipf_log1p(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2 * (1 - x * 2 / 3);
}

/* The density x^-s, its integral, and the inverse of that. */
static inline double zipf_density(const struct zipf *z, double x)
{
    return exp(-z->s * log(x));
}

static inline double zipf_integral(const struct zipf *z, double x)
{
    double l = log(x);
    return zipf_expm1((1 - z->s) * l) * l;
}

static inline double zipf_inverse(const struct zipf *z, double y)
{
    double t = y * (1 - z->s);
    return exp(zipf_log1p(t < -1 ? -1 : t) * y);
}

static inline struct zipf zipf_make(uint64_t n, double s)
{
    struct zipf z = { .n = (double)n, .s = s };
    z.first = zipf_integral(&z, 1.5) - 1;
    z.last = zipf_integral(&z, z.n + 0.5);
    z.sure = 2 - zipf_inverse(&z, zipf_integral(&z, 2.5) - zipf_density(&z, 2));
    return z;
}

/* A rank from 0 (the most frequent) to n - 1. */
static inline uint64_t zipf_next(const struct zipf *z, struct rng *rng)
{
    for (;;) {
        double unit = (double)(rng_next(rng) >> 11) * 0x1p-53;
        double u = z->last + unit * (z->first - z->last);
        double x = zipf_inverse(z, u), k = floor(x + 0.5);
        if (k < 1)
            k = 1;
        if (k > z->n)
            k = z->n;
        if (k - x <= z->sure || u >= zipf_integral(z, k + 0.5) - zipf_density(z, k))
            return (uint64_t)k - 1;
    }
}

#endif
