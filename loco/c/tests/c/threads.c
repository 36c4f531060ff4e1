/* Two threads on each of two nodes: a barrier for all of them, a lock, and ring-buffer handles that two threads of a node
 * use at once. */
#include "expect.h"

#include <pthread.h>

#define THREADS 2
#define ROUNDS 200

static loco_node *node;
static loco_barrier *barrier;
static loco_region *total;
static loco_lock *lock;
static loco_ring_writer *writer;

static void *work(void *unused) {
    loco_thread *thread;
    uint64_t value;
    int round;

    (void)unused;
    OK(loco_thread_new(node, &thread));
    OK(loco_thread_set_timeout(thread, LOCO_FOREVER));
    for (round = 0; round < ROUNDS; round++) {
        OK(loco_lock_lock(lock, thread, NULL));
        OK(loco_region_get_word(total, thread, 0, 0, &value));
        OK(loco_region_put_word(total, thread, 0, 0, value + 1));
        OK(loco_lock_unlock(lock, thread, LOCO_FENCE_THREAD));
    }
    OK(loco_barrier_wait(barrier, thread));
    OK(loco_region_get_word(total, thread, 0, 0, &value));
    HOLDS(value == 2 * THREADS * ROUNDS);

    /* One at a time: whoever is second is told so, and tries again. */
    if (writer != NULL) {
        for (round = 0; round < ROUNDS; round++) {
            loco_status status;
            do {
                status = loco_ring_submit(writer, thread, "message", 7);
            } while (status == LOCO_BUSY);
            OK(status);
        }
    }
    OK(loco_barrier_wait_fencing_all_threads(barrier, thread));
    OK(loco_thread_free(thread));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    loco_ring *ring;
    int i;

    OK(loco_open(NULL, &node));
    OK(loco_barrier_new_threads(node, "barrier", THREADS, &barrier));
    OK(loco_region_new(node, "total", 8, &total));
    OK(loco_lock_new(node, "lock", LOCO_LOCK_TICKET, 0, LOCO_ON_LOSS_POISON, &lock));
    OK(loco_ring_new(node, "ring", 0, 1 << 16, &ring));
    OK(loco_wait_for_ready(node));
    if (loco_self(node) == 0) {
        OK(loco_ring_take_writer(ring, &writer));
    }
    for (i = 0; i < THREADS; i++) {
        HOLDS(pthread_create(&threads[i], NULL, work, NULL) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        HOLDS(pthread_join(threads[i], NULL) == 0);
    }
    if (loco_self(node) == 1) {
        loco_thread *thread;
        loco_ring_reader *reader;
        char text[8];
        size_t len;

        OK(loco_thread_new(node, &thread));
        OK(loco_ring_take_reader(ring, &reader));
        for (i = 0; i < THREADS * ROUNDS; i++) {
            OK(loco_ring_try_receive(reader, thread, text, sizeof text, &len));
            HOLDS(len == 7 && memcmp(text, "message", 7) == 0);
        }
        EXPECT(LOCO_AGAIN, loco_ring_try_receive(reader, thread, text, sizeof text, &len));
        OK(loco_ring_reader_free(reader));
        OK(loco_thread_free(thread));
    }
    OK(loco_ring_writer_free(writer));
    OK(loco_ring_free(ring));
    OK(loco_lock_free(lock));
    OK(loco_region_free(total));
    OK(loco_barrier_free(barrier));
    OK(loco_close(node));
    puts("nothing was lost");
    return 0;
}
