/* The source of a write is changed when the write is posted.
 * Mended: it is changed when the write has completed. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        p.here[0] = 2 * round;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        if (mended)
            complete(p.cq_a, 1);
        p.here[0] = 2 * round + 1;
        while (p.there[0] < 2 * (uint64_t)round)
            let_go(&p);
        if (p.there[0] != 2 * (uint64_t)round)
            shows("what the source had after the post has arrived");
        if (!mended)
            complete(p.cq_a, 1);
    }
    return 0;
}
