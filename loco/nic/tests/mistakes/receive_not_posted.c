/* Messages are sent to one who posts the next receive when he has taken the last message; nobody tries again.
 * Mended: the sender waits until the next receive is posted. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 0);
    CHECK(!post_receive(&p, 0, 1));
    for (long round = 1; round <= rounds; round++) {
        int burst = mended ? 1 : 2;
        for (int sent = 0; sent < burst; sent++)
            CHECK(!post(&p, p.a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
        for (int sent = 0; sent < burst; sent++) {
            struct ibv_wc wc = completed(p.cq_a);
            if (wc.status == IBV_WC_RNR_RETRY_EXC_ERR)
                shows("there was no receive");
            CHECK(wc.status == IBV_WC_SUCCESS);
            complete(p.cq_b, 1);
            CHECK(!post_receive(&p, 0, 1));
        }
    }
    return 0;
}
