/* Kills one of two processes at a random moment, again and again, and checks what the other is left with.
 *
 * It is run as `PROGRAM MODE SEED KILLS`. In mode `verbs` the two post writes, reads, sends and atomics to one another; in mode
 * `manager` they connect, talk and disconnect by librdmacm. The one who stays must see every request end: successes first, then one
 * *retry exceeded* and nothing but flush errors, then its receives flushed; and of a connection, an event that ends it. The program
 * exits with 0 if that is so, and prints how long the slowest took from the kill; with 1 if not, and with 2 if one hangs.
 *
 * Both processes are made before they open the device, which a process that forks may not use. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../connect.h"

enum { DEPTH = 16, RECEIVES = 64, BYTES = 1 << 16, HANGS_AFTER = 60 };

/* A queue pair waits 4.096 us * 2^TIMEOUT * (RETRIES + 1) for its peer: 34 ms. */
enum { TIMEOUT = 12, RETRIES = 1 };

static unsigned seed;

static unsigned draw(unsigned below) {
    return (unsigned)rand_r(&seed) % below;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
    struct card other;
};

static void open_side(struct side *s) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    CHECK(s->context = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    CHECK(s->pd = ibv_alloc_pd(s->context));
    CHECK(s->channel = ibv_create_comp_channel(s->context));
    CHECK(s->cq = ibv_create_cq(s->context, DEPTH + RECEIVES, NULL, s->channel, 0));
    CHECK(s->memory = aligned_alloc(4096, 2 * BYTES));
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    CHECK(s->mr = ibv_reg_mr(s->pd, s->memory, 2 * BYTES, access));
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .send_cq = s->cq,
        .recv_cq = s->cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
    };
    CHECK(s->qp = ibv_create_qp(s->pd, &init));
}

static void receive(struct side *s) {
    struct ibv_sge sge = {(uintptr_t)s->memory, BYTES, s->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = UINT64_MAX, .sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(s->qp, &wr, &bad));
}

/* Connects with the one at the other end of the pipes. Returns 0 if that one is gone. */
static int meet(struct side *s, int in, int out) {
    struct card own = card_of(s->qp, s->mr);
    if (write(out, &own, sizeof own) != sizeof own || read(in, &s->other, sizeof s->other) != sizeof s->other)
        return 0;
    struct terms terms = {
        .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .reads = 4,
        .timeout = TIMEOUT,
        .retries = RETRIES,
        .rnr_retries = 7,
    };
    init_qp(s->qp, &terms);
    for (int count = 0; count < RECEIVES; count++)
        receive(s);
    connect_qp(s->qp, s->other.qpn, &s->other.gid, &terms);
    return 1;
}

/* Posts a random operation of a random size. */
static void post(struct side *s, uint64_t number) {
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                 IBV_WR_ATOMIC_CMP_AND_SWP};
    enum ibv_wr_opcode opcode = opcodes[draw(6)];
    int is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    unsigned bytes = is_atomic ? 8 : draw(4) ? draw(64) : draw(BYTES);
    struct ibv_sge sge = {(uintptr_t)s->memory + BYTES, bytes, s->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED | (draw(8) ? 0 : IBV_SEND_FENCE);
    if (is_atomic) {
        wr.wr.atomic.remote_addr = s->other.addr;
        wr.wr.atomic.rkey = s->other.rkey;
    } else {
        wr.wr.rdma.remote_addr = s->other.addr;
        wr.wr.rdma.rkey = s->other.rkey;
    }
    CHECK(!ibv_post_send(s->qp, &wr, &bad));
}

/* Talks until the other is gone, which the completions tell. Returns when they did, or 0 if the other did not come. */
static double talk(int in, int out) {
    struct side s;
    open_side(&s);
    if (!meet(&s, in, out))
        return 0;
    uint64_t posted = 0, ended = 0, receives = RECEIVES;
    int by_events = draw(2);
    double failed = 0, began = now();
    while (!failed || ended < posted || receives > 0) {
        if (now() - began > HANGS_AFTER) {
            fprintf(stderr, "it hangs: %lu of %lu requests have ended, %lu receives are left, %s\n", ended, posted,
                    receives, failed ? "one has failed" : "none has failed");
            exit(2);
        }
        while (!failed && posted - ended < DEPTH)
            post(&s, posted++);
        struct ibv_wc wc;
        int count = ibv_poll_cq(s.cq, 1, &wc);
        CHECK(count >= 0);
        if (count == 0 && by_events) {
            CHECK(!ibv_req_notify_cq(s.cq, 0));
            count = ibv_poll_cq(s.cq, 1, &wc);
            struct pollfd waits = {.fd = s.channel->fd, .events = POLLIN};
            if (count == 0 && poll(&waits, 1, HANGS_AFTER * 1000) == 1) {
                struct ibv_cq *cq;
                void *context;
                CHECK(!ibv_get_cq_event(s.channel, &cq, &context));
                ibv_ack_cq_events(cq, 1);
            }
        }
        if (count == 0)
            continue;
        if (wc.wr_id == UINT64_MAX) {
            CHECK(wc.status == IBV_WC_SUCCESS || (failed && wc.status == IBV_WC_WR_FLUSH_ERR));
            if (wc.status == IBV_WC_SUCCESS && !failed)
                receive(&s);
            else
                receives--;
            continue;
        }
        CHECK(wc.wr_id == ended);
        ended++;
        if (failed) {
            CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
        } else if (wc.status != IBV_WC_SUCCESS) {
            if (wc.status != IBV_WC_RETRY_EXC_ERR)
                fprintf(stderr, "the first failure is %s\n", ibv_wc_status_str(wc.status));
            CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
            failed = now();
        }
    }
    return failed;
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel, int wait_ms) {
    struct pollfd waits = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    if (poll(&waits, 1, wait_ms) != 1)
        return NULL;
    CHECK(!rdma_get_cm_event(channel, &event));
    return event;
}

static void make_qp(struct rdma_cm_id *id) {
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    CHECK(!rdma_create_qp(id, NULL, &init));
}

static void name(struct sockaddr_in *address, int port) {
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* Accepts connections, until the pipe says that the other is gone and every connection has its end. */
static double serve(int port, int in, int out) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listening;
    struct sockaddr_in address;
    CHECK(channel && !rdma_create_id(channel, &listening, NULL, RDMA_PS_TCP));
    name(&address, port);
    CHECK(!rdma_bind_addr(listening, (struct sockaddr *)&address));
    CHECK(!rdma_listen(listening, 8));
    CHECK(write(out, "l", 1) == 1 || errno == EPIPE);
    int open = 0, gone = 0;
    double ended = now(), began = now();
    while (!gone || open > 0) {
        if (now() - began > HANGS_AFTER) {
            fprintf(stderr, "it hangs: %d connections have no end\n", open);
            exit(2);
        }
        struct pollfd pipe = {.fd = in, .events = POLLIN};
        gone |= poll(&pipe, 1, 0) == 1;
        struct rdma_cm_event *event = next(channel, 10);
        if (!event)
            continue;
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;
        rdma_ack_cm_event(event);
        switch (type) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            open++;
            make_qp(id);
            CHECK(!rdma_accept(id, NULL));
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_UNREACHABLE:
            open--;
            ended = now();
            rdma_disconnect(id);
            rdma_destroy_qp(id);
            rdma_destroy_id(id);
            break;
        default:
            fprintf(stderr, "an event that is not expected: %s\n", rdma_event_str(type));
            exit(1);
        }
    }
    return ended;
}

/* Connects and disconnects, until the other is gone. */
static double call(int port, int in, int out) {
    char listens;
    (void)out;
    if (read(in, &listens, 1) != 1)
        return 0;
    for (;;) {
        struct rdma_event_channel *channel = rdma_create_event_channel();
        struct rdma_cm_id *id;
        struct sockaddr_in address;
        CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
        name(&address, port);
        CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000));
        int connected = 0, over = 0;
        while (!over) {
            struct rdma_cm_event *event = next(channel, connected ? (int)draw(3) : HANGS_AFTER * 1000);
            if (!event && connected == 1) {
                connected = 2;
                rdma_disconnect(id);
                continue;
            }
            if (!event && connected == 2)
                event = next(channel, HANGS_AFTER * 1000);
            if (!event) {
                fprintf(stderr, "it hangs: no event comes\n");
                exit(2);
            }
            enum rdma_cm_event_type type = event->event;
            rdma_ack_cm_event(event);
            switch (type) {
            case RDMA_CM_EVENT_ADDR_RESOLVED:
                CHECK(!rdma_resolve_route(id, 2000));
                break;
            case RDMA_CM_EVENT_ROUTE_RESOLVED:
                make_qp(id);
                CHECK(!rdma_connect(id, NULL));
                break;
            case RDMA_CM_EVENT_ESTABLISHED:
                connected = 1;
                break;
            case RDMA_CM_EVENT_DISCONNECTED:
                over = 1;
                break;
            case RDMA_CM_EVENT_REJECTED:
            case RDMA_CM_EVENT_UNREACHABLE:
                return now();
            default:
                fprintf(stderr, "an event that is not expected: %s\n", rdma_event_str(type));
                exit(1);
            }
        }
        rdma_destroy_qp(id);
        rdma_destroy_id(id);
        rdma_destroy_event_channel(channel);
    }
}

/* Runs one of the two in a process of its own. */
static pid_t start(double (*run)(int, int, int), int port, int in, int out, int close_in, int close_out, int result) {
    unsigned own = draw(1u << 30);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    seed = own;
    close(close_in);
    close(close_out);
    double ended = run(port, in, out);
    CHECK(result < 0 || write(result, &ended, sizeof ended) == sizeof ended);
    exit(0);
}

static double talks(int port, int in, int out) {
    (void)port;
    return talk(in, out);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int by_manager = strcmp(argv[1], "manager") == 0, kills = atoi(argv[3]), noticed = 0;
    seed = (unsigned)atoi(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    double slowest = 0;
    for (int kill_number = 0; kill_number < kills; kill_number++) {
        int there[2], back[2], result[2], status, port = 20000 + kill_number % 100;
        CHECK(!pipe(there) && !pipe(back) && !pipe(result));
        int victim_calls = (int)draw(2);
        double (*stays)(int, int, int) = !by_manager ? talks : victim_calls ? serve : call;
        double (*dies)(int, int, int) = !by_manager ? talks : victim_calls ? call : serve;
        pid_t survivor = start(stays, port, there[0], back[1], there[1], back[0], result[1]);
        pid_t victim = start(dies, port, back[0], there[1], back[1], there[0], -1);
        close(there[0]), close(there[1]), close(back[0]), close(back[1]), close(result[1]);
        unsigned span = draw(2) ? 3000 : 40000;
        usleep(1 + draw(span));
        double killed = now(), ended = 0;
        kill(victim, SIGKILL);
        CHECK(waitpid(victim, &status, 0) == victim);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(waitpid(survivor, &status, 0) == survivor);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "kill %d: the one who stayed ended with %x\n", kill_number, status);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        CHECK(read(result[0], &ended, sizeof ended) == sizeof ended);
        close(result[0]);
        if (ended > killed) {
            noticed++;
            if (ended - killed > slowest)
                slowest = ended - killed;
        }
    }
    /* Whoever comes next removes what the last one killed has left. */
    struct side next_one;
    open_side(&next_one);
    printf("%d kills, %d of them noticed, the slowest after %.1f ms\n", kills, noticed, slowest * 1e3);
    return 0;
}
