/* Node 0 tells the others: a ring buffer from one writer to a reader on each other node.
 *
 * Start three: loco run -n 3 -- ./ring */
#include <loco.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 1000

static void check(loco_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", loco_status_name(status), loco_last_error());
        exit(1);
    }
}

/* The ring is much smaller than all that is said: submitting waits for the slowest reader. */
static void speak(loco_ring *ring, loco_thread *thread) {
    loco_ring_writer *writer;
    char text[64];
    int i;

    check(loco_ring_take_writer(ring, &writer));
    for (i = 0; i < MESSAGES; i++) {
        int len = snprintf(text, sizeof text, "message %d", i);
        check(loco_ring_submit(writer, thread, text, (size_t)len));
    }
    check(loco_ring_submit(writer, thread, NULL, 0)); /* an empty message: the end */
    check(loco_ring_wait_until_read(writer, thread));
    check(loco_ring_writer_free(writer));
    printf("node 0: %d messages were read\n", MESSAGES);
}

static void listen(loco_ring *ring, loco_thread *thread, int self) {
    loco_ring_reader *reader;
    char text[64], expected[64];
    size_t len;
    int count = 0;

    check(loco_ring_take_reader(ring, &reader));
    for (;;) {
        check(loco_ring_receive(reader, thread, text, sizeof text - 1, &len));
        if (len == 0) {
            break;
        }
        text[len] = '\0';
        snprintf(expected, sizeof expected, "message %d", count);
        if (strcmp(text, expected) != 0) {
            fprintf(stderr, "node %d: `%s` instead of `%s`\n", self, text, expected);
            exit(1);
        }
        count++;
    }
    check(loco_ring_reader_free(reader));
    printf("node %d: %d messages, in order\n", self, count);
}

int main(void) {
    loco_node *node;
    loco_thread *thread;
    loco_ring *ring;

    check(loco_open(NULL, &node));
    check(loco_ring_new(node, "news", 0, 1024, &ring));
    check(loco_wait_for_ready(node));
    check(loco_thread_new(node, &thread));
    if (loco_self(node) == 0) {
        speak(ring, thread);
    } else {
        listen(ring, thread, loco_self(node));
    }
    check(loco_thread_free(thread));
    check(loco_ring_free(ring));
    check(loco_close(node));
    return 0;
}
