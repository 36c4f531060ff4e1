/* Data is read under a lock, which is released by the next request. The next owner changes the data.
 * Mended: the release has the fence flag. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        p.there[0] = 1; /* the lock, which `a` has */
        p.there[1] = round;
        p.here[0] = 0;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_READ, 1, 1, 1, IBV_SEND_SIGNALED));
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED | (mended ? IBV_SEND_FENCE : 0)));
        while (p.there[0] != 0)
            let_go(&p);
        p.there[1] = 0; /* the next owner */
        complete(p.cq_a, 2);
        if (p.here[1] != (uint64_t)round)
            shows("the read has the next owner's data");
    }
    return 0;
}
