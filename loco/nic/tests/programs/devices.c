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

/* Tries to make objects of those of two opened devices, be they of one device or of two. */
static void do_not_mix(struct side *one, struct side *other) {
    is_invalid("a domain with another's send queue", make_qp(one->pd, other->cq, one->cq, NULL, IBV_QPT_RC));
    is_invalid("a domain with another's receive queue", make_qp(one->pd, one->cq, other->cq, NULL, IBV_QPT_RC));
    is_invalid("a domain with another's shared queue", make_qp(one->pd, one->cq, one->cq, other->srq, IBV_QPT_RC));
    is_invalid("a queue with another's channel", ibv_create_cq(one->context, DEPTH, NULL, other->channel, 0));
    CHECK(ibv_rereg_mr(one->mr, IBV_REREG_MR_CHANGE_PD, other->pd, NULL, 0, 0) != 0);
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

/* Sends a datagram, which says from which device it came, and not with the address handle of another device. */
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
    struct ibv_ah *own, *foreign;
    CHECK(own = ibv_create_ah(from->pd, &attr));
    CHECK(foreign = ibv_create_ah(to->pd, &attr));
    struct ibv_sge sge = {(uintptr_t)from->memory, 8, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    wr.wr.ud.ah = foreign;
    wr.wr.ud.remote_qpn = b->qp_num;
    wr.wr.ud.remote_qkey = QKEY;
    CHECK(ibv_post_send(a, &wr, &bad) == EINVAL);
    wr.wr.ud.ah = own;
    CHECK(!ibv_post_send(a, &wr, &bad));
    CHECK(completed(from->cq).status == IBV_WC_SUCCESS);
    struct ibv_wc wc = completed(to->cq);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 8);
    struct ibv_ah_attr back;
    CHECK(!ibv_init_ah_from_wc(to->context, 1, &wc, (struct ibv_grh *)to->memory, &back));
    CHECK(memcmp(&back.grh.dgid, &from->gid, sizeof back.grh.dgid) == 0 && back.grh.sgid_index == 1);
    CHECK(!ibv_destroy_ah(own) && !ibv_destroy_ah(foreign) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b));
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
    /* No device has the address after the last one's. */
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK + count);
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&any) != 0 && errno == EADDRNOTAVAIL);
    CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
    rdma_free_devices(contexts);
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
    do_not_mix(&sides[0], &again);
    for (int from = 0; from < count; from++) {
        for (int to = 0; to < count; to++) {
            reach_one_another(&sides[from], &sides[to]);
            if (from != to) {
                do_not_mix(&sides[from], &sides[to]);
                say_who_they_are(&sides[from], &sides[to]);
            }
        }
    }
    have_addresses(sides, count);
    return 0;
}
