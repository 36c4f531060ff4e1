/* Two queue pairs of one process, connected to each other: `a` posts, and the memory that it writes is looked at by the CPU.
 *
 * A program is run as `PROGRAM mistake ROUNDS` or `PROGRAM mended ROUNDS`. It exits with 0 if every round went as a programmer who
 * made the mistake believes, with 3 as soon as one did not, and with 1 if something else fails. */
#ifndef PAIR_H
#define PAIR_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../connect.h"

enum { WORDS = 512, DEPTH = 64 };

struct pair {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq_a, *cq_b;
    struct ibv_qp *a, *b;
    /* `here` is the memory of `a`, `there` that of `b`. */
    volatile uint64_t *here, *there;
    struct ibv_mr *mr_here, *mr_there;
};

static int mended;
static long rounds;

static inline void arguments(int argc, char **argv) {
    CHECK(argc == 3);
    mended = strcmp(argv[1], "mended") == 0;
    rounds = atol(argv[2]);
}

/* Ends the program: the mistake shows. */
static inline void shows(const char *what) {
    printf("%s\n", what);
    exit(3);
}

/* Connects a queue pair with another of this process. */
static inline void connect_to(struct ibv_qp *qp, struct ibv_qp *to, const union ibv_gid *gid, int rnr_retry) {
    struct terms terms = {
        .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .reads = 4,
        .timeout = 14,
        .retries = 7,
        .rnr_retries = rnr_retry,
    };
    init_qp(qp, &terms);
    connect_qp(qp, to->qp_num, gid, &terms);
}

/* Makes two connected queue pairs, which use the completion queues. */
static inline void make_qps(struct pair *p, struct ibv_qp **a, struct ibv_qp **b, int rnr_retry) {
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
    };
    union ibv_gid gid;
    CHECK(!ibv_query_gid(p->context, 1, 1, &gid));
    init.send_cq = init.recv_cq = p->cq_a;
    CHECK(*a = ibv_create_qp(p->pd, &init));
    init.send_cq = init.recv_cq = p->cq_b;
    CHECK(*b = ibv_create_qp(p->pd, &init));
    connect_to(*a, *b, &gid, rnr_retry);
    connect_to(*b, *a, &gid, rnr_retry);
}

static inline struct pair make_pair(int there_flags, int rnr_retry) {
    struct pair p;
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    CHECK(p.context = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    CHECK(p.pd = ibv_alloc_pd(p.context));
    CHECK(p.channel = ibv_create_comp_channel(p.context));
    CHECK(p.cq_a = ibv_create_cq(p.context, 4 * DEPTH, NULL, NULL, 0));
    CHECK(p.cq_b = ibv_create_cq(p.context, 4 * DEPTH, NULL, p.channel, 0));
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    CHECK(p.here = aligned_alloc(64, WORDS * 8));
    CHECK(p.there = aligned_alloc(64, WORDS * 8));
    memset((void *)p.here, 0, WORDS * 8);
    memset((void *)p.there, 0, WORDS * 8);
    CHECK(p.mr_here = ibv_reg_mr(p.pd, (void *)p.here, WORDS * 8, all));
    CHECK(p.mr_there = ibv_reg_mr(p.pd, (void *)p.there, WORDS * 8, all | there_flags));
    make_qps(&p, &p.a, &p.b, rnr_retry);
    return p;
}

/* Posts an operation on words of `here` from `from`, and words of `there` from `to`. Returns the error. */
static inline int post(struct pair *p, struct ibv_qp *qp, enum ibv_wr_opcode opcode, int from, int to, int words,
                       int flags) {
    struct ibv_sge sge = {(uintptr_t)(p->here + from), words * 8, p->mr_here->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)(p->there + to);
    wr.wr.rdma.rkey = p->mr_there->rkey;
    return ibv_post_send(qp, &wr, &bad);
}

static inline int post_atomic(struct pair *p, struct ibv_qp *qp, enum ibv_wr_opcode opcode, int from, int to,
                              uint64_t compare_add, uint64_t swap, int flags) {
    struct ibv_sge sge = {(uintptr_t)(p->here + from), 8, p->mr_here->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags}, *bad;
    wr.wr.atomic.remote_addr = (uintptr_t)(p->there + to);
    wr.wr.atomic.rkey = p->mr_there->rkey;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    return ibv_post_send(qp, &wr, &bad);
}

static inline int post_receive(struct pair *p, int to, int words) {
    struct ibv_sge sge = {(uintptr_t)(p->there + to), words * 8, p->mr_there->lkey};
    struct ibv_recv_wr wr = {.sg_list = words ? &sge : NULL, .num_sge = words ? 1 : 0}, *bad;
    return ibv_post_recv(p->b, &wr, &bad);
}

/* Waits for so many completions, which must be successes. */
static inline void complete(struct ibv_cq *cq, int count) {
    while (count-- > 0) {
        struct ibv_wc wc = completed(cq);
        if (wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "a completion says %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
    }
}

/* Gives the NIC time, as a program that polls does. */
static inline void let_go(struct pair *p) {
    struct ibv_wc wc;
    CHECK(ibv_poll_cq(p->cq_b, 0, &wc) == 0);
    __asm__ volatile("" ::: "memory");
}

#endif
