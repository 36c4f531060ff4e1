/* Calls that programs make of libibverbs, one sort in each case: `PROGRAM CASE`. It exits with 0 if each did what its manual page and the
 * InfiniBand specification say, and with 1 and a line otherwise. The device takes no liberties here, but faults may be asked for. */
#include "../mistakes/pair.h"

enum { MESSAGES = 400 };

static struct ibv_wc ended(struct ibv_cq *cq, enum ibv_wc_status status) {
    struct ibv_wc wc = completed(cq);
    if (wc.status != status) {
        fprintf(stderr, "a completion says %s, not %s\n", ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
        exit(1);
    }
    return wc;
}

static void event(struct pair *p, enum ibv_event_type type, void *element) {
    struct ibv_async_event event;
    CHECK(!ibv_get_async_event(p->context, &event));
    if (event.event_type != type || event.element.qp != element) {
        fprintf(stderr, "the event is: %s\n", ibv_event_type_str(event.event_type));
        exit(1);
    }
    ibv_ack_async_event(&event);
}

static enum ibv_qp_state state(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
    return attr.qp_state;
}

static int is_readable(int fd) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, 0);
}

/* Errors at the requester and at the responder, the flush after them, and the events that go with them. */
static void errors(void) {
    struct pair p = make_pair(0, 0);
    struct ibv_qp *a, *b;

    /* A key that the target has not. */
    uint32_t key = p.mr_there->rkey;
    p.mr_there->rkey = ~key;
    CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, 0));
    p.mr_there->rkey = key;
    CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    ended(p.cq_a, IBV_WC_REM_ACCESS_ERR);
    ended(p.cq_a, IBV_WC_WR_FLUSH_ERR);
    event(&p, IBV_EVENT_QP_ACCESS_ERR, p.b);
    CHECK(state(p.a) == IBV_QPS_ERR && state(p.b) == IBV_QPS_ERR);
    CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, 0));
    ended(p.cq_a, IBV_WC_WR_FLUSH_ERR);

    /* A key that this side has not. */
    make_qps(&p, &a, &b, 0);
    key = p.mr_here->lkey;
    p.mr_here->lkey = ~key;
    CHECK(!post(&p, a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    p.mr_here->lkey = key;
    ended(p.cq_a, IBV_WC_LOC_PROT_ERR);

    /* A message that is longer than its receive, of which a second one is flushed. */
    make_qps(&p, &a, &b, 0);
    p.b = b;
    CHECK(!post_receive(&p, 0, 1));
    CHECK(!post_receive(&p, 0, 1));
    CHECK(!post(&p, a, IBV_WR_SEND, 0, 0, 2, IBV_SEND_SIGNALED));
    ended(p.cq_a, IBV_WC_REM_INV_REQ_ERR);
    ended(p.cq_b, IBV_WC_LOC_LEN_ERR);
    ended(p.cq_b, IBV_WC_WR_FLUSH_ERR);
    event(&p, IBV_EVENT_QP_REQ_ERR, b);

    /* No receive, and nobody tries again. */
    make_qps(&p, &a, &b, 0);
    CHECK(!post(&p, a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
    ended(p.cq_a, IBV_WC_RNR_RETRY_EXC_ERR);

    /* No receive, and the sender tries without end, until there is one. */
    make_qps(&p, &a, &b, 7);
    p.b = b;
    CHECK(!post(&p, a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
    let_go(&p);
    CHECK(!post_receive(&p, 0, 1));
    ended(p.cq_a, IBV_WC_SUCCESS);
    ended(p.cq_b, IBV_WC_SUCCESS);

    /* A target that is gone. */
    make_qps(&p, &a, &b, 7);
    CHECK(!ibv_destroy_qp(b));
    CHECK(!post(&p, a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    ended(p.cq_a, IBV_WC_RETRY_EXC_ERR);
    CHECK(!is_readable(p.context->async_fd));
}

/* Events for solicited messages only. What is in the queue has given its event, or will give none. */
static void solicited(void) {
    struct pair p = make_pair(0, 7);
    void *with;
    struct ibv_cq *cq;
    for (int round = 0; round < 50; round++) {
        CHECK(!ibv_req_notify_cq(p.cq_b, 1));
        CHECK(!post_receive(&p, 0, 1) && !post_receive(&p, 0, 1));
        CHECK(!post(&p, p.a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        complete(p.cq_b, 1);
        CHECK(!is_readable(p.channel->fd));
        CHECK(!post(&p, p.a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
        CHECK(!ibv_get_cq_event(p.channel, &cq, &with) && cq == p.cq_b);
        ibv_ack_cq_events(cq, 1);
        complete(p.cq_a, 1);
        complete(p.cq_b, 1);
    }
    /* A failure counts as solicited. */
    CHECK(!ibv_req_notify_cq(p.cq_b, 1) && !post_receive(&p, 0, 1));
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(!ibv_modify_qp(p.b, &attr, IBV_QP_STATE));
    CHECK(!ibv_get_cq_event(p.channel, &cq, &with));
    ibv_ack_cq_events(cq, 1);
    ended(p.cq_b, IBV_WC_WR_FLUSH_ERR);
}

/* A send queue that is drained, and then goes on. */
static void drained(void) {
    struct pair p = make_pair(0, 7);
    struct ibv_wc wc;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1}, found;
    struct ibv_qp_init_attr init;
    for (int round = 0; round < 20; round++) {
        for (int write = 0; write < 16; write++)
            CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, WORDS, IBV_SEND_SIGNALED));
        attr.qp_state = IBV_QPS_SQD;
        CHECK(!ibv_modify_qp(p.a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
        event(&p, IBV_EVENT_SQ_DRAINED, p.a);
        CHECK(!ibv_query_qp(p.a, &found, IBV_QP_STATE, &init));
        CHECK(found.qp_state == IBV_QPS_SQD && !found.sq_draining);
        /* With stress, requests may not have begun, and those wait; the completions of others may come after the event. */
        int ended = 0;
        while (ended < 16 && ibv_poll_cq(p.cq_a, 1, &wc) == 1) {
            CHECK(wc.status == IBV_WC_SUCCESS);
            ended++;
        }
        CHECK(ended == 16 || strcmp(getenv("LOCO_NIC_STRESS"), "none"));
        /* What is posted now waits. */
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        for (int look = 0; look < 100; look++) {
            int count = ibv_poll_cq(p.cq_a, 1, &wc);
            CHECK(count >= 0 && (ended += count) <= 16);
            let_go(&p);
        }
        attr.qp_state = IBV_QPS_RTS;
        CHECK(!ibv_modify_qp(p.a, &attr, IBV_QP_STATE));
        complete(p.cq_a, 16 - ended + 1);
    }
    /* Nobody asked for this one. */
    attr.qp_state = IBV_QPS_SQD;
    CHECK(!ibv_modify_qp(p.a, &attr, IBV_QP_STATE));
    CHECK(!is_readable(p.context->async_fd));
}

/* A peer whose first message comes before its queue pair here sends: while that is in INIT or in RTR, or when it is in RTS already. */
static void established(void) {
    struct pair p = make_pair(0, 7);
    struct terms terms = {.access = IBV_ACCESS_REMOTE_WRITE, .reads = 1, .timeout = 14, .retries = 7, .rnr_retries = 7};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    union ibv_gid gid;
    CHECK(!ibv_query_gid(p.context, 1, 1, &gid));
    for (enum ibv_qp_state at = IBV_QPS_INIT; at <= IBV_QPS_RTS; at++) {
        CHECK(!ibv_modify_qp(p.b, &attr, IBV_QP_STATE));
        init_qp(p.b, &terms);
        if (at == IBV_QPS_INIT)
            CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        receive_from(p.b, p.a->qp_num, &gid, &terms);
        if (at == IBV_QPS_RTR)
            CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        if (at == IBV_QPS_RTS)
            send_back(p.b, &terms);
        else
            event(&p, IBV_EVENT_COMM_EST, p.b);
        /* There is one event, whatever comes after it. */
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, at == IBV_QPS_RTS ? 1 : 2);
        CHECK(!is_readable(p.context->async_fd));
    }
}

/* Sends nothing into receives that have been posted, and then into one without memory. */
static void complete_empty(struct pair *p, struct ibv_qp *from, struct ibv_srq *srq) {
    struct ibv_sge nowhere = {0, 256, 0};
    struct ibv_recv_wr wr = {.wr_id = 4, .sg_list = &nowhere, .num_sge = 1}, *bad;
    CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
    for (uint64_t at = 2; at <= 4; at++) {
        CHECK(!post(p, from, IBV_WR_SEND, 0, 0, 0, IBV_SEND_SIGNALED));
        complete(p->cq_a, 1);
        struct ibv_wc wc = ended(p->cq_b, IBV_WC_SUCCESS);
        CHECK(wc.wr_id == at && wc.byte_len == 0);
    }
}

/* A shared receive queue: its limit, its last request, and two queue pairs that take from it. */
static void shared(void) {
    struct pair p = make_pair(0, 7);
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(p.pd, &srq_init);
    CHECK(srq);
    struct ibv_qp_init_attr init = {
        .send_cq = p.cq_b, .recv_cq = p.cq_b, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 4, .max_send_sge = 1}};
    struct ibv_qp *from[2], *to[2];
    union ibv_gid gid;
    CHECK(!ibv_query_gid(p.context, 1, 1, &gid));
    for (int at = 0; at < 2; at++) {
        struct ibv_qp *unused;
        make_qps(&p, &from[at], &unused, 7);
        CHECK(to[at] = ibv_create_qp(p.pd, &init));
        CHECK(!ibv_destroy_qp(unused));
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
        CHECK(!ibv_modify_qp(from[at], &attr, IBV_QP_STATE));
        connect_to(from[at], to[at], &gid, 7);
        connect_to(to[at], from[at], &gid, 7);
    }
    struct ibv_sge sge = {(uintptr_t)p.there, 8, p.mr_there->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    for (wr.wr_id = 0; wr.wr_id < 4; wr.wr_id++)
        CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
    struct ibv_srq_attr attr = {.srq_limit = 3};
    CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
    for (int at = 0; at < 2; at++) {
        CHECK(!post(&p, from[at], IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        CHECK(ended(p.cq_b, IBV_WC_SUCCESS).wr_id == (uint64_t)at);
        CHECK(is_readable(p.context->async_fd) == at);
    }
    event(&p, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
    /* A message without bytes needs no memory: nobody looks at the key of a receive that nothing goes to. */
    complete_empty(&p, from[0], srq);
    CHECK(!ibv_query_srq(srq, &attr) && attr.srq_limit == 0 && attr.max_wr >= 16);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    CHECK(!ibv_modify_qp(to[0], &error, IBV_QP_STATE));
    event(&p, IBV_EVENT_QP_LAST_WQE_REACHED, to[0]);
    CHECK(ibv_destroy_srq(srq) == EBUSY);
    CHECK(!ibv_destroy_qp(to[0]) && !ibv_destroy_qp(to[1]) && !ibv_destroy_srq(srq));
}

/* The builders of requests (`ibv_wr_start` and the rest), with an extended completion queue. */
static void builders(void) {
    struct pair p = make_pair(0, 7);
    struct ibv_cq_init_attr_ex cq_init = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(p.context, &cq_init);
    CHECK(cq);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = ibv_cq_ex_to_cq(cq),
        .recv_cq = ibv_cq_ex_to_cq(cq),
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = p.pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                          IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };
    struct ibv_qp *base = ibv_create_qp_ex(p.context, &init);
    CHECK(base);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(base);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    union ibv_gid gid;
    CHECK(!ibv_query_gid(p.context, 1, 1, &gid) && !ibv_modify_qp(p.b, &reset, IBV_QP_STATE));
    connect_to(base, p.b, &gid, 7);
    connect_to(p.b, base, &gid, 7);
    for (int receive = 0; receive < 3; receive++)
        CHECK(!post_receive(&p, 64, 1));

    uint32_t lkey = p.mr_here->lkey, rkey = p.mr_there->rkey;
    uint64_t here = (uintptr_t)p.here, there = (uintptr_t)p.there, word = 5, other = 6;
    p.here[0] = 1, p.here[1] = 2, p.here[2] = 3, p.there[7] = 40;
    /* What is given up is not posted. */
    ibv_wr_start(qp);
    ibv_wr_rdma_write(qp, rkey, there + 8 * 20);
    ibv_wr_set_sge(qp, lkey, here, 8);
    ibv_wr_abort(qp);

    ibv_wr_start(qp);
    qp->wr_id = 0, qp->wr_flags = 0;
    ibv_wr_rdma_write(qp, rkey, there);
    struct ibv_sge list[2] = {{here + 16, 8, lkey}, {here, 8, lkey}};
    ibv_wr_set_sge_list(qp, 2, list);
    qp->wr_id = 1;
    ibv_wr_rdma_write(qp, rkey, there + 16);
    ibv_wr_set_inline_data(qp, &word, 8);
    word = 0; /* Inline data are copied. */
    qp->wr_id = 2;
    ibv_wr_rdma_write_imm(qp, rkey, there + 24, htobe32(77));
    struct ibv_data_buf buffers[2] = {{&other, 8}, {&other, 8}};
    ibv_wr_set_inline_data_list(qp, 2, buffers);
    qp->wr_id = 3;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, lkey, here, 8);
    qp->wr_id = 4;
    ibv_wr_send_imm(qp, htobe32(78));
    ibv_wr_set_sge(qp, lkey, here + 8, 8);
    qp->wr_id = 5;
    ibv_wr_rdma_read(qp, rkey, there + 8 * 7);
    ibv_wr_set_sge(qp, lkey, here + 8 * 30, 8);
    qp->wr_id = 6;
    ibv_wr_atomic_fetch_add(qp, rkey, there + 8 * 7, 2);
    ibv_wr_set_sge(qp, lkey, here + 8 * 31, 8);
    qp->wr_id = 7, qp->wr_flags = IBV_SEND_FENCE;
    ibv_wr_atomic_cmp_swp(qp, rkey, there + 8 * 7, 42, 50);
    ibv_wr_set_sge(qp, lkey, here + 8 * 32, 8);
    CHECK(!ibv_wr_complete(qp));

    enum ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
                                    IBV_WC_SEND,       IBV_WC_RDMA_READ,  IBV_WC_FETCH_ADD,  IBV_WC_COMP_SWAP};
    struct ibv_poll_cq_attr nothing = {0};
    for (uint64_t seen = 0; seen < 8;) {
        int answer = ibv_start_poll(cq, &nothing);
        if (answer == ENOENT)
            continue;
        CHECK(!answer);
        do {
            CHECK(cq->wr_id == seen && cq->status == IBV_WC_SUCCESS);
            CHECK(ibv_wc_read_opcode(cq) == opcodes[seen] && ibv_wc_read_qp_num(cq) == base->qp_num);
            seen++;
        } while (!(answer = ibv_next_poll(cq)));
        CHECK(answer == ENOENT);
        ibv_end_poll(cq);
    }
    struct ibv_wc wc = ended(p.cq_b, IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && be32toh(wc.imm_data) == 77 && wc.byte_len == 16);
    CHECK(ended(p.cq_b, IBV_WC_SUCCESS).opcode == IBV_WC_RECV);
    wc = ended(p.cq_b, IBV_WC_SUCCESS);
    CHECK(wc.wc_flags & IBV_WC_WITH_IMM && be32toh(wc.imm_data) == 78);
    uint64_t expected[] = {3, 1, 5, 6, 6};
    for (int at = 0; at < 5; at++)
        CHECK(p.there[at] == expected[at]);
    CHECK(p.there[20] == 0 && p.there[64] == 2 && p.there[7] == 50);
    CHECK(p.here[30] == 40 && p.here[31] == 40 && p.here[32] == 42);
}

static void refused_call(const char *name, int answer) {
    if (answer != EOPNOTSUPP) {
        fprintf(stderr, "%s: %d, not EOPNOTSUPP\n", name, answer);
        exit(1);
    }
}

/* Requests that are not supported, and a table of GIDs without room for all. */
static void refused(void) {
    struct pair p = make_pair(0, 7);
#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        refused_call(#call, (call) ? 0 : errno);                                                                       \
    } while (0)
    REFUSED(ibv_reg_dmabuf_mr(p.pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
    REFUSED(ibv_open_xrcd(p.context, &xrcd));
    struct ibv_qp_init_attr init = {
        .send_cq = p.cq_a, .recv_cq = p.cq_a, .qp_type = IBV_QPT_XRC_SEND, .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    REFUSED(ibv_create_qp(p.pd, &init));
    init.qp_type = IBV_QPT_RAW_PACKET;
    REFUSED(ibv_create_qp(p.pd, &init));
    struct ibv_srq_init_attr_ex srq = {
        .attr = {.max_wr = 1, .max_sge = 1}, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_XRC};
    REFUSED(ibv_create_srq_ex(p.context, &srq));
    REFUSED(ibv_alloc_mw(p.pd, IBV_MW_TYPE_1));
    struct ibv_alloc_dm_attr dm = {.length = 64};
    REFUSED(ibv_alloc_dm(p.context, &dm));
    struct ibv_td_init_attr td = {0};
    REFUSED(ibv_alloc_td(p.context, &td));
    struct ibv_flow_attr flow = {.size = sizeof flow, .port = 1};
    REFUSED(ibv_create_flow(p.a, &flow));
    REFUSED(ibv_reg_mr(p.pd, (void *)p.here, 8, IBV_ACCESS_ON_DEMAND));
    union ibv_gid gid;
    CHECK(!ibv_query_gid(p.context, 1, 1, &gid));
    refused_call("ibv_attach_mcast", ibv_attach_mcast(p.a, &gid, 0));
    struct ibv_gid_entry entries[8];
    CHECK(ibv_query_gid_table(p.context, entries, 1, 0) == -EINVAL);
    CHECK(ibv_query_gid_table(p.context, entries, 8, 0) == 2);
    /* What is refused has changed nothing. */
    CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    complete(p.cq_a, 1);
}

/* Datagrams beside reliable messages. Prints how many of the datagrams have come. A message is sent behind each of them on the same
 * link, which loses none, so that a datagram that has not come before the message is lost. */
static void datagrams(void) {
    struct pair p = make_pair(0, 7);
    struct ibv_cq *cq = ibv_create_cq(p.context, 4, NULL, NULL, 0), *sent = ibv_create_cq(p.context, 4, NULL, NULL, 0);
    CHECK(cq && sent);
    struct ibv_qp_init_attr init = {.send_cq = sent,
                                    .recv_cq = cq,
                                    .qp_type = IBV_QPT_UD,
                                    .cap = {.max_send_wr = 1, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp[2];
    for (int at = 0; at < 2; at++) {
        CHECK(qp[at] = ibv_create_qp(p.pd, &init));
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 5};
        CHECK(!ibv_modify_qp(qp[at], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
        attr.qp_state = IBV_QPS_RTR;
        CHECK(!ibv_modify_qp(qp[at], &attr, IBV_QP_STATE));
        attr.qp_state = IBV_QPS_RTS;
        CHECK(!ibv_modify_qp(qp[at], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    }
    struct ibv_ah_attr address = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 1}};
    CHECK(!ibv_query_gid(p.context, 1, 1, &address.grh.dgid));
    struct ibv_ah *ah = ibv_create_ah(p.pd, &address);
    CHECK(ah);
    struct ibv_sge sge = {(uintptr_t)p.here, 8, p.mr_here->lkey}, room = {(uintptr_t)p.there, 48, p.mr_there->lkey};
    struct ibv_recv_wr receive = {.sg_list = &room, .num_sge = 1}, *bad_receive;
    int came = 0, has_receive = 0;
    for (int message = 0; message < MESSAGES; message++) {
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
        wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = qp[1]->qp_num, wr.wr.ud.remote_qkey = 5;
        p.here[0] = message + 1;
        if (!has_receive)
            CHECK(!ibv_post_recv(qp[1], &receive, &bad_receive));
        has_receive = 1;
        CHECK(!ibv_post_send(qp[0], &wr, &bad));
        complete(sent, 1);
        CHECK(!post_receive(&p, 16, 1) && !post(&p, p.a, IBV_WR_SEND, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        complete(p.cq_b, 1);
        CHECK(p.there[16] == (uint64_t)message + 1);
        struct ibv_wc wc;
        if (ibv_poll_cq(cq, 1, &wc) == 0)
            continue;
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_GRH && wc.byte_len == 48 && wc.src_qp == qp[0]->qp_num);
        CHECK(p.there[5] == (uint64_t)message + 1);
        came++, has_receive = 0;
    }
    printf("%d of %d\n", came, MESSAGES);
}

/* Writes until something breaks, looks at what a program and its peer are told of it, and begins again with new queue pairs, of which
 * some may be killed, too. Prints how many writes came before, and the status with which the first write of the last new queue pair
 * ends. */
static void broken(enum ibv_wc_status status) {
    struct pair p = make_pair(0, 7);
    struct ibv_wc wc;
    long writes = 0;
    do {
        p.here[0] = writes + 1;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        CHECK(!post(&p, p.a, IBV_WR_RDMA_READ, 0, 8, 1, IBV_SEND_SIGNALED));
        wc = completed(p.cq_a);
        if (wc.status == IBV_WC_SUCCESS) {
            CHECK(p.there[0] == (uint64_t)writes + 1);
            wc = completed(p.cq_a);
        }
        writes++;
    } while (wc.status == IBV_WC_SUCCESS && writes < 1000000);
    CHECK(wc.status == status);
    /* A failed write has a read behind it, which is flushed. */
    while (ibv_poll_cq(p.cq_a, 1, &wc) == 1)
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(state(p.a) == IBV_QPS_ERR);
    if (status == IBV_WC_WR_FLUSH_ERR) {
        event(&p, IBV_EVENT_QP_FATAL, p.a);
        /* The peer learns it from its next request, and in no other way. */
        CHECK(state(p.b) == IBV_QPS_RTS);
        CHECK(!post(&p, p.b, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        wc = completed(p.cq_b);
        if (wc.status == IBV_WC_WR_FLUSH_ERR)
            /* It is killed, too. */
            event(&p, IBV_EVENT_QP_FATAL, p.b);
        else
            CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
    }
    CHECK(!is_readable(p.context->async_fd));
    struct ibv_qp *a, *b;
    int pairs = 5;
    do {
        make_qps(&p, &a, &b, 7);
        CHECK(!post(&p, a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        wc = completed(p.cq_a);
    } while (wc.status == IBV_WC_WR_FLUSH_ERR && --pairs);
    printf("%ld, then %s\n", writes, ibv_wc_status_str(wc.status));
}

/* Writes more at a time than a link takes. Prints how many of the writes succeed. */
static void crowded(void) {
    enum { LENGTH = 4 << 20, WRITES = 12 };
    struct pair p = make_pair(0, 7);
    char *from = calloc(1, LENGTH), *to = calloc(1, LENGTH);
    CHECK(from && to);
    struct ibv_mr *mr_from = ibv_reg_mr(p.pd, from, LENGTH, 0);
    struct ibv_mr *mr_to = ibv_reg_mr(p.pd, to, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr_from && mr_to);
    struct ibv_sge sge = {(uintptr_t)from, LENGTH, mr_from->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)to;
    wr.wr.rdma.rkey = mr_to->rkey;
    for (int write = 0; write < WRITES; write++)
        CHECK(!ibv_post_send(p.a, &wr, &bad));
    int done = 0;
    for (int write = 0; write < WRITES; write++)
        done += completed(p.cq_a).status == IBV_WC_SUCCESS;
    printf("%d of %d\n", done, WRITES);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *which = argv[1];
    if (!strcmp(which, "errors"))
        errors();
    else if (!strcmp(which, "solicited"))
        solicited();
    else if (!strcmp(which, "drained"))
        drained();
    else if (!strcmp(which, "established"))
        established();
    else if (!strcmp(which, "shared"))
        shared();
    else if (!strcmp(which, "builders"))
        builders();
    else if (!strcmp(which, "refused"))
        refused();
    else if (!strcmp(which, "datagrams"))
        datagrams();
    else if (!strcmp(which, "killed-queue-pair"))
        broken(IBV_WC_WR_FLUSH_ERR);
    else if (!strcmp(which, "lost-link"))
        broken(IBV_WC_RETRY_EXC_ERR);
    else if (!strcmp(which, "crowded-link"))
        crowded();
    else
        CHECK(!"a case of this name");
    return 0;
}
