/* Mistakes that beginners make, on two nodes: each message names the object, the node, and what to do. */
#include "expect.h"

/* The call is refused with this status, and the message has all three. */
#define TELLS(expected, object, who, remedy, call)                                                                    \
    do {                                                                                                              \
        REFUSED(expected, object, call);                                                                              \
        REFUSED_WORDS(who);                                                                                           \
        REFUSED_WORDS(remedy);                                                                                        \
    } while (0)

#define REFUSED_WORDS(words)                                                                                          \
    do {                                                                                                              \
        if (strstr(loco_last_error(), words) == NULL) {                                                               \
            fprintf(stderr, "%s:%d: `%s` is not in: %s\n", __FILE__, __LINE__, words, loco_last_error());             \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* Enough for a call that waits for what does not come, in nanoseconds. */
#define SHORT UINT64_C(100000000)

static loco_node *node;
static loco_thread *thread;
/* Where the nodes wait for one another between two mistakes. */
static loco_barrier *meeting;
static int self;

/* The call of node 0 runs into its deadline. */
#define LATE(object, who, remedy, call)                                                                               \
    do {                                                                                                              \
        OK(loco_thread_set_timeout(thread, SHORT));                                                                   \
        TELLS(LOCO_TIMEOUT, object, who, remedy, call);                                                               \
        OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));                                                    \
    } while (0)

static void names(void) {
    loco_barrier *barrier, *other;
    loco_lock *lock;

    REFUSED(LOCO_USAGE, "`a/b`", loco_barrier_new(node, "a/b", &barrier));
    REFUSED_WORDS("take another name");
    OK(loco_barrier_new(node, "twice", &barrier));
    TELLS(LOCO_USAGE, "`twice`", self == 0 ? "node 0 already" : "node 1 already", "take another name",
          loco_barrier_new(node, "twice", &other));
    OK(loco_barrier_free(barrier));
    TELLS(LOCO_USAGE, "`far`", "node 7", "not a participant",
          loco_lock_new(node, "far", LOCO_LOCK_TICKET, 7, LOCO_ON_LOSS_POISON, &lock));
}

/* Objects that do not fit together are reported by both nodes. */
static void disagreements(void) {
    loco_barrier *barrier = NULL;
    loco_atomic *atomic = NULL;
    loco_region *region;
    loco_lock *lock;

    if (self == 0) {
        OK(loco_barrier_new(node, "kind", &barrier));
    } else {
        OK(loco_atomic_new(node, "kind", 0, &atomic));
    }
    TELLS(LOCO_MISMATCH, "`kind`", self == 0 ? "node 1 has" : "node 0 has", "make both endpoints with the same type",
          loco_wait_for_ready(node));
    OK(loco_barrier_wait(meeting, thread));
    OK(loco_barrier_free(barrier));
    OK(loco_atomic_free(atomic));

    OK(loco_region_new(node, "size", self == 0 ? 64 : 128, &region));
    TELLS(LOCO_MISMATCH, "`size`", self == 0 ? "node 1 has" : "node 0 has", "make both endpoints with the same type",
          loco_wait_for_ready(node));
    OK(loco_barrier_wait(meeting, thread));
    OK(loco_region_free(region));

    OK(loco_lock_new(node, "home", LOCO_LOCK_TICKET, (loco_node_id)self, LOCO_ON_LOSS_POISON, &lock));
    TELLS(LOCO_MISMATCH, "`home`", self == 0 ? "node 1 has" : "node 0 has", "make both endpoints with the same type",
          loco_wait_for_ready(node));
    OK(loco_barrier_wait(meeting, thread));
    OK(loco_lock_free(lock));
}

static void not_ready(void) {
    loco_region *region;

    if (self == 0) {
        OK(loco_region_new(node, "early", 64, &region));
        TELLS(LOCO_USAGE, "`early.data`", "to node 1", "call `wait_for_ready` first",
              loco_region_put_word(region, thread, 1, 0, 1));
        OK(loco_region_free(region));
    }
    OK(loco_barrier_wait(meeting, thread));
}

static void waits(void) {
    loco_barrier *barrier;
    loco_lock *lock;
    loco_queue *queue;
    loco_ring *ring;
    loco_ring_writer *writer;
    loco_ring_reader *reader;
    char large[100] = "", byte;
    size_t len, i;
    loco_status status = LOCO_OK;

    OK(loco_barrier_new(node, "b", &barrier));
    OK(loco_lock_new(node, "l", LOCO_LOCK_TICKET, 0, LOCO_ON_LOSS_POISON, &lock));
    OK(loco_queue_new(node, "q", 0, 2, &queue));
    OK(loco_ring_new(node, "r", 1, 64, &ring));
    OK(loco_wait_for_ready(node));

    if (self == 1) {
        OK(loco_lock_lock(lock, thread, NULL));
    }
    OK(loco_barrier_wait(meeting, thread));
    if (self == 0) {
        LATE("at b", "node 1 has not arrived", "every participant must call", loco_barrier_wait(barrier, thread));
        LATE("lock l", "node 1 holds", "must release its guard", loco_lock_lock(lock, thread, NULL));
        OK(loco_queue_push(queue, thread, 1));
        OK(loco_queue_push(queue, thread, 2));
        LATE("queue q", "no call pops", "make its capacity larger", loco_queue_push(queue, thread, 3));
        OK(loco_ring_take_reader(ring, &reader));
        LATE("ring buffer r", "node 1 has submitted no message", "a writer submits what readers receive",
             loco_ring_receive(reader, thread, &byte, 1, &len));
        TELLS(LOCO_USAGE, "`r`", "only node 1 may take the writer", "leave the call to node 1",
              loco_ring_take_writer(ring, &writer));
        OK(loco_barrier_wait(meeting, thread));
        OK(loco_barrier_wait(meeting, thread));
        OK(loco_ring_reader_free(reader));
    } else {
        OK(loco_barrier_wait(meeting, thread));
        TELLS(LOCO_USAGE, "lock `l`", "this thread", "unlock it first", loco_lock_lock(lock, thread, NULL));
        OK(loco_lock_unlock(lock, thread, LOCO_FENCE_THREAD));
        OK(loco_ring_take_writer(ring, &writer));
        TELLS(LOCO_USAGE, "ring buffer `r`", "100 bytes", "make it larger",
              loco_ring_submit(writer, thread, large, sizeof large));
        OK(loco_thread_set_timeout(thread, SHORT));
        for (i = 0; i < 100 && status == LOCO_OK; i++) {
            status = loco_ring_submit(writer, thread, large, 8);
        }
        HOLDS(status == LOCO_TIMEOUT);
        REFUSED_WORDS("ring buffer r");
        REFUSED_WORDS("node 0 has not acknowledged");
        REFUSED_WORDS("each reader must receive");
        OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));
        OK(loco_barrier_wait(meeting, thread));
        OK(loco_ring_writer_free(writer));
    }
    OK(loco_barrier_free(barrier));
    OK(loco_lock_free(lock));
    OK(loco_queue_free(queue));
    OK(loco_ring_free(ring));
}

static void stores_and_calls(void) {
    loco_store_options options = LOCO_STORE_OPTIONS_INIT;
    loco_store *store;
    loco_collective *collective;
    uint64_t values[2];
    char large[100] = "";

    options.value_bytes_max = 16;
    OK(loco_store_new(node, "s", &options, &store));
    OK(loco_collective_new(node, "c", &collective));
    OK(loco_wait_for_ready(node));
    TELLS(LOCO_USAGE, "store `s`", "`value_bytes_max`", "make it larger",
          loco_store_insert(store, thread, "k", 1, large, sizeof large));
    if (self == 0) {
        TELLS(LOCO_USAGE, "`c`", "node 1 makes another call", "the same operations in the same order",
              loco_collective_all_gather(collective, thread, 1, values, 2));
    } else {
        TELLS(LOCO_USAGE, "`c`", "node 0 makes another call", "the same operations in the same order",
              loco_collective_gather(collective, thread, 1, 1, values, 2));
    }
    OK(loco_barrier_wait(meeting, thread));
    OK(loco_collective_free(collective));
    OK(loco_store_free(store));
}

int main(void) {
    OK(loco_open(NULL, &node));
    self = (int)loco_self(node);
    OK(loco_thread_new(node, &thread));
    OK(loco_barrier_new(node, "meeting", &meeting));
    OK(loco_wait_for_ready(node));
    names();
    not_ready();
    disagreements();
    waits();
    stores_and_calls();
    OK(loco_close(node));
    puts("every message says what to do");
    return 0;
}
