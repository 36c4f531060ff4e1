/* A completed write is believed to be in the target's memory.
 * Mended: a read of the same queue pair follows, and its completion is waited for. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        p.here[0] = round;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        if (mended) {
            CHECK(!post(&p, p.a, IBV_WR_RDMA_READ, 8, 8, 1, IBV_SEND_SIGNALED));
            complete(p.cq_a, 1);
        }
        if (p.there[0] != (uint64_t)round)
            shows("the write has completed, and its data is not there");
    }
    return 0;
}
