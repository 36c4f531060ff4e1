/* Nodes count themselves. Start three: loco run -n 3 -- ./hello */
#include <inttypes.h>
#include <loco.h>
#include <stdio.h>
#include <stdlib.h>

static void check(loco_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", loco_status_name(status), loco_last_error());
        exit(1);
    }
}

int main(void) {
    loco_node *node;
    loco_thread *thread;
    loco_atomic *arrivals;
    loco_barrier *barrier;
    uint64_t here;

    check(loco_open(NULL, &node));
    check(loco_atomic_new(node, "arrivals", 0, &arrivals)); /* lives on node 0 */
    check(loco_barrier_new(node, "barrier", &barrier));
    check(loco_wait_for_ready(node)); /* every node has made these objects */

    check(loco_thread_new(node, &thread));
    check(loco_atomic_fetch_add(arrivals, thread, 1, NULL)); /* one-sided */
    check(loco_barrier_wait(barrier, thread));
    check(loco_atomic_read(arrivals, thread, &here));
    printf("node %d: %" PRIu64 " nodes are here\n", loco_self(node), here);
    check(loco_close(node)); /* waits for the others */
    return 0;
}
