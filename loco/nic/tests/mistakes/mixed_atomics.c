/* The CPU and the NIC both add to one word.
 * Mended: the CPU adds through the NIC. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    uint64_t added = 0;
    for (long round = 1; round <= rounds; round++) {
        CHECK(!post_atomic(&p, p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0, IBV_SEND_SIGNALED));
        added++;
        if (mended) {
            CHECK(!post_atomic(&p, p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 1, 0, IBV_SEND_SIGNALED));
            added++;
        }
        /* A read of the same queue pair comes after the atomics' writes. */
        CHECK(!post(&p, p.a, IBV_WR_RDMA_READ, 2, 1, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE));
        if (mended) {
            complete(p.cq_a, 3);
        } else {
            struct ibv_wc wc;
            int done = 0;
            while (done < 2) {
                int count = ibv_poll_cq(p.cq_a, 1, &wc);
                CHECK(count == 0 || (count == 1 && wc.status == IBV_WC_SUCCESS));
                done += count;
                __atomic_fetch_add(&p.there[0], 1, __ATOMIC_SEQ_CST);
                added++;
            }
        }
        if (p.there[0] != added)
            shows("an addition is lost");
    }
    return 0;
}
