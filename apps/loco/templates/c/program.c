/* One node publishes a number, and the others print it. Start three nodes: ./run.sh */
#include <inttypes.h>
#include <loco.h>
#include <stdio.h>
#include <stdlib.h>

/* The places of the number and of the news in the memory of each node. The news is 1 as soon as the number is there. */
enum { NUMBER = 0, NEWS = 8, BYTES = 16 };
/* The node that publishes. */
enum { PUBLISHER = 0 };

static void check(loco_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", loco_status_name(status), loco_last_error());
        exit(1);
    }
}

/* Puts the number into the memory of every other node, and then the news that it is there. Puts of one loco_thread to a node
 * arrive in order. */
static void publish(loco_node *node, loco_region *words, loco_thread *thread, uint64_t number) {
    loco_node_id nodes[64];
    size_t count = loco_nodes(node, nodes, 64);
    size_t i;

    for (i = 0; i < count && i < 64; i++) {
        if (nodes[i] != PUBLISHER) {
            check(loco_region_put_word(words, thread, nodes[i], NUMBER, number));
            check(loco_region_put_word(words, thread, nodes[i], NEWS, 1));
        }
    }
}

int main(void) {
    loco_node *node;
    loco_thread *thread;
    loco_region *words;
    uint64_t number;

    check(loco_open(NULL, &node));
    check(loco_region_new(node, "words", BYTES, &words));
    check(loco_wait_for_ready(node)); /* every node has made its region */

    check(loco_thread_new(node, &thread));
    if (loco_self(node) == PUBLISHER) {
        publish(node, words, thread, 42);
    } else {
        check(loco_region_wait_until(words, thread, NEWS, LOCO_EQUAL, 1, NULL));
        check(loco_region_load(words, NUMBER, &number));
        printf("node %d reads %" PRIu64 "\n", loco_self(node), number);
    }
    check(loco_close(node)); /* waits for the others */
    return 0;
}
