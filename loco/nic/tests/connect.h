/* How a program brings a queue pair up, and what the two sides of a connection tell each other. */
#ifndef CONNECT_H
#define CONNECT_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "check.h"

/* What each side tells the other. */
struct card {
    uint32_t qpn, rkey;
    uint64_t addr;
    union ibv_gid gid;
};

/* The attributes in which the programs differ. */
struct terms {
    int access, reads, timeout, retries, rnr_retries;
};

static inline struct card card_of(struct ibv_qp *qp, struct ibv_mr *mr) {
    struct card card = {.qpn = qp->qp_num, .rkey = mr->rkey, .addr = (uintptr_t)mr->addr};
    CHECK(!ibv_query_gid(qp->context, 1, 1, &card.gid));
    return card;
}

/* Takes a queue pair to the state in which receives may be posted. */
static inline void init_qp(struct ibv_qp *qp, const struct terms *terms) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = terms->access};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* Takes it on to where it receives, from a queue pair at an address. */
static inline void receive_from(struct ibv_qp *qp, uint32_t to, const union ibv_gid *gid, const struct terms *terms) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = to,
        .max_dest_rd_atomic = terms->reads,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 1}, .port_num = 1},
    };
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

/* Takes it on to where it sends, to the same. */
static inline void send_back(struct ibv_qp *qp, const struct terms *terms) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = terms->timeout,
        .retry_cnt = terms->retries,
        .rnr_retry = terms->rnr_retries,
        .max_rd_atomic = terms->reads,
    };
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Does both. */
static inline void connect_qp(struct ibv_qp *qp, uint32_t to, const union ibv_gid *gid, const struct terms *terms) {
    receive_from(qp, to, gid, terms);
    send_back(qp, terms);
}

/* Waits for a completion, without a look at events, and returns it. */
static inline struct ibv_wc completed(struct ibv_cq *cq) {
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    CHECK(count == 1);
    return wc;
}

#endif
