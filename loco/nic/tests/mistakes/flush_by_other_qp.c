/* A read of another queue pair is believed to push a completed write to memory.
 * Mended: the read is of the write's own queue pair. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    struct ibv_qp *other_a, *other_b;
    make_qps(&p, &other_a, &other_b, 7);
    for (long round = 1; round <= rounds; round++) {
        p.here[0] = round;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        CHECK(!post(&p, mended ? p.a : other_a, IBV_WR_RDMA_READ, 8, 8, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        if (p.there[0] != (uint64_t)round)
            shows("the read has completed, and the data before it is not there");
    }
    return 0;
}
