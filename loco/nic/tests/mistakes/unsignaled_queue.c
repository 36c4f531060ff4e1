/* No request asks for a completion, so that the send queue is never known to be free.
 * Mended: one of sixteen does, and it is waited for. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        int signals = mended && round % 16 == 0;
        int error = post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, signals ? IBV_SEND_SIGNALED : 0);
        if (error == ENOMEM)
            shows("the send queue is full");
        CHECK(!error);
        if (signals)
            complete(p.cq_a, 1);
        else
            let_go(&p);
    }
    return 0;
}
