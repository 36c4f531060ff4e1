/* Data in a region of relaxed ordering; the flag is written when the data's completion is there.
 * Mended: the flag is the immediate value of a write, whose receive announces all data before it. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(IBV_ACCESS_RELAXED_ORDERING, 7);
    for (long round = 1; round <= rounds; round++) {
        for (int word = 0; word < 9; word++)
            p.here[word] = round;
        CHECK(!post_receive(&p, 16, 0));
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 8, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 8, 1, IBV_SEND_SIGNALED));
        if (mended)
            complete(p.cq_b, 1);
        while (p.there[8] != (uint64_t)round)
            let_go(&p);
        for (int word = 0; word < 8; word++)
            if (p.there[word] != (uint64_t)round)
                shows("the flag came before the data, which had completed");
        complete(p.cq_a, 1);
        if (!mended)
            complete(p.cq_b, 1);
    }
    return 0;
}
