/* The completion queue is asked for an event after it was found empty, and the program sleeps.
 * Mended: it is looked at again in between. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        struct ibv_wc wc;
        CHECK(!post_receive(&p, 0, 1));
        CHECK(!post(&p, p.a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
        int got = ibv_poll_cq(p.cq_b, 1, &wc);
        complete(p.cq_a, 1); /* something else is done, meanwhile */
        CHECK(!ibv_req_notify_cq(p.cq_b, 0));
        if (mended && got == 0)
            got = ibv_poll_cq(p.cq_b, 1, &wc);
        if (got == 0) {
            struct pollfd waits = {.fd = p.channel->fd, .events = POLLIN};
            if (poll(&waits, 1, 1000) == 0)
                shows("the completion came before the event was asked for, and nobody wakes the program");
            struct ibv_cq *cq;
            void *context;
            CHECK(!ibv_get_cq_event(p.channel, &cq, &context));
            ibv_ack_cq_events(cq, 1);
            complete(p.cq_b, 1);
        } else {
            /* No event is wanted any more; one may come all the same. */
            struct pollfd waits = {.fd = p.channel->fd, .events = POLLIN};
            if (poll(&waits, 1, 0) == 1) {
                struct ibv_cq *cq;
                void *context;
                CHECK(!ibv_get_cq_event(p.channel, &cq, &context));
                ibv_ack_cq_events(cq, 1);
            }
        }
    }
    return 0;
}
