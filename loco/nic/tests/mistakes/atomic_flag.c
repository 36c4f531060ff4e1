/* Data by a write, then an atomic as the flag: that is ordered where only writes and reads are not, and not where nothing is.
 * Mended: the atomic is posted when the data's completion is there. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        for (int word = 0; word < 8; word++)
            p.here[word] = round;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 8, IBV_SEND_SIGNALED));
        if (mended)
            complete(p.cq_a, 1);
        CHECK(!post_atomic(&p, p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, 8, 1, 0, IBV_SEND_SIGNALED));
        while (p.there[8] != (uint64_t)round)
            let_go(&p);
        for (int word = 0; word < 8; word++)
            if (p.there[word] != (uint64_t)round)
                shows("the atomic came before the data");
        complete(p.cq_a, mended ? 1 : 2);
    }
    return 0;
}
