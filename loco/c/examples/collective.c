/* Work that is handed out, and results that are put together.
 *
 * Node 0 pushes numbers into a queue, all nodes pop them and add up their squares, and the sums are combined. A shared variable
 * tells everybody how many numbers there were. Start three: loco run -n 3 -- ./collective */
#include <inttypes.h>
#include <loco.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBERS 100

static void check(loco_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", loco_status_name(status), loco_last_error());
        exit(1);
    }
}

int main(void) {
    loco_node *node;
    loco_thread *thread;
    loco_queue *queue;
    loco_variable *count;
    loco_collective *sums;
    uint64_t number, mine = 0, popped = 0, total, most, each[64];
    size_t nodes;

    check(loco_open(NULL, &node));
    check(loco_queue_new(node, "numbers", 0, NUMBERS, &queue));
    check(loco_variable_new(node, "count", &count));
    check(loco_collective_new(node, "sums", &sums));
    check(loco_wait_for_ready(node));
    check(loco_thread_new(node, &thread));
    nodes = loco_nodes(node, NULL, 0);

    if (loco_self(node) == 0) {
        for (number = 1; number <= NUMBERS; number++) {
            check(loco_queue_push(queue, thread, number));
        }
        check(loco_queue_close(queue, thread));
        check(loco_variable_write(count, NUMBERS));
        check(loco_variable_broadcast(count, thread));
    }
    while (loco_queue_pop(queue, thread, &number) == LOCO_OK) {
        mine += number * number;
        popped++;
    }

    check(loco_collective_all_reduce(sums, thread, mine, LOCO_SUM, &total));
    check(loco_collective_all_reduce(sums, thread, popped, LOCO_MAX, &most));
    check(loco_collective_gather(sums, thread, 0, popped, each, sizeof each / sizeof *each));
    check(loco_variable_wait_until(count, thread, LOCO_NOT_EQUAL, 0, &number));
    if (loco_self(node) == 0) {
        size_t i;
        uint64_t all = 0;
        for (i = 0; i < nodes; i++) {
            all += each[i];
        }
        if (all != number || most > all) {
            fprintf(stderr, "%" PRIu64 " of %" PRIu64 " numbers were popped\n", all, number);
            return 1;
        }
    }
    printf("node %d: the squares add up to %" PRIu64 "\n", loco_self(node), total);

    check(loco_thread_free(thread));
    check(loco_collective_free(sums));
    check(loco_variable_free(count));
    check(loco_queue_free(queue));
    check(loco_close(node));
    return 0;
}
