/* Updates that are started: many of a thread are under way at a time, each is completed by itself, in any order, and what is dropped
 * leaves its lock free. */
#include "expect.h"

#include <pthread.h>

#define NODES 2
#define KEYS 40
#define ROUNDS 12

static loco_store *store;
static loco_thread *thread;

/* The value of a key in a round: as many bytes as the key says, each with the number of the round. */
static size_t value_of(unsigned char key, int round, char *value) {
    size_t len = 20 + (size_t)key;
    memset(value, round, len);
    return len;
}

/* The key has the whole value of one of these rounds. */
static int found(unsigned char key) {
    char value[64], expected[64];
    size_t len = 0;
    OK(loco_store_get(store, thread, &key, 1, value, sizeof value, &len));
    HOLDS(len == value_of(key, value[0], expected));
    HOLDS(memcmp(value, expected, len) == 0);
    return value[0];
}

static loco_store_pending *start(unsigned char key, int round) {
    loco_store_pending *pending;
    char value[64];
    size_t len = value_of(key, round, value);
    OK(loco_store_update_start(store, thread, &key, 1, value, len, &pending));
    memset(value, 0xee, sizeof value); /* it was copied */
    return pending;
}

/* Completes the updates of the keys that are this node's, in the order of the start, the opposite one, or as they end. */
static void rounds(loco_node_id self) {
    loco_store_pending *pending[KEYS];
    unsigned char key;
    int round, left, done;

    for (round = 1; round <= ROUNDS; round++) {
        for (key = 0; key < KEYS; key++) {
            pending[key] = key % NODES == self ? start(key, round) : NULL;
        }
        switch (round % 3) {
        case 0:
            for (key = 0; key < KEYS; key++) {
                if (pending[key] != NULL) {
                    OK(loco_store_pending_wait(pending[key]));
                }
            }
            break;
        case 1:
            for (key = KEYS; key-- > 0;) {
                if (pending[key] != NULL) {
                    OK(loco_store_pending_wait(pending[key]));
                    OK(loco_store_pending_wait(pending[key])); /* as before */
                }
            }
            break;
        default:
            do {
                for (left = 0, key = 0; key < KEYS; key++) {
                    if (pending[key] != NULL) {
                        OK(loco_store_pending_test(pending[key], &done));
                        left += !done;
                    }
                }
            } while (left > 0);
        }
        for (key = 0; key < KEYS; key++) {
            OK(loco_store_pending_free(pending[key]));
            if (pending[key] != NULL) {
                HOLDS(found(key) == round);
            }
        }
    }
}

/* What is dropped is done as a whole or not at all. A later update of the same key comes after it. */
static void drops(loco_node_id self) {
    unsigned char key = (unsigned char)self;
    loco_store_pending *dropped, *kept;
    int before = found(key), round, done;

    for (round = 50; round < 80; round += 2) {
        dropped = start(key, round);
        if (round % 4 == 0) {
            OK(loco_store_pending_test(dropped, &done));
        }
        OK(loco_store_pending_free(dropped));
        HOLDS(found(key) == round || found(key) == before);
        dropped = start(key, round);
        kept = start(key, round + 1);
        OK(loco_store_pending_free(dropped));
        OK(loco_store_pending_wait(kept));
        OK(loco_store_pending_free(kept));
        before = round + 1;
        HOLDS(found(key) == before);
    }
}

/* The time of the thread runs out as the update starts: it is done, or is late and has changed nothing, for good. */
static void late(loco_node_id self) {
    unsigned char key = (unsigned char)self;
    loco_store_pending *pending;
    loco_status status;
    int before = found(key);

    OK(loco_thread_set_timeout(thread, 0));
    pending = start(key, 90);
    OK(loco_thread_set_timeout(thread, LOCO_DEFAULT_TIMEOUT));
    status = loco_store_pending_wait(pending);
    HOLDS(status == LOCO_OK || status == LOCO_TIMEOUT);
    EXPECT(status, loco_store_pending_wait(pending));
    OK(loco_store_pending_free(pending));
    HOLDS(found(key) == (status == LOCO_OK ? 90 : before));
}

/* An update that is freed while its lock is held elsewhere has not begun: it changes nothing, and gives up its place in the line. */
static void taken_back(loco_node *node, loco_barrier *barrier, loco_node_id self) {
    const char *fabric = getenv("LOCO_FABRIC");
    int at_once = fabric == NULL || strcmp(fabric, "tcp") != 0, done;
    loco_store_pending *held, *dropped;
    loco_thread *idle;
    unsigned char key = 0;
    char value[64];
    size_t len = value_of(key, 110, value);

    OK(loco_thread_new(node, &idle));
    if (self == 0) {
        /* Has the lock, and goes no further while `idle` does nothing. */
        OK(loco_store_update_start(store, idle, &key, 1, value, len, &held));
        OK(loco_fence(idle, LOCO_FENCE_THREAD));
        OK(loco_barrier_wait(barrier, thread));
        OK(loco_barrier_wait(barrier, thread));
        OK(loco_store_pending_wait(held));
        OK(loco_store_pending_free(held));
    } else {
        OK(loco_barrier_wait(barrier, thread));
        dropped = start(key, 111);
        OK(loco_store_pending_test(dropped, &done));
        HOLDS(done == at_once);
        OK(loco_store_pending_free(dropped));
        OK(loco_barrier_wait(barrier, thread));
    }
    OK(loco_barrier_wait(barrier, thread));
    HOLDS(found(key) == (at_once ? 111 : 110));
    OK(loco_barrier_wait(barrier, thread));
    /* Nobody has kept the lock. */
    dropped = start(key, 112);
    OK(loco_store_pending_wait(dropped));
    OK(loco_store_pending_free(dropped));
    OK(loco_thread_free(idle));
}

/* An update is freed, and its thread does nothing more: another one updates the key. */
static void freed_for_others(loco_node *node, loco_node_id self) {
    loco_thread *other;
    unsigned char key = (unsigned char)self;
    char value[64];
    size_t len;
    int round;

    OK(loco_thread_new(node, &other));
    for (round = 113; round < 123; round += 2) {
        OK(loco_store_pending_free(start(key, round)));
        len = value_of(key, round + 1, value);
        OK(loco_store_update(store, other, &key, 1, value, len));
        HOLDS(found(key) == round + 1);
    }
    OK(loco_thread_free(other));
}

static void *intrude(void *pending) {
    int done = 7;
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_store_pending_wait(pending));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_store_pending_test(pending, &done));
    REFUSED(LOCO_WRONG_THREAD, "another thread", loco_store_pending_free(pending));
    HOLDS(done == 7);
    return NULL;
}

int main(void) {
    loco_store_options options = LOCO_STORE_OPTIONS_INIT;
    loco_store_pending *pending, *absent, *last;
    loco_barrier *barrier;
    loco_node *node;
    loco_node_id self;
    pthread_t other;
    unsigned char key, none = KEYS;
    char value[64];

    options.slots_per_node = KEYS;
    options.value_bytes_max = 64;
    options.locks = 5;
    OK(loco_open(NULL, &node));
    self = loco_self(node);
    OK(loco_store_new(node, "store", &options, &store));
    OK(loco_barrier_new(node, "barrier", &barrier));
    OK(loco_wait_for_ready(node));
    OK(loco_thread_new(node, &thread));
    for (key = 0; key < KEYS; key++) {
        /* Pairs of keys have their values on one node, so that each node updates values of both. */
        if (key / 2 % NODES == self) {
            OK(loco_store_insert(store, thread, &key, 1, value, value_of(key, 0, value)));
        }
    }
    OK(loco_barrier_wait(barrier, thread));
    rounds(self);
    drops(self);
    late(self);

    OK(loco_store_update_start(store, thread, &none, 1, "", 0, &absent));
    pending = start((unsigned char)self, 100);
    HOLDS(pthread_create(&other, NULL, intrude, pending) == 0);
    HOLDS(pthread_join(other, NULL) == 0);
    /* Who waits for others ends what it has under way. */
    OK(loco_barrier_wait(barrier, thread));
    OK(loco_barrier_wait(barrier, thread));
    HOLDS(found((unsigned char)(1 - self)) == 100);
    EXPECT(LOCO_NOT_FOUND, loco_store_pending_wait(absent));
    OK(loco_store_pending_free(absent));
    OK(loco_store_pending_wait(pending));
    OK(loco_store_pending_free(pending));
    OK(loco_barrier_wait(barrier, thread));

    taken_back(node, barrier, self);
    OK(loco_barrier_wait(barrier, thread));
    freed_for_others(node, self);
    OK(loco_barrier_wait(barrier, thread));

    /* The store is freed first: what is under way keeps it up. The thread is in use until each is waited for, or freed. */
    last = start((unsigned char)self, 101);
    pending = start((unsigned char)self, 102);
    OK(loco_store_free(store));
    REFUSED(LOCO_USAGE, "2 operations of stores", loco_thread_free(thread));
    OK(loco_store_pending_wait(pending));
    REFUSED(LOCO_USAGE, "1 operations of stores", loco_thread_free(thread));
    OK(loco_barrier_wait(barrier, thread)); /* this node's part of the store ends when both nodes are done with it */
    OK(loco_store_pending_free(last));
    OK(loco_thread_free(thread));
    OK(loco_store_pending_free(pending)); /* it was waited for */
    OK(loco_barrier_free(barrier));
    OK(loco_close(node));
    puts("each update was completed by itself");
    return 0;
}
