/* Three nodes, of which node 1 dies in the middle: the others get an error that names it, go on among themselves,
 * recover its lock, and have the values that it kept in a store with copies. Signals are as a C program has them: a broken
 * connection must not end it. */
#include "expect.h"

#include <signal.h>

int main(void) {
    loco_node *node, *rest;
    loco_thread *thread;
    loco_barrier *barrier, *barrier_of_the_rest;
    loco_region *region;
    loco_lock *recovered_lock, *poisoned_lock;
    loco_node_id left[2] = {0, 2};
    loco_store_options options = LOCO_STORE_OPTIONS_INIT;
    loco_store *store;
    char value[8] = "";
    size_t len = 0;
    int recovered = 0;

    options.copies = 2;
    options.spare_homes = 1;
    options.slots_per_node = 4;
    options.locks = 1;
    OK(loco_open(NULL, &node));
    OK(loco_store_new(node, "store", &options, &store));
    OK(loco_barrier_new(node, "barrier", &barrier));
    OK(loco_region_new(node, "region", 64, &region));
    OK(loco_lock_new(node, "recovered", LOCO_LOCK_TICKET, 0, LOCO_ON_LOSS_RECOVER, &recovered_lock));
    OK(loco_lock_new(node, "poisoned", LOCO_LOCK_TAS, 0, LOCO_ON_LOSS_POISON, &poisoned_lock));
    OK(loco_wait_for_ready(node));
    OK(loco_thread_new(node, &thread));
    OK(loco_thread_set_timeout(thread, LOCO_FOREVER));
    if (loco_self(node) == 1) {
        OK(loco_lock_lock(recovered_lock, thread, NULL));
        OK(loco_lock_lock(poisoned_lock, thread, NULL));
        OK(loco_store_insert(store, thread, "last", 4, "word", 4));
    }
    OK(loco_barrier_wait(barrier, thread));
    if (loco_self(node) == 1) {
        raise(SIGKILL);
    }

    REFUSED(LOCO_PEER_LOST, "node 1", loco_barrier_wait(barrier, thread));
    HOLDS(loco_last_lost_node() == 1);
    REFUSED(LOCO_PEER_LOST, "node 1", loco_region_put(region, thread, 1, 0, "x", 1));

    OK(loco_store_get(store, thread, "last", 4, value, sizeof value, &len));
    HOLDS(len == 4 && memcmp(value, "word", 4) == 0);
    OK(loco_store_wait_until_whole(store, thread));

    OK(loco_among(node, left, 2, &rest));
    OK(loco_barrier_new(rest, "the rest", &barrier_of_the_rest));
    OK(loco_node_free(rest));
    OK(loco_wait_for_ready(node)); /* what was ready before the loss stays so */
    REFUSED(LOCO_POISONED, "poisoned", loco_lock_lock(poisoned_lock, thread, NULL));
    HOLDS(loco_last_lost_node() == -1); /* what was poisoned is told, and by whom in words */
    if (loco_self(node) == 0) {
        OK(loco_lock_lock(recovered_lock, thread, &recovered));
        HOLDS(recovered == 1);
        OK(loco_lock_unlock(recovered_lock, thread, LOCO_FENCE_NOTHING));
    }
    OK(loco_barrier_wait(barrier_of_the_rest, thread));
    REFUSED(LOCO_PEER_LOST, "node 1", loco_close(node));
    puts("the rest is well");
    return 0;
}
