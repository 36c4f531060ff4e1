/* The source of a write is deregistered when the write is posted.
 * Mended: when the write has completed. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    uint64_t source = 0;
    for (long round = 1; round <= rounds; round++) {
        source = round;
        struct ibv_mr *mr = ibv_reg_mr(p.pd, &source, 8, 0);
        CHECK(mr);
        struct ibv_sge sge = {(uintptr_t)&source, 8, mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = (uintptr_t)p.there;
        wr.wr.rdma.rkey = p.mr_there->rkey;
        CHECK(!ibv_post_send(p.a, &wr, &bad));
        if (mended)
            complete(p.cq_a, 1);
        CHECK(!ibv_dereg_mr(mr));
        if (!mended && completed(p.cq_a).status == IBV_WC_LOC_PROT_ERR)
            shows("the source was gone when the NIC read it");
    }
    return 0;
}
