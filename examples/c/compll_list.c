/* A sorted list with compll's interface. Compiled with -DCOMPLL_NOLIB it uses malloc instead, for debugging.
 *
 * usage: compll_list [ITEMS] */
#include <compll.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    compll_t next;
    int number;
    char name[24];
};

#define R(x) ((const struct item *)compll_read(x))
#define W(x) ((struct item *)compll_write(x))

#ifndef COMPLL_NOLIB
/* Replaces each run of zero bytes by a zero and its length. A real program would call a library. */
static unsigned int compress_block(const unsigned char *src, unsigned int src_len, unsigned char *dest, unsigned int dest_len) {
    unsigned int i = 0, n = 0;
    while (i < src_len) {
        if (n + 2 > dest_len) return 0;
        dest[n++] = src[i];
        if (src[i++] == 0) {
            unsigned int run = 1;
            while (run < 255 && i < src_len && src[i] == 0) {
                run++;
                i++;
            }
            dest[n++] = (unsigned char)run;
        }
    }
    return n;
}

static void decompress_block(const unsigned char *src, unsigned int src_len, unsigned char *dest, unsigned int dest_len) {
    unsigned int i = 0, n = 0;
    while (i < src_len && n < dest_len) {
        unsigned int run = src[i] == 0 && i + 1 < src_len ? src[i + 1] : 1;
        unsigned char byte = src[i];
        i += byte == 0 ? 2 : 1;
        while (run-- > 0 && n < dest_len) dest[n++] = byte;
    }
}
#endif

/* Merges two sorted lists. */
static compll_t merge(compll_t a, compll_t b) {
    compll_t first = 0, last = 0;
    while (a && b) {
        compll_t *from = R(a)->number <= R(b)->number ? &a : &b, taken = *from;
        *from = R(taken)->next;
        if (last) W(last)->next = taken;
        else first = taken;
        last = taken;
    }
    if (last) W(last)->next = a ? a : b;
    return last ? first : a ? a : b;
}

static compll_t sort(compll_t list, int length) {
    if (length < 2) return list;
    compll_t last = list, half;
    for (int i = 1; i < length / 2; i++) last = R(last)->next;
    half = R(last)->next;
    W(last)->next = 0;
    return merge(sort(list, length / 2), sort(half, length - length / 2));
}

int main(int argc, char **argv) {
    const int length = argc > 1 ? atoi(argv[1]) : 10000;
    compll_t list = 0;
    unsigned random = 1;
    long sum = 0, sum_again = 0;

    if (compll_init(32 * 1024, 8, 10, compress_block, decompress_block)) {
        fputs("compll_init failed\n", stderr);
        return 1;
    }
    for (int i = 0; i < length; i++) {
        compll_t made = compll_alloc(sizeof(struct item));
        if (!made) {
            fputs("no memory\n", stderr);
            return 1;
        }
        random = random * 1103515245u + 12345u;
        W(made)->number = (int)(random >> 8);
        snprintf(W(made)->name, sizeof W(made)->name, "item %d", i);
        W(made)->next = list;
        list = made;
        sum += R(made)->number % 1000;
    }
    list = sort(list, length);
    int count = 0, before = -1;
    while (list) {
        compll_t next = R(list)->next;
        if (R(list)->number < before || strncmp(R(list)->name, "item ", 5) != 0) {
            fputs("the list is not sorted\n", stderr);
            return 1;
        }
        before = R(list)->number;
        sum_again += before % 1000;
        compll_free(list);
        list = next;
        count++;
    }
    printf("compll: sorted %d items\n", count);
    return count == length && sum == sum_again ? 0 : 1;
}
