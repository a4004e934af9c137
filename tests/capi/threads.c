/* Threads with a session each in one heap, for ThreadSanitizer: with memfold.tsan it reports nothing about
 * the library, but still the races of a program.
 *
 * usage: threads [race | callback]   the threads also count in a shared variable without a lock, directly
 *                                    or in a callback: ThreadSanitizer must report it */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, SHARED = 200, BYTES = 400 };

static memfold_heap *heap;
static memfold_handle shared[SHARED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A node that one thread made for the next one; protected by the lock. */
static memfold_handle given;
static uint64_t counted;
static int steps, races, races_in_callback;

/* Checks that all words of a node are equal. */
static void whole(const uint64_t *words) {
    for (size_t i = 1; i < BYTES / 8; i++) CHECK(words[i] == words[0]);
}

static int sum(void *context, const void *element, size_t len) {
    *(uint64_t *)context += len + *(const unsigned char *)element;
    if (races_in_callback) counted++;
    return 0;
}

static void *work(void *argument) {
    uint64_t state = (uint64_t)(uintptr_t)argument, words[BYTES / 8], seen = 0;
    memfold_session *session = open_session(heap);
    memfold_slablist *list;
    OK(memfold_slablist_new(session, NULL, &list));
    for (int step = 0; step < steps; step++) {
        memfold_handle node = shared[below(&state, SHARED)];
        switch (below(&state, 6)) {
        case 0:
        case 1:
            /* A read sees all of a write or nothing of it. */
            OK(memfold_read(session, node, words, sizeof words, NULL));
            whole(words);
            break;
        case 2:
            for (size_t i = 0; i < BYTES / 8; i++) words[i] = (uint64_t)step;
            OK(memfold_write_at(session, node, 0, words, sizeof words));
            break;
        case 3:
            /* A pin is not a lock, so the threads use one. */
            CHECK(pthread_mutex_lock(&lock) == 0);
            if (given == 0) {
                void *bytes;
                OK(memfold_alloc(session, 64, &given));
                OK(memfold_pin_mut(session, given, &bytes));
                memset(bytes, step & 0x7f, 64);
                OK(memfold_unpin(session, given));
            } else {
                const void *bytes;
                OK(memfold_pin(session, given, &bytes));
                CHECK(((const char *)bytes)[0] == ((const char *)bytes)[63]);
                OK(memfold_unpin(session, given));
                OK(memfold_free(session, given));
                given = 0;
            }
            CHECK(pthread_mutex_unlock(&lock) == 0);
            break;
        case 4:
            OK(memfold_slablist_add_u64(list, next_random(&state), NULL));
            break;
        default:
            OK(memfold_slablist_foldl(list, 0, 50, sum, &seen, NULL));
        }
        if (races) counted++;
    }
    OK(memfold_slablist_check(list));
    OK(memfold_session_close(session));
    return NULL;
}

int main(int argc, char **argv) {
    races = argc > 1 && strcmp(argv[1], "race") == 0;
    races_in_callback = argc > 1 && strcmp(argv[1], "callback") == 0;
    steps = getenv("MEMFOLD_TEST_QUICK") ? 4000 : 40000;
    memfold_options options = small_options(4096, 40);
    options.background = 1;
    heap = new_heap(&options);
    memfold_session *session = open_session(heap);
    for (int i = 0; i < SHARED; i++) OK(memfold_alloc(session, BYTES, &shared[i]));
    OK(memfold_session_close(session));
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(memfold_heap_check(heap));
    OK(memfold_heap_destroy(heap));
    unsigned long long count = counted;
    printf("threads: %d threads took %d steps each, and counted %llu\n", THREADS, steps, count);
    return 0;
}
