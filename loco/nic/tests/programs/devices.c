/* Several devices of one process: each has a name, a GUID and GIDs of its own, what is made of one is not used with another, and their queue
 * pairs reach one another. It is run as `PROGRAM COUNT`, where there are so many devices, and exits with 0 if all of that is so. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

#include "../connect.h"

enum { DEPTH = 4, WORDS = 8, MOST = 8, QKEY = 17, GRH = 40 };

/* What a program makes of an opened device. */
struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    union ibv_gid gid;
    uint64_t memory[WORDS];
};

static void open_side(struct side *s, struct ibv_device *device) {
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
    CHECK(s->context = ibv_open_device(device));
    CHECK(s->context->device == device);
    CHECK(s->pd = ibv_alloc_pd(s->context));
    CHECK(s->channel = ibv_create_comp_channel(s->context));
    CHECK(s->cq = ibv_create_cq(s->context, DEPTH, NULL, s->channel, 0));
    CHECK(s->srq = ibv_create_srq(s->pd, &shared));
    CHECK(s->mr = ibv_reg_mr(s->pd, s->memory, sizeof s->memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    CHECK(!ibv_query_gid(s->context, 1, 1, &s->gid));
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, struct ibv_srq *srq,
                              enum ibv_qp_type type) {
    struct ibv_qp_init_attr init = {
        .qp_type = type,
        .send_cq = send_cq,
        .recv_cq = recv_cq,
        .srq = srq,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return ibv_create_qp(pd, &init);
}

static void is_invalid(const char *what, const void *object) {
    if (object || errno != EINVAL) {
        fprintf(stderr, "%s: %s\n", what, object ? "it is made" : strerror(errno));
        exit(1);
    }
}

static void are_distinct(struct ibv_device **list, struct side *sides, int count) {
    char name[IBV_SYSFS_NAME_MAX];
    for (int one = 0; one < count; one++) {
        struct ibv_device_attr attr;
        snprintf(name, sizeof name, "loco%d", one);
        CHECK(strcmp(ibv_get_device_name(list[one]), name) == 0);
        CHECK(ibv_get_device_index(list[one]) == one);
        CHECK(!ibv_query_device(sides[one].context, &attr));
        CHECK(attr.node_guid == ibv_get_device_guid(list[one]));
        for (int other = 0; other < one; other++) {
            CHECK(ibv_get_device_guid(list[one]) != ibv_get_device_guid(list[other]));
            for (int index = 0; index < 2; index++) {
                union ibv_gid first, second;
                CHECK(!ibv_query_gid(sides[one].context, 1, index, &first));
                CHECK(!ibv_query_gid(sides[other].context, 1, index, &second));
                CHECK(memcmp(&first, &second, sizeof first) != 0);
            }
        }
    }
}

/* All devices have as many queue pairs as they say, at once. */
static void have_queue_pairs(struct side *sides, int count) {
    enum { MOST_QPS = 1 << 12 };
    static struct ibv_qp *made[MOST_QPS];
    int total = 0;
    for (int one = 0; one < count; one++) {
        struct ibv_device_attr attr;
        CHECK(!ibv_query_device(sides[one].context, &attr) && attr.max_qp > 0);
        for (int at = 0; at < attr.max_qp; at++) {
            CHECK(total < MOST_QPS);
            CHECK(made[total++] = make_qp(sides[one].pd, sides[one].cq, sides[one].cq, NULL, IBV_QPT_RC));
        }
    }
    while (total > 0)
        CHECK(!ibv_destroy_qp(made[--total]));
}

/* Tries to make objects of those of two opened devices, be they of one device or of two. */
static void do_not_mix(struct side *one, struct side *other) {
    is_invalid("a domain with another's send queue", make_qp(one->pd, other->cq, one->cq, NULL, IBV_QPT_RC));
    is_invalid("a domain with another's receive queue", make_qp(one->pd, one->cq, other->cq, NULL, IBV_QPT_RC));
    is_invalid("a domain with another's shared queue", make_qp(one->pd, one->cq, one->cq, other->srq, IBV_QPT_RC));
    is_invalid("a queue with another's channel", ibv_create_cq(one->context, DEPTH, NULL, other->channel, 0));
    errno = 0;
    CHECK(ibv_rereg_mr(one->mr, IBV_REREG_MR_CHANGE_PD, other->pd, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
    CHECK(one->mr->pd == one->pd);
    /* With the domain alone, or a plain queue, rdma-core's inline functions call the functions without `_ex`. */
    struct ibv_qp_init_attr_ex extended = {
        .qp_type = IBV_QPT_RC,
        .send_cq = other->cq,
        .recv_cq = other->cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND,
        .pd = other->pd,
    };
    errno = 0;
    is_invalid("an extended queue pair of another's objects", ibv_create_qp_ex(one->context, &extended));
    struct ibv_qp *qp = ibv_create_qp_ex(other->context, &extended);
    CHECK(qp && !ibv_destroy_qp(qp));
    struct ibv_srq_init_attr_ex shared = {
        .attr = {.max_wr = 1, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
        .srq_type = IBV_SRQT_BASIC,
        .pd = other->pd,
    };
    struct verbs_context *of_one = verbs_get_ctx_op(one->context, create_srq_ex);
    CHECK(of_one);
    errno = 0;
    is_invalid("an extended shared queue of another's domain", of_one->create_srq_ex(one->context, &shared));
    struct ibv_srq *srq = of_one->create_srq_ex(other->context, &shared);
    CHECK(srq && !ibv_destroy_srq(srq));
}

/* Writes from a device into the memory of another, and not with the key of a third domain. */
static void reach_one_another(struct side *from, struct side *to) {
    struct terms terms = {.access = IBV_ACCESS_REMOTE_WRITE, .reads = 1, .timeout = 14, .retries = 7, .rnr_retries = 7};
    struct ibv_qp *a = make_qp(from->pd, from->cq, from->cq, NULL, IBV_QPT_RC);
    struct ibv_qp *b = make_qp(to->pd, to->cq, to->cq, NULL, IBV_QPT_RC);
    CHECK(a && b);
    init_qp(a, &terms);
    init_qp(b, &terms);
    connect_qp(a, b->qp_num, &to->gid, &terms);
    connect_qp(b, a->qp_num, &from->gid, &terms);
    uint64_t written = from->memory[0] = (uint64_t)a->qp_num << 32 | b->qp_num;
    struct ibv_sge sge = {(uintptr_t)from->memory, 8, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)(to->memory + 1);
    wr.wr.rdma.rkey = to->mr->rkey;
    CHECK(!ibv_post_send(a, &wr, &bad));
    CHECK(completed(from->cq).status == IBV_WC_SUCCESS);
    CHECK(*(volatile uint64_t *)&to->memory[1] == written);
    if (from != to) {
        wr.wr.rdma.remote_addr = (uintptr_t)from->memory;
        wr.wr.rdma.rkey = from->mr->rkey;
        CHECK(!ibv_post_send(a, &wr, &bad));
        CHECK(completed(from->cq).status == IBV_WC_REM_ACCESS_ERR);
    }
    CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

/* Writes to a queue pair by a GID that its device does not have: a reliable queue pair gets no answer, and an unreliable one does not know
 * that nothing arrives. */
static void go_where_the_gid_is(struct side *from, struct side *to, const union ibv_gid *elsewhere) {
    struct terms terms = {.access = IBV_ACCESS_REMOTE_WRITE, .reads = 1, .timeout = 8, .retries = 1};
    struct ibv_sge sge = {(uintptr_t)from->memory, 8, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)(to->memory + 2);
    wr.wr.rdma.rkey = to->mr->rkey;
    from->memory[0] = 1;
    to->memory[2] = 0;
    enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};
    for (int at = 0; at < 2; at++) {
        struct ibv_qp *a = make_qp(from->pd, from->cq, from->cq, NULL, types[at]);
        struct ibv_qp *b = make_qp(to->pd, to->cq, to->cq, NULL, types[at]);
        CHECK(a && b);
        init_qp(a, &terms);
        init_qp(b, &terms);
        struct ibv_qp_attr attr = {
            .qp_state = IBV_QPS_RTR,
            .path_mtu = IBV_MTU_1024,
            .ah_attr = {.is_global = 1, .grh = {.sgid_index = 1, .hop_limit = 1}, .port_num = 1},
        };
        int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if (types[at] == IBV_QPT_RC)
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        attr.dest_qp_num = b->qp_num;
        attr.ah_attr.grh.dgid = *elsewhere;
        CHECK(!ibv_modify_qp(a, &attr, mask));
        attr.dest_qp_num = a->qp_num;
        attr.ah_attr.grh.dgid = from->gid;
        CHECK(!ibv_modify_qp(b, &attr, mask));
        if (types[at] == IBV_QPT_RC) {
            send_back(a, &terms);
        } else {
            attr.qp_state = IBV_QPS_RTS;
            CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
        }
        CHECK(!ibv_post_send(a, &wr, &bad));
        CHECK(completed(from->cq).status == (types[at] == IBV_QPT_RC ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
        CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
    }
    /* What is written by the right GID goes the same way, behind both. */
    reach_one_another(from, to);
    CHECK(*(volatile uint64_t *)&to->memory[2] == 0);
}

/* Sends a datagram, which says from which device it came, and not with the address handle of another device. One to another GID than the
 * receiver's does not arrive. */
static void say_who_they_are(struct side *from, struct side *to) {
    struct ibv_qp *a = make_qp(from->pd, from->cq, from->cq, NULL, IBV_QPT_UD);
    struct ibv_qp *b = make_qp(to->pd, to->cq, to->cq, NULL, IBV_QPT_UD);
    struct ibv_qp *both[] = {a, b};
    CHECK(a && b);
    for (int at = 0; at < 2; at++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
        CHECK(!ibv_modify_qp(both[at], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
        attr.qp_state = IBV_QPS_RTR;
        CHECK(!ibv_modify_qp(both[at], &attr, IBV_QP_STATE));
        attr.qp_state = IBV_QPS_RTS;
        CHECK(!ibv_modify_qp(both[at], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    }
    struct ibv_sge into = {(uintptr_t)to->memory, GRH + 8, to->mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &into, .num_sge = 1}, *bad_receive;
    CHECK(!ibv_post_recv(b, &receive, &bad_receive));
    struct ibv_ah_attr attr = {.is_global = 1, .grh = {.dgid = to->gid, .sgid_index = 1, .hop_limit = 1}, .port_num = 1};
    struct ibv_ah *own, *foreign, *astray;
    attr.grh.dgid = from->gid;
    CHECK(astray = ibv_create_ah(from->pd, &attr));
    attr.grh.dgid = to->gid;
    CHECK(own = ibv_create_ah(from->pd, &attr));
    CHECK(foreign = ibv_create_ah(to->pd, &attr));
    struct ibv_sge sge = {(uintptr_t)from->memory, 8, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    wr.wr.ud.ah = foreign;
    wr.wr.ud.remote_qpn = b->qp_num;
    wr.wr.ud.remote_qkey = QKEY;
    CHECK(ibv_post_send(a, &wr, &bad) == EINVAL);
    struct ibv_ah *handles[] = {astray, own};
    for (uint64_t at = 0; at < 2; at++) {
        from->memory[0] = at;
        wr.wr.ud.ah = handles[at];
        CHECK(!ibv_post_send(a, &wr, &bad));
        CHECK(completed(from->cq).status == IBV_WC_SUCCESS);
    }
    struct ibv_wc wc = completed(to->cq);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 8);
    CHECK(to->memory[GRH / 8] == 1);
    struct ibv_ah_attr back;
    CHECK(!ibv_init_ah_from_wc(to->context, 1, &wc, (struct ibv_grh *)to->memory, &back));
    CHECK(memcmp(&back.grh.dgid, &from->gid, sizeof back.grh.dgid) == 0 && back.grh.sgid_index == 1);
    CHECK(!ibv_destroy_ah(own) && !ibv_destroy_ah(foreign) && !ibv_destroy_ah(astray) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type) {
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    CHECK(event->event == type);
    return event;
}

/* Identifiers of librdmacm have the device of the address that they are bound to, that they connect from, or that somebody connects to. */
static void have_addresses(struct side *sides, int count) {
    int known;
    struct ibv_context **contexts = rdma_get_devices(&known);
    CHECK(contexts && known == count && !contexts[count]);
    struct rdma_event_channel *channel = rdma_create_event_channel(), *listens = rdma_create_event_channel();
    struct rdma_cm_id *listener, *id;
    struct sockaddr_in any = {.sin_family = AF_INET};
    CHECK(channel && listens);
    CHECK(!rdma_create_id(listens, &listener, NULL, RDMA_PS_TCP));
    CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&any) && !listener->verbs);
    CHECK(!rdma_listen(listener, 1));
    for (int at = 0; at < count; at++) {
        CHECK(contexts[at]->device == sides[at].context->device);
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = rdma_get_src_port(listener)}, from = own;
        memcpy(&own.sin_addr, &sides[at].gid.raw[12], 4);
        memcpy(&from.sin_addr, &sides[0].gid.raw[12], 4);
        from.sin_port = 0;
        for (int bound = 0; bound < 2; bound++) {
            CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
            CHECK(!rdma_resolve_addr(id, (struct sockaddr *)(bound ? &from : NULL), (struct sockaddr *)&own, 1000));
            rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
            CHECK(id->verbs == contexts[bound ? 0 : at] && id->pd->context == id->verbs);
            CHECK(!rdma_resolve_route(id, 1000));
            rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
            struct rdma_conn_param param = {.qp_num = 1};
            CHECK(!rdma_connect(id, &param));
            struct rdma_cm_event *event = next_event(listens, RDMA_CM_EVENT_CONNECT_REQUEST);
            CHECK(event->id->verbs == contexts[at] && event->id->pd->context == event->id->verbs);
            CHECK(!rdma_reject(event->id, NULL, 0) && !rdma_destroy_id(event->id));
            rdma_ack_cm_event(event);
            rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_REJECTED));
            CHECK(!rdma_destroy_id(id));
        }
        own.sin_port = 0;
        CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
        CHECK(!rdma_bind_addr(id, (struct sockaddr *)&own) && id->verbs == contexts[at]);
        CHECK(!rdma_destroy_id(id));
    }
    /* No device has the address after the last one's, or one of 203.0.113.0/24, which is for examples. Nobody connects from there. */
    const uint32_t nobodys[] = {INADDR_LOOPBACK + count, 0xcb007108};
    for (int at = 0; at < 2; at++) {
        any.sin_addr.s_addr = htonl(nobodys[at]);
        struct sockaddr_in first = {.sin_family = AF_INET, .sin_port = rdma_get_src_port(listener)};
        memcpy(&first.sin_addr, &sides[0].gid.raw[12], 4);
        CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
        CHECK(rdma_bind_addr(id, (struct sockaddr *)&any) != 0 && errno == EADDRNOTAVAIL);
        CHECK(rdma_resolve_addr(id, (struct sockaddr *)&any, (struct sockaddr *)&first, 1000) != 0);
        CHECK(errno == EADDRNOTAVAIL && !id->verbs);
        /* To there, one goes from the host's own address. */
        CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&any, 1000));
        rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
        CHECK(id->verbs == contexts[0]);
        CHECK(memcmp(&((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr, &first.sin_addr, 4) == 0);
        CHECK(!rdma_destroy_id(id));
    }
    CHECK(!rdma_destroy_id(listener));
    rdma_free_devices(contexts);
}

static struct rdma_cm_id *listening(struct rdma_event_channel *channel, struct sockaddr_in at) {
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at));
    CHECK(!rdma_listen(id, 1));
    return id;
}

/* Connects to an address: `listener` is asked, which says no, or nobody is there if it is NULL. */
static void ask(struct rdma_event_channel *channel, struct rdma_event_channel *listens, struct sockaddr_in to,
                struct rdma_cm_id *listener) {
    struct rdma_cm_id *id;
    struct rdma_conn_param param = {.qp_num = 1};
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
    rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
    CHECK(!rdma_resolve_route(id, 1000));
    rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
    CHECK(!rdma_connect(id, &param));
    if (listener) {
        struct rdma_cm_event *event = next_event(listens, RDMA_CM_EVENT_CONNECT_REQUEST);
        CHECK(event->listen_id == listener);
        CHECK(!rdma_reject(event->id, NULL, 0) && !rdma_destroy_id(event->id));
        rdma_ack_cm_event(event);
    }
    struct rdma_cm_event *refused = next_event(channel, RDMA_CM_EVENT_REJECTED);
    CHECK(refused->status == (listener ? 28 : 8));
    rdma_ack_cm_event(refused);
    CHECK(!rdma_destroy_id(id));
}

/* An identifier that is bound to a device stays there, with its queue pair, whatever source it is told later. One that has a queue pair
 * goes to no other device. */
static void stay_where_they_are_bound(struct side *sides, int count) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    for (int one = 1; one < count; one++) {
        struct rdma_cm_id *id;
        struct sockaddr_in own = {.sin_family = AF_INET}, other = own;
        memcpy(&own.sin_addr, &sides[one].gid.raw[12], 4);
        memcpy(&other.sin_addr, &sides[0].gid.raw[12], 4);
        CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
        CHECK(!rdma_bind_addr(id, (struct sockaddr *)&own));
        struct ibv_context *context = id->verbs;
        struct ibv_pd *pd = id->pd;
        uint16_t port = rdma_get_src_port(id);
        struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
        CHECK(!rdma_create_qp(id, NULL, &init));
        CHECK(rdma_bind_addr(id, (struct sockaddr *)&other) != 0 && errno == EINVAL);
        CHECK(!rdma_resolve_addr(id, (struct sockaddr *)&other, (struct sockaddr *)&other, 1000));
        rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
        CHECK(id->verbs == context && id->pd == pd && id->qp->context == context);
        CHECK(context->device == sides[one].context->device);
        CHECK(memcmp(&((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr, &own.sin_addr, 4) == 0);
        CHECK(rdma_get_src_port(id) == port);
        rdma_destroy_qp(id);
        CHECK(!rdma_destroy_id(id));
    }
    rdma_destroy_event_channel(channel);
}

/* A listener for each device, on one port: each is asked by its own address, and the end of one leaves the others. */
static void listen_on_one_port(struct side *sides, int count) {
    struct rdma_event_channel *channel = rdma_create_event_channel(), *listens = rdma_create_event_channel();
    struct rdma_cm_id *listeners[MOST], *again;
    struct sockaddr_in at[MOST], any = {.sin_family = AF_INET};
    CHECK(channel && listens);
    for (int one = 0; one < count; one++) {
        at[one] = (struct sockaddr_in){.sin_family = AF_INET};
        memcpy(&at[one].sin_addr, &sides[one].gid.raw[12], 4);
        /* The first one chooses the port. */
        at[one].sin_port = any.sin_port;
        listeners[one] = listening(listens, at[one]);
        at[one].sin_port = any.sin_port = rdma_get_src_port(listeners[one]);
        for (int before = 0; before <= one; before++)
            ask(channel, listens, at[before], listeners[before]);
    }
    struct sockaddr_in taken[] = {at[0], at[count - 1], any};
    for (int one = 0; one < 3; one++) {
        CHECK(!rdma_create_id(listens, &again, NULL, RDMA_PS_TCP));
        CHECK(!rdma_bind_addr(again, (struct sockaddr *)&taken[one]));
        CHECK(rdma_listen(again, 1) != 0 && errno == EADDRINUSE);
        CHECK(!rdma_destroy_id(again));
    }
    for (int one = 0; one < count; one++) {
        CHECK(!rdma_destroy_id(listeners[one]));
        ask(channel, listens, at[one], NULL);
        for (int after = one + 1; after < count; after++)
            ask(channel, listens, at[after], listeners[after]);
        if (one == 0) {
            listeners[0] = listening(listens, at[0]);
            ask(channel, listens, at[0], listeners[0]);
            CHECK(!rdma_destroy_id(listeners[0]));
        }
    }
    again = listening(listens, any);
    ask(channel, listens, at[0], again);
    CHECK(!rdma_destroy_id(again));
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(listens);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static struct side sides[MOST], again;
    int wanted = atoi(argv[1]), count;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list && count == wanted && count <= MOST && !list[count]);
    for (int at = 0; at < count; at++)
        open_side(&sides[at], list[at]);
    open_side(&again, list[0]);
    are_distinct(list, sides, count);
    have_queue_pairs(sides, count);
    /* 203.0.113.8, of the addresses for examples. */
    union ibv_gid nobodys = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 203, [13] = 0, [14] = 113, [15] = 8}};
    do_not_mix(&sides[0], &again);
    for (int from = 0; from < count; from++) {
        for (int to = 0; to < count; to++) {
            reach_one_another(&sides[from], &sides[to]);
            go_where_the_gid_is(&sides[from], &sides[to], &nobodys);
            if (count > 1)
                go_where_the_gid_is(&sides[from], &sides[to], &sides[(to + 1) % count].gid);
            if (from != to) {
                do_not_mix(&sides[from], &sides[to]);
                say_who_they_are(&sides[from], &sides[to]);
            }
        }
    }
    have_addresses(sides, count);
    stay_where_they_are_bound(sides, count);
    listen_on_one_port(sides, count);
    return 0;
}
