/* A panic in the library as built: it does not leave the function that was called, and its heap can no longer
 * be used. */
#include "check.h"

#include <pthread.h>

int capi_test_panic(memfold_session *session);

static memfold_heap *heap;

static void *in_another_thread(void *unused) {
    (void)unused;
    memfold_session *session = open_session(heap);
    FAILS(MEMFOLD_BUG, capi_test_panic(session));
    if (!strstr(memfold_last_error(), "as the test wants it")) FAIL("'%s'", memfold_last_error());
    /* The session is left open. */
    return NULL;
}

int main(void) {
    memfold_stats stats;
    memfold_handle node, after;
    const void *bytes;
    pthread_t thread;
    memfold_heap *whole = new_heap(NULL);
    memfold_session *other = open_session(whole);
    heap = new_heap(NULL);
    memfold_session *session = open_session(heap);
    OK(memfold_alloc(session, 100, &node));
    OK(memfold_pin(session, node, &bytes));
    memfold_slablist *list;
    OK(memfold_slablist_new(session, NULL, &list));
    for (uint64_t i = 0; i < 1000; i++) OK(memfold_slablist_add_u64(list, i, NULL));
    CHECK(pthread_create(&thread, NULL, in_another_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    FAILS(MEMFOLD_BUG, memfold_alloc(session, 100, &after));
    FAILS(MEMFOLD_BUG, memfold_unpin(session, node));
    FAILS(MEMFOLD_BUG, memfold_slablist_add_u64(list, 1, NULL));
    FAILS(MEMFOLD_BUG, memfold_slablist_free(list));
    FAILS(MEMFOLD_BUG, memfold_heap_stats(heap, &stats, sizeof stats));
    FAILS(MEMFOLD_BUG, memfold_heap_check(heap));
    CHECK(*(const char *)bytes == 0);
    OK(memfold_alloc(other, 100, &after));
    FAILS(MEMFOLD_OPEN, memfold_heap_destroy(heap));
    OK(memfold_session_close(session));
    OK(memfold_heap_destroy(heap));
    FAILS(MEMFOLD_NO_HEAP, memfold_heap_destroy(heap));
    OK(memfold_session_close(other));
    OK(memfold_heap_check(whole));
    OK(memfold_heap_destroy(whole));
    return 0;
}
