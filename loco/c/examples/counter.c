/* A table in which every node has a row, and a total under a lock.
 *
 * Each node puts a greeting into its row of every other node's copy, and adds to the total on node 0, 100 times: get, add, put,
 * with the lock held. Start three: loco run -n 3 -- ./counter */
#include <inttypes.h>
#include <loco.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES 32
#define ROUNDS 100

static void check(loco_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", loco_status_name(status), loco_last_error());
        exit(1);
    }
}

/* Everything is put into the rows of all nodes, and there after the barrier. */
static void greet(loco_node *node, loco_thread *thread, loco_barrier *barrier) {
    loco_region *table;
    char row[ROW_BYTES] = "";
    loco_node_id id;
    loco_node_id nodes = (loco_node_id)loco_nodes(node, NULL, 0);

    check(loco_region_new(node, "table", (size_t)nodes * ROW_BYTES, &table));
    check(loco_wait_for_ready(node));
    snprintf(row, sizeof row, "greetings from node %d", loco_self(node));
    for (id = 0; id < nodes; id++) {
        check(loco_region_put(table, thread, id, (size_t)loco_self(node) * ROW_BYTES, row, sizeof row));
    }
    check(loco_barrier_wait(barrier, thread));
    for (id = 0; id < nodes; id++) {
        check(loco_region_read(table, (size_t)id * ROW_BYTES, row, sizeof row));
        printf("node %d has %s\n", loco_self(node), row);
    }
    check(loco_region_free(table));
}

/* Whoever holds the lock is alone: nothing is lost although reading and writing are two operations. */
static void count(loco_node *node, loco_thread *thread, loco_barrier *barrier, const char *name, int kind) {
    loco_region *total;
    loco_lock *lock;
    uint64_t value;
    int round;
    char lock_name[32];

    snprintf(lock_name, sizeof lock_name, "lock of %s", name);
    check(loco_region_new(node, name, sizeof value, &total));
    check(loco_lock_new(node, lock_name, kind, 0, LOCO_ON_LOSS_POISON, &lock));
    check(loco_wait_for_ready(node));
    for (round = 0; round < ROUNDS; round++) {
        check(loco_lock_lock(lock, thread, NULL));
        check(loco_region_get_word(total, thread, 0, 0, &value));
        check(loco_region_put_word(total, thread, 0, 0, value + 1));
        check(loco_lock_unlock(lock, thread, LOCO_FENCE_THREAD)); /* the put is placed before the next holder reads */
    }
    check(loco_barrier_wait(barrier, thread));
    check(loco_region_get_word(total, thread, 0, 0, &value));
    printf("node %d: %s is %" PRIu64 "\n", loco_self(node), name, value);
    check(loco_barrier_wait(barrier, thread));
    check(loco_lock_free(lock));
    check(loco_region_free(total));
}

int main(void) {
    loco_node *node;
    loco_thread *thread;
    loco_barrier *barrier;

    check(loco_open(NULL, &node));
    check(loco_barrier_new(node, "barrier", &barrier));
    check(loco_wait_for_ready(node));
    check(loco_thread_new(node, &thread));

    greet(node, thread, barrier);
    count(node, thread, barrier, "total with a ticket lock", LOCO_LOCK_TICKET);
    count(node, thread, barrier, "total with a TAS lock", LOCO_LOCK_TAS);

    check(loco_thread_free(thread));
    check(loco_barrier_free(barrier));
    check(loco_close(node));
    return 0;
}
