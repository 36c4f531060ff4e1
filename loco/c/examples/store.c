/* A key-value store: each node inserts its name, and looks up everybody's.
 *
 * Start three: loco run -n 3 -- ./store */
#include <loco.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(loco_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", loco_status_name(status), loco_last_error());
        exit(1);
    }
}

int main(void) {
    loco_store_options options = LOCO_STORE_OPTIONS_INIT;
    loco_node *node;
    loco_thread *thread;
    loco_barrier *barrier;
    loco_store *store;
    char name[32], value[64];
    size_t i, len, nodes;

    options.value_bytes_max = sizeof value;
    options.slots_per_node = 1000;
    check(loco_open(NULL, &node));
    check(loco_barrier_new(node, "barrier", &barrier));
    check(loco_store_new(node, "names", &options, &store));
    check(loco_wait_for_ready(node));
    check(loco_thread_new(node, &thread));

    snprintf(name, sizeof name, "node %d", loco_self(node));
    snprintf(value, sizeof value, "the process called %s", name);
    check(loco_store_insert(store, thread, name, strlen(name), value, strlen(value)));
    check(loco_barrier_wait(barrier, thread));

    nodes = loco_nodes(node, NULL, 0);
    for (i = 0; i < nodes; i++) {
        snprintf(name, sizeof name, "node %d", (int)i);
        check(loco_store_get(store, thread, name, strlen(name), value, sizeof value, &len));
        printf("node %d: %s is %.*s\n", loco_self(node), name, (int)len, value);
    }
    check(loco_barrier_wait(barrier, thread));

    /* The last node takes the first one's name away. */
    if (loco_self(node) == nodes - 1) {
        check(loco_store_delete(store, thread, "node 0", 6));
    }
    check(loco_barrier_wait(barrier, thread));
    if (loco_store_get(store, thread, "node 0", 6, value, sizeof value, &len) == LOCO_NOT_FOUND) {
        printf("node %d: node 0 is gone\n", loco_self(node));
    }

    check(loco_barrier_wait(barrier, thread)); /* all are done with the store */
    check(loco_store_free(store));
    check(loco_thread_free(thread));
    check(loco_barrier_free(barrier));
    check(loco_close(node));
    return 0;
}
