/* One node alone: sizes beyond all memory are refused by name, and a queue that found no memory works when there is some. */
#include "expect.h"

enum { HOGS_MAX = 4096 };

static void sizes(loco_node *node) {
    static const size_t HUGE_SIZES[] = {(size_t)1 << 62, SIZE_MAX / 2, (size_t)1 << 63, SIZE_MAX - 7, SIZE_MAX};
    loco_region *region;
    loco_queue *queue;
    loco_ring *ring;
    size_t i;

    for (i = 0; i < sizeof HUGE_SIZES / sizeof HUGE_SIZES[0]; i++) {
        EXPECT(LOCO_EXHAUSTED, loco_region_new(node, "region", HUGE_SIZES[i], &region));
        REFUSED(LOCO_USAGE, "`queue`", loco_queue_new(node, "queue", 0, HUGE_SIZES[i], &queue));
        HOLDS(loco_ring_new(node, "ring", 0, HUGE_SIZES[i] / 8 * 8, &ring) < 0);
        HOLDS(strstr(loco_last_error(), "ring") != NULL || strstr(loco_last_error(), "memory") != NULL);
    }
}

static void queue_without_memory(loco_node *node, loco_thread *thread) {
    static loco_region *hogs[HOGS_MAX];
    loco_queue *queue;
    size_t count = 0, size;
    char name[32];
    uint64_t value = 0;

    OK(loco_queue_new(node, "queue", 0, 4, &queue));
    for (size = (size_t)1 << 30; size >= 128; size /= 2)
        while (count < HOGS_MAX) {
            snprintf(name, sizeof name, "hog%zu", count);
            if (loco_region_new(node, name, size, &hogs[count]) < 0) break;
            count++;
        }
    OK(loco_wait_for_ready(node));
    REFUSED(LOCO_EXHAUSTED, "memory", loco_queue_push(queue, thread, 7));
    while (count > 0) OK(loco_region_free(hogs[--count]));
    OK(loco_queue_push(queue, thread, 8));
    OK(loco_queue_pop(queue, thread, &value));
    HOLDS(value == 8);
    EXPECT(LOCO_AGAIN, loco_queue_try_pop(queue, thread, &value));
    OK(loco_queue_close(queue, thread));
    EXPECT(LOCO_ENDED, loco_queue_push(queue, thread, 9));
    OK(loco_queue_free(queue));
}

int main(void) {
    loco_node *node;
    loco_thread *thread;

    OK(loco_open(NULL, &node));
    OK(loco_thread_new(node, &thread));
    sizes(node);
    queue_without_memory(node, thread);
    puts("memory lacked, and was there again");
    return 0;
}
