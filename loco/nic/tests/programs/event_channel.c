/* A thread handles an event while another destroys the identifier and the event channel, as rping's two threads do at its end.
 * rdma_destroy_id waits until the event is acknowledged, as its manual page says. Who asks a destroyed channel for an event gets an
 * error and reads no memory of it. */
#include "../check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <unistd.h>

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static atomic_int begun, destroyed;

static void *destroy(void *unused) {
    begun = 1;
    CHECK(!rdma_destroy_id(id));
    destroyed = 1;
    rdma_destroy_event_channel(channel);
    return unused;
}

int main(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(1)};
    struct rdma_cm_event *event;
    pthread_t thread;
    CHECK((channel = rdma_create_event_channel()));
    CHECK(!rdma_create_id(channel, &id, &to, RDMA_PS_TCP));
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
    CHECK(!rdma_get_cm_event(channel, &event));
    CHECK(!pthread_create(&thread, NULL, destroy, NULL));
    while (!begun)
        usleep(1000);
    /* If it does not wait, it has most likely returned by then. */
    usleep(100000);
    CHECK(!destroyed);
    CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && event->id == id && id->context == &to);
    CHECK(!rdma_ack_cm_event(event));
    CHECK(!pthread_join(thread, NULL));
    CHECK(destroyed);
    CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == EBADF);
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == EBADF);
    return 0;
}
