/* A random program of one queue pair, whose every result follows from its seed: what a client writes, sends, reads and adds, and what
 * its target then has in memory. Both check all of it.
 *
 * It is run as `PROGRAM target ADDRESS PORT SEED` and then as `PROGRAM client ADDRESS PORT SEED ROUNDS`. By the seed, each polls or
 * waits for events, or the target looks at nothing until the client is done. The client prints what it has seen. With `fails` for
 * `client`, it ends as soon as the two have met. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../connect.h"

enum { SIZE = 1 << 20, DEPTH = 256, MESSAGE = 4096, BATCH = 8 };

/* What the client says at its end: the account of the target's memory, that of the messages, and their number. */
struct end {
    uint64_t memory, told, messages;
};

static unsigned char *memory, *received, *wanted;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr, *receives;
static struct card other;
static int by_events;
static uint64_t state;

/* What the client has seen, and what it has told the target by messages, and how many these were. */
static uint64_t seen = 0xcbf29ce484222325, told = 0xcbf29ce484222325, messages;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static size_t below(size_t bound) { return draw() % bound; }

/* Takes bytes into an account. */
static void add(uint64_t *account, const void *bytes, size_t len) {
    for (const unsigned char *at = bytes; len; at++, len--)
        *account = (*account ^ *at) * 0x100000001b3;
}

static void tell(uint32_t immediate, const void *bytes, size_t len) {
    add(&told, &immediate, sizeof immediate);
    add(&told, bytes, len);
    messages++;
}

static void post_receive(uint64_t slot) {
    struct ibv_sge sge = {(uintptr_t)(received + slot * MESSAGE), MESSAGE, receives->lkey};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static void meet(int line) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    CHECK(list && list[0]);
    CHECK(context = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    CHECK(pd = ibv_alloc_pd(context));
    CHECK(channel = ibv_create_comp_channel(context));
    CHECK(cq = ibv_create_cq(context, 2 * DEPTH, NULL, channel, 0));
    CHECK(memory = aligned_alloc(64, SIZE));
    CHECK(received = aligned_alloc(64, DEPTH * MESSAGE));
    CHECK(wanted = calloc(1, SIZE));
    memset(memory, 0, SIZE);
    CHECK(mr = ibv_reg_mr(pd, memory, SIZE, access));
    CHECK(receives = ibv_reg_mr(pd, received, DEPTH * MESSAGE, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
    };
    CHECK(qp = ibv_create_qp(pd, &init));
    struct card own = card_of(qp, mr);
    CHECK(write(line, &own, sizeof own) == sizeof own);
    CHECK(recv(line, &other, sizeof other, MSG_WAITALL) == sizeof other);
    struct terms terms = {.access = access, .reads = 1, .timeout = 20, .retries = 7, .rnr_retries = 7};
    init_qp(qp, &terms);
    for (int slot = 0; slot < DEPTH; slot++)
        post_receive(slot);
    connect_qp(qp, other.qpn, &other.gid, &terms);
    /* Neither begins before the other is ready. */
    char ready = 1;
    CHECK(write(line, &ready, 1) == 1);
    CHECK(recv(line, &ready, 1, MSG_WAITALL) == 1);
}

static struct ibv_wc next_completed(void) {
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
        if (!by_events)
            continue;
        struct ibv_cq *which;
        void *context;
        CHECK(!ibv_req_notify_cq(cq, 0));
        if ((count = ibv_poll_cq(cq, 1, &wc)) != 0)
            break;
        CHECK(!ibv_get_cq_event(channel, &which, &context) && which == cq);
        ibv_ack_cq_events(cq, 1);
    }
    CHECK(count == 1);
    return wc;
}

/* Looks whether the client has said its end. Ends the program if the client is gone without that. */
static int has_said(int line, struct end *end, int flags) {
    ssize_t came = recv(line, end, sizeof *end, flags | MSG_PEEK);
    CHECK(came > 0 || (came < 0 && errno == EAGAIN));
    return came == sizeof *end;
}

static void post(enum ibv_wr_opcode opcode, size_t from, size_t len, size_t to, int flags, struct ibv_send_wr more) {
    struct ibv_sge sge = {(uintptr_t)(memory + from), len, mr->lkey};
    struct ibv_send_wr wr = more, *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags | (len <= 64 && opcode != IBV_WR_RDMA_READ && more.wr_id == 1 ? IBV_SEND_INLINE : 0);
    if (opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && opcode != IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.rdma.remote_addr = other.addr + to;
        wr.wr.rdma.rkey = other.rkey;
    }
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* Waits for the completion of the last request, and takes its kind and its length into the account. */
static void done(void) {
    struct ibv_wc wc = next_completed();
    CHECK(wc.status == IBV_WC_SUCCESS);
    add(&seen, &wc.opcode, sizeof wc.opcode);
}

static void fill(size_t from, size_t len) {
    for (size_t at = from; at < from + len; at++)
        memory[at] = draw() >> 32;
}

/* Draws a length: mostly short ones, some longer than what is kept between two processes. */
static size_t length(void) { return 1 + below((size_t[]){16, 200, 5000, 400000}[below(4)]); }

static void writes(enum ibv_wr_opcode opcode) {
    int count = opcode == IBV_WR_RDMA_WRITE ? 1 + below(BATCH) : 1;
    for (int left = count; left; left--) {
        size_t len = length(), from = below(SIZE - len), to = below(SIZE - len);
        uint32_t immediate = draw();
        /* What an earlier one of these requests sends stays as it is. */
        if (left == count)
            fill(from, len);
        memcpy(wanted + to, memory + from, len);
        post(opcode, from, len, to, left == 1 ? IBV_SEND_SIGNALED : 0,
             (struct ibv_send_wr){.wr_id = left == count && below(2), .imm_data = immediate});
        if (opcode != IBV_WR_RDMA_WRITE)
            tell(immediate, NULL, 0);
    }
    done();
}

static void sends(void) {
    size_t len = 1 + below(MESSAGE), from = below(SIZE - len);
    uint32_t immediate = draw();
    fill(from, len);
    tell(immediate, memory + from, len);
    post(IBV_WR_SEND_WITH_IMM, from, len, 0, IBV_SEND_SIGNALED, (struct ibv_send_wr){.imm_data = immediate});
    done();
}

static void reads(void) {
    size_t len = length(), to = below(SIZE - len), from = below(SIZE - len);
    post(IBV_WR_RDMA_READ, to, len, from, IBV_SEND_SIGNALED, (struct ibv_send_wr){0});
    done();
    CHECK(!memcmp(memory + to, wanted + from, len));
}

static void atomics(void) {
    size_t to = 8 * below(SIZE / 8), from = 8 * below(SIZE / 8);
    uint64_t old, got, operand = draw();
    int swaps = below(2);
    memcpy(&old, wanted + to, 8);
    struct ibv_send_wr more = {.wr.atomic = {.remote_addr = other.addr + to, .rkey = other.rkey}};
    /* Every second swap is refused by the word. */
    more.wr.atomic.compare_add = swaps ? old + below(2) : operand;
    more.wr.atomic.swap = operand;
    uint64_t new = !swaps ? old + operand : more.wr.atomic.compare_add == old ? operand : old;
    memcpy(wanted + to, &new, 8);
    post(swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, from, 8, 0, IBV_SEND_SIGNALED, more);
    done();
    memcpy(&got, memory + from, 8);
    CHECK(got == old);
}

static void client(int line, int rounds) {
    struct end end = {.memory = 0xcbf29ce484222325};
    char answer;
    while (rounds--) {
        switch (below(6)) {
        case 0: sends(); break;
        case 1: writes(IBV_WR_RDMA_WRITE_WITH_IMM); break;
        case 2: reads(); break;
        case 3: atomics(); break;
        default: writes(IBV_WR_RDMA_WRITE);
        }
    }
    /* A read pushes what is on its way. */
    post(IBV_WR_RDMA_READ, 0, SIZE, 0, IBV_SEND_SIGNALED, (struct ibv_send_wr){0});
    done();
    CHECK(!memcmp(memory, wanted, SIZE));
    add(&end.memory, wanted, SIZE);
    end.told = told;
    end.messages = messages;
    CHECK(write(line, &end, sizeof end) == sizeof end);
    CHECK(recv(line, &answer, 1, MSG_WAITALL) == 1);
    /* Beyond the region, a write fails, and what comes after it is flushed. */
    post(IBV_WR_RDMA_WRITE, 0, 64, SIZE - 8, IBV_SEND_SIGNALED, (struct ibv_send_wr){0});
    post(IBV_WR_RDMA_WRITE, 0, 64, 0, IBV_SEND_SIGNALED, (struct ibv_send_wr){0});
    CHECK(next_completed().status == IBV_WC_REM_ACCESS_ERR);
    for (int flushed = 0; flushed < DEPTH + 1; flushed++)
        CHECK(next_completed().status == IBV_WC_WR_FLUSH_ERR);
    add(&seen, &end, sizeof end);
    printf("%016llx\n", (unsigned long long)seen);
}

static void take_messages(void) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
        CHECK(wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM));
        int is_send = wc.opcode == IBV_WC_RECV;
        tell(wc.imm_data, received + wc.wr_id * MESSAGE, is_send ? wc.byte_len : 0);
        post_receive(wc.wr_id);
    }
}

/* How a target waits for messages. */
enum way { POLLS, SLEEPS, LOOKS_AWAY };

static void target(int line, enum way way) {
    struct end end;
    uint64_t account = 0xcbf29ce484222325;
    if (way == LOOKS_AWAY)
        CHECK(has_said(line, &end, MSG_WAITALL));
    while (!has_said(line, &end, MSG_DONTWAIT)) {
        struct pollfd watched[] = {{.fd = channel->fd, .events = POLLIN}, {.fd = line, .events = POLLIN}};
        if (way == SLEEPS)
            CHECK(!ibv_req_notify_cq(cq, 0));
        take_messages();
        if (way == SLEEPS && poll(watched, 2, -1) > 0 && watched[0].revents) {
            struct ibv_cq *which;
            void *context;
            CHECK(!ibv_get_cq_event(channel, &which, &context) && which == cq);
            ibv_ack_cq_events(cq, 1);
        }
    }
    CHECK(recv(line, &end, sizeof end, MSG_WAITALL) == sizeof end);
    /* The last completions may be late. The client waits for this side, and says no more. */
    while (messages < end.messages) {
        char more;
        take_messages();
        CHECK(recv(line, &more, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN);
    }
    CHECK(messages == end.messages && told == end.told);
    add(&account, memory, SIZE);
    CHECK(account == end.memory);
    CHECK(write(line, "", 1) == 1);
    /* The client has ended. */
    CHECK(recv(line, &end, 1, MSG_WAITALL) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc >= 5);
    int is_target = !strcmp(argv[1], "target"), one = 1;
    CHECK(is_target || argc == 6);
    uint64_t seed = strtoull(argv[4], NULL, 10);
    int line = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    CHECK(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
    setsockopt(line, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    state = seed * 0x9e3779b97f4a7c15 + 1;
    by_events = seed % 2;
    if (is_target) {
        CHECK(!bind(line, (void *)&at, sizeof at) && !listen(line, 1));
        CHECK((line = accept(line, NULL, NULL)) >= 0);
    } else {
        CHECK(!connect(line, (void *)&at, sizeof at));
    }
    meet(line);
    if (!is_target && !strcmp(argv[1], "fails"))
        return 1;
    if (is_target)
        target(line, seed % 3);
    else
        client(line, atoi(argv[5]));
    return 0;
}
