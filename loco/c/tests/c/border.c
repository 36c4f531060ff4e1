/* One node alone: what is refused, what is kept, and that handles are freed in any order. */
#include "expect.h"

#include <pthread.h>

static void null_arguments(loco_node *node, loco_thread *thread) {
    loco_barrier *barrier = NULL;
    loco_region *region;
    uint64_t value = 7;
    size_t len;
    char byte;

    REFUSED(LOCO_USAGE, "`node` is NULL", loco_open(NULL, NULL));
    REFUSED(LOCO_USAGE, "`node` is NULL", loco_wait_for_ready(NULL));
    REFUSED(LOCO_USAGE, "`barrier` is NULL", loco_barrier_new(node, "none", NULL));
    REFUSED(LOCO_USAGE, "`name` is NULL", loco_barrier_new(node, NULL, &barrier));
    REFUSED(LOCO_USAGE, "`name` is not UTF-8", loco_barrier_new(node, "\xff", &barrier));
    REFUSED(LOCO_USAGE, "cannot name", loco_barrier_new(node, "a/b", &barrier));
    HOLDS(barrier == NULL);
    REFUSED(LOCO_USAGE, "`barrier` is NULL", loco_barrier_wait(NULL, thread));
    REFUSED(LOCO_USAGE, "`barrier` is NULL", loco_barrier_wait_fencing_all_threads(NULL, thread));
    REFUSED(LOCO_USAGE, "`thread` is NULL", loco_fence(NULL, LOCO_FENCE_THREAD));
    REFUSED(LOCO_USAGE, "no scope 9", loco_fence(thread, 9));
    REFUSED(LOCO_USAGE, "`region` is NULL", loco_region_read(NULL, 0, &byte, 1));
    REFUSED(LOCO_USAGE, "`pending` is NULL", loco_pending_wait(NULL));
    REFUSED(LOCO_USAGE, "`reader` is NULL", loco_ring_receive(NULL, thread, &byte, 1, &len));
    REFUSED(LOCO_USAGE, "`pending` is NULL", loco_store_pending_wait(NULL));
    REFUSED(LOCO_USAGE, "`store` is NULL", loco_store_get(NULL, thread, "k", 1, &byte, 1, &len));
    HOLDS(loco_self(NULL) == LOCO_NO_NODE && loco_nodes(NULL, NULL, 0) == 0 && loco_region_len(NULL) == 0);
    HOLDS(loco_ring_message_bytes_max(NULL) == 0);

    OK(loco_region_new(node, "nulls", 16, &region));
    OK(loco_wait_for_ready(node));
    REFUSED(LOCO_USAGE, "`value` is NULL", loco_region_load(region, 0, NULL));
    REFUSED(LOCO_USAGE, "`data` is NULL", loco_region_write(region, 0, NULL, 1));
    REFUSED(LOCO_USAGE, "`data` is NULL", loco_region_put(region, thread, 0, 0, NULL, 1));
    OK(loco_region_put(region, thread, 0, 16, NULL, 0)); /* nothing, at the end */
    REFUSED(LOCO_USAGE, "the length of `data`", loco_region_write(region, 0, &byte, SIZE_MAX));
    REFUSED(LOCO_USAGE, "outside", loco_region_write(region, 16, "x", 1));
    REFUSED(LOCO_USAGE, "outside", loco_region_put(region, thread, 0, SIZE_MAX, "x", 1));
    REFUSED(LOCO_USAGE, "not part of", loco_region_put(region, thread, 5, 0, "x", 1));
    REFUSED(LOCO_USAGE, "region `nulls.data`: offset 1 is not aligned", loco_region_load(region, 1, &value));
    REFUSED(LOCO_USAGE, "aligned", loco_region_fetch_add(region, thread, 0, 4, 1, &value));
    HOLDS(value == 7); /* left alone by what fails */
    OK(loco_region_free(region));

    OK(loco_node_free(NULL));
    OK(loco_close(NULL));
    OK(loco_thread_free(NULL));
    OK(loco_region_free(NULL));
    OK(loco_pending_free(NULL));
    OK(loco_atomic_free(NULL));
    OK(loco_barrier_free(NULL));
    OK(loco_ring_free(NULL));
    OK(loco_ring_writer_free(NULL));
    OK(loco_ring_reader_free(NULL));
    OK(loco_lock_free(NULL));
    OK(loco_store_free(NULL));
    OK(loco_store_pending_free(NULL));
}

static void words_and_bytes(loco_node *node, loco_thread *thread) {
    static char large[100000], back[sizeof large];
    loco_region *region;
    loco_pending *put, *get;
    uint64_t value;
    int done;
    size_t i;

    for (i = 0; i < sizeof large; i++) {
        large[i] = (char)(i * 7);
    }
    OK(loco_region_new(node, "words", sizeof large, &region));
    OK(loco_wait_for_ready(node));
    HOLDS(loco_region_len(region) == sizeof large);

    OK(loco_region_store(region, 8, 40));
    OK(loco_region_fetch_add(region, thread, 0, 8, 2, &value));
    HOLDS(value == 40);
    OK(loco_region_compare_swap(region, thread, 0, 8, 1, 99, &value));
    HOLDS(value == 42);
    OK(loco_region_compare_swap(region, thread, 0, 8, 42, 99, NULL));
    OK(loco_region_load(region, 8, &value));
    HOLDS(value == 99);
    OK(loco_region_wait_until(region, thread, 8, LOCO_GREATER, 98, &value));
    HOLDS(value == 99);
    OK(loco_region_wait_until(region, thread, 8, LOCO_NOT_EQUAL, 98, NULL));
    REFUSED(LOCO_USAGE, "no comparison", loco_region_wait_until(region, thread, 8, 6, 98, NULL));

    /* A timeout of the thread, and none. */
    OK(loco_thread_set_timeout(thread, 1000000));
    REFUSED(LOCO_TIMEOUT, "words", loco_region_wait_until(region, thread, 8, LOCO_LESS, 99, &value));
    OK(loco_thread_set_timeout(thread, 0));
    REFUSED(LOCO_TIMEOUT, "words", loco_region_wait_until(region, thread, 8, LOCO_LESS, 99, &value));
    OK(loco_region_wait_until(region, thread, 8, LOCO_LESS_EQUAL, 99, &value));
    OK(loco_thread_set_timeout(thread, LOCO_FOREVER));
    OK(loco_region_wait_until(region, thread, 8, LOCO_EQUAL, 99, &value));
    OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));

    /* At once, and under way. */
    OK(loco_region_put(region, thread, 0, 0, large, sizeof large));
    OK(loco_fence_pair(thread, 0));
    OK(loco_region_get(region, thread, 0, 0, back, sizeof back));
    HOLDS(memcmp(large, back, sizeof large) == 0);
    OK(loco_region_put_start(region, thread, 0, 0, large + 1, sizeof large - 1, &put));
    OK(loco_pending_wait(put));
    OK(loco_pending_wait(put));
    REFUSED(LOCO_USAGE, "nothing to read", loco_pending_read(put, 0, back, 1));
    OK(loco_fence(thread, LOCO_FENCE_ALL_THREADS));
    OK(loco_fence_towards(thread, (const loco_node_id[]){0}, 1));
    OK(loco_region_get_start(region, thread, 0, 0, 100, &get));
    OK(loco_pending_test(get, &done)); /* may be 0 or 1 */
    OK(loco_pending_wait(get));
    OK(loco_pending_test(get, &done));
    HOLDS(done == 1);
    OK(loco_pending_read(get, 10, back, 90));
    HOLDS(memcmp(large + 11, back, 90) == 0);
    REFUSED(LOCO_USAGE, "91 bytes from 10 on", loco_pending_read(get, 10, back, 91));
    REFUSED(LOCO_USAGE, "are not within", loco_pending_read(get, SIZE_MAX, back, 2));
    OK(loco_pending_free(get));
    OK(loco_pending_free(put));
    OK(loco_region_put_start(region, thread, 0, 0, "small", 5, &put));
    OK(loco_pending_free(put)); /* goes on by itself */
    OK(loco_region_free(region));
}

static void locks(loco_node *node, loco_thread *thread, int kind, const char *name) {
    loco_lock *lock;
    loco_thread *second;
    int recovered = 7;

    REFUSED(LOCO_USAGE, "no kind of lock", loco_lock_new(node, name, 2, 0, LOCO_ON_LOSS_POISON, &lock));
    REFUSED(LOCO_USAGE, "no policy", loco_lock_new(node, name, kind, 0, -1, &lock));
    OK(loco_lock_new(node, name, kind, 0, LOCO_ON_LOSS_RECOVER, &lock));
    OK(loco_wait_for_ready(node));
    REFUSED(LOCO_USAGE, "does not hold", loco_lock_unlock(lock, thread, LOCO_FENCE_THREAD));
    OK(loco_lock_lock(lock, thread, &recovered));
    HOLDS(recovered == 0);
    REFUSED(LOCO_USAGE, "holds lock", loco_lock_lock(lock, thread, NULL));
    REFUSED(LOCO_USAGE, "holds lock", loco_lock_try_lock(lock, thread, NULL));
    REFUSED(LOCO_USAGE, "release it first", loco_lock_free(lock));
    REFUSED(LOCO_USAGE, "release them first", loco_thread_free(thread));
    REFUSED(LOCO_USAGE, "no scope", loco_lock_unlock(lock, thread, 3)); /* still held */

    /* Another access of this thread: somebody else, as far as locks are concerned. */
    OK(loco_thread_new(node, &second));
    EXPECT(LOCO_AGAIN, loco_lock_try_lock(lock, second, NULL));
    OK(loco_thread_set_timeout(second, 1000000));
    REFUSED(LOCO_TIMEOUT, name, loco_lock_lock(lock, second, NULL));
    REFUSED(LOCO_USAGE, "does not hold", loco_lock_unlock(lock, second, LOCO_FENCE_NOTHING));
    OK(loco_lock_unlock_pair(lock, thread, 0));
    REFUSED(LOCO_USAGE, "does not hold", loco_lock_unlock(lock, thread, LOCO_FENCE_THREAD));
    OK(loco_lock_try_lock(lock, second, NULL));
    OK(loco_lock_unlock(lock, second, LOCO_FENCE_ALL_THREADS));
    OK(loco_thread_free(second));
    OK(loco_lock_free(lock));
}

static void rings(loco_node *node, loco_thread *thread) {
    loco_ring *ring;
    loco_ring_writer *writer, *none = NULL;
    loco_ring_reader *reader;
    loco_node_id readers[1] = {0};
    char text[8] = "untouch";
    size_t len = 0;

    REFUSED(LOCO_USAGE, "multiple of 8", loco_ring_new(node, "odd", 0, 63, &ring));
    OK(loco_ring_new_readers(node, "ring", 0, 64, readers, 1, &ring));
    OK(loco_wait_for_ready(node));
    HOLDS(loco_ring_message_bytes_max(ring) == 56);
    OK(loco_ring_take_writer(ring, &writer));
    REFUSED(LOCO_USAGE, "only one", loco_ring_take_writer(ring, &none));
    OK(loco_ring_writer_free(writer));
    OK(loco_ring_take_writer(ring, &writer));
    OK(loco_ring_take_reader(ring, &reader));
    OK(loco_ring_free(ring)); /* its ends go on */

    EXPECT(LOCO_AGAIN, loco_ring_try_receive(reader, thread, text, sizeof text, &len));
    REFUSED(LOCO_USAGE, "do not fit", loco_ring_submit(writer, thread, "0123456789012345678901234567890123456789012345678901234567", 57));
    OK(loco_ring_submit(writer, thread, "a long message", 14));
    REFUSED(LOCO_BUFFER_TOO_SMALL, "14 bytes", loco_ring_receive(reader, thread, text, sizeof text, &len));
    HOLDS(len == 14 && strcmp(text, "untouch") == 0);
    REFUSED(LOCO_BUFFER_TOO_SMALL, "14 bytes", loco_ring_try_receive(reader, thread, NULL, 0, &len));
    {
        char more[14];
        OK(loco_ring_receive(reader, thread, more, sizeof more, &len));
        HOLDS(len == 14 && memcmp(more, "a long message", 14) == 0);
    }
    EXPECT(LOCO_AGAIN, loco_ring_try_receive(reader, thread, text, sizeof text, &len));
    OK(loco_thread_set_timeout(thread, 1000000));
    REFUSED(LOCO_TIMEOUT, "ring", loco_ring_receive(reader, thread, text, sizeof text, &len));
    OK(loco_ring_try_submit(writer, thread, text, 8));
    OK(loco_ring_try_submit(writer, thread, text, 8));
    OK(loco_ring_try_submit(writer, thread, text, 8));
    OK(loco_ring_try_submit(writer, thread, text, 8));
    EXPECT(LOCO_AGAIN, loco_ring_try_submit(writer, thread, text, 8));
    REFUSED(LOCO_TIMEOUT, "ring", loco_ring_submit(writer, thread, text, 8));
    REFUSED(LOCO_TIMEOUT, "ring", loco_ring_wait_until_read(writer, thread));
    OK(loco_ring_leave(reader, thread));
    REFUSED(LOCO_USAGE, "has left", loco_ring_try_receive(reader, thread, text, sizeof text, &len));
    REFUSED(LOCO_USAGE, "has left", loco_ring_leave(reader, thread));
    OK(loco_ring_wait_until_read(writer, thread));
    OK(loco_ring_exclude(writer, 0));
    OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));
    OK(loco_ring_reader_free(reader));
    OK(loco_ring_writer_free(writer));
}

/* The store has one key, without bytes, and room for another. */
static void snapshots(loco_store *store, loco_thread *thread) {
    const char *path = "border.snapshot";
    char value[16] = "";
    uint64_t keys = 0;
    size_t len = 0;
    FILE *file;

    OK(loco_store_insert(store, thread, "kept", 4, "before", 6));
    REFUSED(LOCO_USAGE, "path", loco_store_snapshot(store, thread, NULL, &keys));
    REFUSED(LOCO_SYSTEM, "nowhere", loco_store_snapshot(store, thread, "nowhere/border.snapshot", &keys));
    OK(loco_store_snapshot(store, thread, path, &keys));
    HOLDS(keys == 2);
    OK(loco_store_update(store, thread, "kept", 4, "after", 5));
    OK(loco_store_delete(store, thread, "", 0));
    REFUSED(LOCO_USAGE, "part 1 of 1", loco_store_restore(store, thread, path, 1, 1, NULL));
    OK(loco_store_restore(store, thread, path, 0, 1, &keys));
    HOLDS(keys == 2);
    OK(loco_store_get(store, thread, "kept", 4, value, sizeof value, &len));
    HOLDS(len == 6 && memcmp(value, "before", 6) == 0);
    OK(loco_store_get(store, thread, "", 0, value, sizeof value, &len));
    HOLDS(len == 0);

    file = fopen(path, "ab");
    HOLDS(file != NULL && fputc('x', file) == 'x' && fclose(file) == 0);
    REFUSED(LOCO_BAD_FILE, path, loco_store_restore(store, thread, path, 0, 1, NULL));
    HOLDS(remove(path) == 0);
}

/* The store has the key "a". Over shared memory an update is over when it was started. */
static void started_updates(loco_store *store, loco_thread *thread) {
    loco_store_pending *one, *other = NULL;
    char value[16] = "";
    size_t len = 0;
    int done = 7;

    REFUSED(LOCO_USAGE, "`store` is NULL", loco_store_update_start(NULL, thread, "a", 1, "x", 1, &one));
    REFUSED(LOCO_USAGE, "`thread` is NULL", loco_store_update_start(store, NULL, "a", 1, "x", 1, &one));
    REFUSED(LOCO_USAGE, "`value` is NULL", loco_store_update_start(store, thread, "a", 1, NULL, 1, &one));
    REFUSED(LOCO_USAGE, "`pending` is NULL", loco_store_update_start(store, thread, "a", 1, "x", 1, NULL));
    REFUSED(LOCO_USAGE, "17 bytes do not fit",
            loco_store_update_start(store, thread, "a", 1, "seventeen bytes..", 17, &other));
    HOLDS(other == NULL);
    OK(loco_store_update_start(store, thread, "a", 1, "earlier", 7, &one));
    OK(loco_store_update_start(store, thread, "a", 1, "later", 5, &other));
    REFUSED(LOCO_USAGE, "`done` is NULL", loco_store_pending_test(other, NULL));
    OK(loco_store_pending_test(other, &done));
    HOLDS(done == 1);
    OK(loco_store_pending_wait(other));
    OK(loco_store_pending_wait(other));
    OK(loco_store_pending_free(other));
    OK(loco_store_pending_free(one));
    OK(loco_store_get(store, thread, "a", 1, value, sizeof value, &len));
    HOLDS(len == 5 && memcmp(value, "later", 5) == 0);
    OK(loco_store_update_start(store, thread, "absent", 6, "x", 1, &one));
    EXPECT(LOCO_NOT_FOUND, loco_store_pending_wait(one));
    EXPECT(LOCO_NOT_FOUND, loco_store_pending_wait(one));
    OK(loco_store_pending_free(one));
}

static void stores(loco_node *node, loco_thread *thread) {
    loco_store_options options = LOCO_STORE_OPTIONS_INIT;
    loco_store *store;
    char value[16] = "";
    size_t len = 0;

    options.size--;
    REFUSED(LOCO_USAGE, "LOCO_STORE_OPTIONS_INIT", loco_store_new(node, "store", &options, &store));
    options.size++;
    options.slots_per_node = 2;
    options.value_bytes_max = 16;
    OK(loco_store_new(node, "store", &options, &store));
    OK(loco_wait_for_ready(node));
    EXPECT(LOCO_NOT_FOUND, loco_store_get(store, thread, "a", 1, value, sizeof value, &len));
    OK(loco_store_insert(store, thread, "a", 1, "first", 5));
    EXPECT(LOCO_DUPLICATE, loco_store_insert(store, thread, "a", 1, "other", 5));
    OK(loco_store_insert(store, thread, "", 0, NULL, 0)); /* a key and a value without bytes */
    EXPECT(LOCO_FULL, loco_store_insert(store, thread, "c", 1, "third", 5));
    OK(loco_store_get(store, thread, NULL, 0, NULL, 0, &len));
    HOLDS(len == 0);
    REFUSED(LOCO_BUFFER_TOO_SMALL, "5 bytes", loco_store_get(store, thread, "a", 1, value, 4, &len));
    HOLDS(len == 5 && value[0] == '\0');
    OK(loco_store_update(store, thread, "a", 1, "sixteen bytes ok", 16));
    OK(loco_store_get(store, thread, "a", 1, value, sizeof value, &len));
    HOLDS(len == 16 && memcmp(value, "sixteen bytes ok", 16) == 0);
    REFUSED(LOCO_USAGE, "17 bytes do not fit", loco_store_update(store, thread, "a", 1, "seventeen bytes..", 17));
    EXPECT(LOCO_NOT_FOUND, loco_store_update(store, thread, "b", 1, "x", 1));
    started_updates(store, thread);
    OK(loco_store_delete(store, thread, "a", 1));
    EXPECT(LOCO_NOT_FOUND, loco_store_delete(store, thread, "a", 1));
    REFUSED(LOCO_USAGE, "spare_homes", loco_store_wait_until_whole(store, thread));
    snapshots(store, thread);
    OK(loco_store_free(store));

    options.copies = 2;
    REFUSED(LOCO_USAGE, "copies", loco_store_new(node, "copied", &options, &store));
}

static void atomics(loco_node *node, loco_thread *thread) {
    loco_atomic *atomic;
    uint64_t value;

    REFUSED(LOCO_USAGE, "node 3 is not", loco_atomic_new(node, "atomic", 3, &atomic));
    OK(loco_atomic_new(node, "atomic", 0, &atomic));
    OK(loco_wait_for_ready(node));
    OK(loco_atomic_write(atomic, thread, 5));
    OK(loco_atomic_swap(atomic, thread, 6, &value));
    HOLDS(value == 5);
    OK(loco_atomic_fetch_add(atomic, thread, UINT64_MAX, &value));
    HOLDS(value == 6);
    OK(loco_atomic_compare_swap(atomic, thread, 6, 7, &value));
    HOLDS(value == 5);
    OK(loco_atomic_compare_swap(atomic, thread, 5, 7, NULL));
    OK(loco_atomic_read(atomic, thread, &value));
    HOLDS(value == 7);
    OK(loco_atomic_free(atomic));
}

static void variables(loco_node *node, loco_thread *thread) {
    loco_variable *variable;
    loco_node_id self = 0, stranger = 5;
    uint64_t value = 7;

    REFUSED(LOCO_USAGE, "`variable` is NULL", loco_variable_new(node, "variable", NULL));
    REFUSED(LOCO_USAGE, "`variable` is NULL", loco_variable_read(NULL, &value));
    OK(loco_variable_new(node, "variable", &variable));
    OK(loco_wait_for_ready(node));
    REFUSED(LOCO_USAGE, "`value` is NULL", loco_variable_read(variable, NULL));
    OK(loco_variable_read(variable, &value));
    HOLDS(value == 0);
    OK(loco_variable_write(variable, 40));
    OK(loco_variable_broadcast(variable, thread)); /* to nobody else */
    OK(loco_variable_broadcast_to(variable, thread, &self, 1));
    REFUSED(LOCO_USAGE, "not part of", loco_variable_broadcast_to(variable, thread, &stranger, 1));
    OK(loco_variable_wait_until(variable, thread, LOCO_GREATER, 39, &value));
    HOLDS(value == 40);
    REFUSED(LOCO_USAGE, "no comparison", loco_variable_wait_until(variable, thread, -1, 39, NULL));
    OK(loco_thread_set_timeout(thread, 0));
    REFUSED(LOCO_TIMEOUT, "variable", loco_variable_wait_until(variable, thread, LOCO_LESS, 40, NULL));
    OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));
    OK(loco_variable_free(variable));
    OK(loco_variable_free(NULL));
}

static void collectives(loco_node *node, loco_thread *thread) {
    loco_collective *collective;
    uint64_t value = 6, values[2] = {9, 9};

    OK(loco_collective_new(node, "collective", &collective));
    OK(loco_wait_for_ready(node));
    OK(loco_collective_broadcast(collective, thread, 0, &value));
    HOLDS(value == 6);
    REFUSED(LOCO_USAGE, "`value` is NULL", loco_collective_broadcast(collective, thread, 0, NULL));
    REFUSED(LOCO_USAGE, "node 4", loco_collective_broadcast(collective, thread, 4, &value));
    REFUSED(LOCO_USAGE, "room for 0 values", loco_collective_gather(collective, thread, 0, 1, values, 0));
    REFUSED(LOCO_USAGE, "`values` is NULL", loco_collective_all_gather(collective, thread, 1, NULL, 1));
    OK(loco_collective_gather(collective, thread, 0, 5, values, 2));
    HOLDS(values[0] == 5 && values[1] == 9);
    OK(loco_collective_all_gather(collective, thread, 8, values, 1));
    HOLDS(values[0] == 8);
    REFUSED(LOCO_USAGE, "no operation 6", loco_collective_all_reduce(collective, thread, 1, 6, &value));
    REFUSED(LOCO_USAGE, "`result` is NULL", loco_collective_reduce(collective, thread, 0, 1, LOCO_SUM, NULL));
    OK(loco_collective_reduce(collective, thread, 0, 4, LOCO_XOR, &value));
    HOLDS(value == 4);
    OK(loco_collective_all_reduce(collective, thread, 3, LOCO_MAX, &value));
    HOLDS(value == 3);
    OK(loco_collective_free(collective));
    OK(loco_collective_free(NULL));
}

static void queues(loco_node *node, loco_thread *thread) {
    loco_queue *queue;
    uint64_t value = 7;

    REFUSED(LOCO_USAGE, "no room for a value", loco_queue_new(node, "queue", 0, 0, &queue));
    OK(loco_queue_new(node, "queue", 0, 2, &queue));
    OK(loco_wait_for_ready(node));
    EXPECT(LOCO_AGAIN, loco_queue_try_pop(queue, thread, &value));
    HOLDS(value == 7);
    OK(loco_queue_push(queue, thread, 1));
    OK(loco_queue_try_push(queue, thread, 2));
    EXPECT(LOCO_AGAIN, loco_queue_try_push(queue, thread, 3));
    OK(loco_thread_set_timeout(thread, 1000000));
    REFUSED(LOCO_TIMEOUT, "queue", loco_queue_push(queue, thread, 3));
    REFUSED(LOCO_USAGE, "`value` is NULL", loco_queue_pop(queue, thread, NULL)); /* nothing is taken */
    OK(loco_queue_pop(queue, thread, &value));
    HOLDS(value == 1);
    OK(loco_queue_close(queue, thread));
    EXPECT(LOCO_ENDED, loco_queue_push(queue, thread, 3));
    OK(loco_queue_try_pop(queue, thread, &value));
    HOLDS(value == 2);
    EXPECT(LOCO_ENDED, loco_queue_pop(queue, thread, &value));
    OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));
    OK(loco_queue_free(queue));
    OK(loco_queue_free(NULL));
}

struct stranger {
    loco_thread *thread;
    loco_barrier *barrier;
    loco_pending *pending;
    loco_lock *lock;
};

/* Another thread, with what it must not use. */
static void *intrude(void *argument) {
    struct stranger *theirs = argument;
    int done;

    HOLDS(strcmp(loco_last_error(), "") == 0); /* errors belong to threads */
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_barrier_wait(theirs->barrier, theirs->thread));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_fence(theirs->thread, LOCO_FENCE_THREAD));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_thread_set_timeout(theirs->thread, 0));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_pending_wait(theirs->pending));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_pending_test(theirs->pending, &done));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_pending_read(theirs->pending, 0, &done, 1));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_pending_free(theirs->pending));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_lock_unlock(theirs->lock, theirs->thread, LOCO_FENCE_THREAD));
    return NULL;
}

static void *make_thread(void *node) {
    loco_thread *thread;
    OK(loco_thread_new(node, &thread));
    return thread;
}

static void threads(loco_node *node, loco_thread *thread) {
    struct stranger mine;
    loco_region *region;
    pthread_t other;
    void *left;

    mine.thread = thread;
    OK(loco_barrier_new(node, "alone", &mine.barrier));
    OK(loco_region_new(node, "memory", 64, &region));
    OK(loco_lock_new(node, "mine", LOCO_LOCK_TICKET, 0, LOCO_ON_LOSS_POISON, &mine.lock));
    OK(loco_wait_for_ready(node));
    OK(loco_lock_lock(mine.lock, thread, NULL));
    OK(loco_region_get_start(region, thread, 0, 0, 64, &mine.pending));
    HOLDS(pthread_create(&other, NULL, intrude, &mine) == 0);
    HOLDS(pthread_join(other, NULL) == 0);
    OK(loco_pending_wait(mine.pending));
    OK(loco_lock_unlock(mine.lock, thread, LOCO_FENCE_THREAD));
    OK(loco_barrier_wait(mine.barrier, thread));
    OK(loco_barrier_wait_fencing_all_threads(mine.barrier, thread));
    OK(loco_pending_free(mine.pending));
    OK(loco_lock_free(mine.lock));
    OK(loco_region_free(region));
    OK(loco_barrier_free(mine.barrier));

    /* What a thread has left behind is freed by another one. */
    HOLDS(pthread_create(&other, NULL, make_thread, node) == 0);
    HOLDS(pthread_join(other, &left) == 0);
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_fence(left, LOCO_FENCE_THREAD));
    OK(loco_thread_free(left));
}

/* Parents before children, and the node before everything. */
static void any_order(loco_node *node, loco_thread *thread) {
    loco_region *region;
    loco_pending *pending;
    loco_atomic *atomic;
    uint64_t value;
    char data[32];

    OK(loco_region_new(node, "parent", 64, &region));
    OK(loco_atomic_new(node, "orphan", 0, &atomic));
    OK(loco_wait_for_ready(node));
    OK(loco_region_write(region, 0, "still here", 11));
    OK(loco_region_get_start(region, thread, 0, 0, 32, &pending));
    OK(loco_region_free(region));
    OK(loco_thread_free(thread));
    OK(loco_pending_wait(pending));
    OK(loco_pending_read(pending, 0, data, sizeof data));
    HOLDS(strcmp(data, "still here") == 0);
    OK(loco_pending_free(pending));

    OK(loco_thread_new(node, &thread));
    OK(loco_close(node));
    OK(loco_atomic_fetch_add(atomic, thread, 1, &value)); /* alone, the node may still be used: it stays up */
    HOLDS(value == 0);
    OK(loco_atomic_free(atomic));
    OK(loco_thread_free(thread));
}

int main(void) {
    loco_options options = LOCO_OPTIONS_INIT;
    loco_node *node, *among;
    loco_thread *thread;
    loco_node_id self = 0, stranger = 1, nodes[2] = {9, 9};

    HOLDS(strcmp(loco_last_error(), "") == 0);
    HOLDS(loco_last_lost_node() == -1 && loco_last_os_error() == 0);
    HOLDS(strcmp(loco_version(), LOCO_VERSION) == 0);
    HOLDS(strcmp(loco_status_name(LOCO_PEER_LOST), "LOCO_PEER_LOST") == 0);
    HOLDS(strcmp(loco_status_name(4711), "no status of loco") == 0);
    options.size = 3;
    REFUSED(LOCO_USAGE, "LOCO_OPTIONS_INIT", loco_open(&options, &node));
    options.size = sizeof options;
    options.fabric = "pigeons";
    REFUSED(LOCO_USAGE, "no fabric `pigeons`", loco_open(&options, &node));
    options.fabric = "shm";
    options.polling_thread = 1;
    options.timeout_ns = UINT64_C(60000000000);
    OK(loco_open(&options, &node));
    REFUSED(LOCO_USAGE, "already", loco_open(&options, &among));

    HOLDS(loco_self(node) == 0);
    HOLDS(loco_nodes(node, nodes, 2) == 1 && nodes[0] == 0 && nodes[1] == 9);
    REFUSED(LOCO_USAGE, "node 1 is not part of this job", loco_among(node, &stranger, 1, &among));
    OK(loco_among(node, &self, 1, &among));
    REFUSED(LOCO_USAGE, "loco_node_free", loco_close(among));
    HOLDS(loco_nodes(among, NULL, 0) == 1);
    OK(loco_node_free(among));

    OK(loco_thread_new(node, &thread));
    null_arguments(node, thread);
    words_and_bytes(node, thread);
    locks(node, thread, LOCO_LOCK_TICKET, "ticket");
    locks(node, thread, LOCO_LOCK_TAS, "tas");
    rings(node, thread);
    stores(node, thread);
    atomics(node, thread);
    variables(node, thread);
    collectives(node, thread);
    queues(node, thread);
    threads(node, thread);
    any_order(node, thread);
    puts("all is as it should be");
    return 0;
}
