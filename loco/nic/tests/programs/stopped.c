/* A process that is stopped, as by a debugger, is waited for: with little memory, and at rest. When it goes on, all that was asked of it
 * succeeds; when it is killed, it ends as with a dead machine.
 *
 * The first process makes the two others before they open the device. The one that is stopped has asked for long reads before, so that
 * answers wait for it, too. */
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../connect.h"

enum { READS = 4, READ = 8 << 20, WRITES = 64, WRITE = 1 << 20, REST_MS = 300, KEPT_MAX = 24 << 20 };

/* A queue pair waits 4.096 us * 2^TIMEOUT * (RETRIES + 1) for its peer: 34 ms. */
enum { TIMEOUT = 12, RETRIES = 1 };

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct card other;
static unsigned char *memory;

static double clock_of(clockid_t id) {
    struct timespec at;
    clock_gettime(id, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void say(int line, char what) { CHECK(write(line, &what, 1) == 1); }

static void hear(int line, char what) {
    char said;
    CHECK(read(line, &said, 1) == 1 && said == what);
}

/* Connects with the other. The memory is filled before that. */
static void meet(int line, int byte) {
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;
    CHECK(list && list[0]);
    CHECK(context = ibv_open_device(list[0]));
    CHECK(pd = ibv_alloc_pd(context));
    CHECK(channel = ibv_create_comp_channel(context));
    CHECK(cq = ibv_create_cq(context, 2 * WRITES, NULL, channel, 0));
    CHECK(memory = aligned_alloc(4096, READS * READ));
    memset(memory, byte, READS * READ);
    CHECK(mr = ibv_reg_mr(pd, memory, READS * READ, access));
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = WRITES, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    CHECK(qp = ibv_create_qp(pd, &init));
    struct card own = card_of(qp, mr);
    CHECK(write(line, &own, sizeof own) == sizeof own);
    CHECK(recv(line, &other, sizeof other, MSG_WAITALL) == sizeof other);
    struct terms terms = {.access = access, .reads = READS, .timeout = TIMEOUT, .retries = RETRIES, .rnr_retries = 7};
    init_qp(qp, &terms);
    connect_qp(qp, other.qpn, &other.gid, &terms);
    say(line, 'r');
    hear(line, 'r');
}

static void post(enum ibv_wr_opcode opcode, size_t at, size_t len) {
    struct ibv_sge sge = {(uintptr_t)(memory + at), len, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
    wr.wr.rdma.remote_addr = other.addr + at;
    wr.wr.rdma.rkey = other.rkey;
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* The bytes of memory that the process has. */
static size_t resident(void) {
    unsigned long all, in_memory;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu %lu", &all, &in_memory) == 2);
    fclose(file);
    return in_memory * sysconf(_SC_PAGESIZE);
}

static void victim(int line) {
    meet(line, 0);
    for (size_t at = 0; at < READS; at++)
        post(IBV_WR_RDMA_READ, at * READ, READ);
    raise(SIGSTOP);
    for (int read = 0; read < READS; read++)
        CHECK(completed(cq).status == IBV_WC_SUCCESS);
    for (size_t at = WRITE; at < READS * READ; at += 4096)
        CHECK(memory[at] == 7);
    say(line, 'g');
    hear(line, 's');
    raise(SIGSTOP);
    CHECK(!"it goes on");
}

/* Waits for a completion that does not come, and checks that the process rests meanwhile. */
static void rest(void) {
    struct ibv_wc wc;
    double cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID), wall = clock_of(CLOCK_MONOTONIC);
    struct pollfd waits = {.fd = channel->fd, .events = POLLIN};
    CHECK(!ibv_req_notify_cq(cq, 0));
    CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
    CHECK(poll(&waits, 1, REST_MS) == 0);
    cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = clock_of(CLOCK_MONOTONIC) - wall;
    printf("%.1f ms of processors in %.0f ms; ", cpu * 1e3, wall * 1e3);
    CHECK(cpu < 0.25);
}

static void stays(int line, int parent) {
    meet(line, 7);
    size_t before = resident();
    say(parent, 'b');
    hear(parent, 's');
    for (int write = 0; write < WRITES; write++)
        post(IBV_WR_RDMA_WRITE, 0, WRITE);
    rest();
    /* The kernel may take pages back meanwhile. */
    size_t now = resident(), kept = now > before ? now - before : 0;
    printf("%zu KiB for the one that is stopped; ", kept >> 10);
    /* With stress, all reads may be gathering before the first answer waits. */
    CHECK(kept < KEPT_MAX + (strcmp(getenv("LOCO_NIC_STRESS"), "none") ? READS * READ : 0));
    say(parent, 'c');
    for (int write = 0; write < WRITES; write++)
        CHECK(completed(cq).status == IBV_WC_SUCCESS);
    /* The first of them gave the event that was asked for. */
    struct ibv_cq *which;
    void *with;
    CHECK(!ibv_get_cq_event(channel, &which, &with) && which == cq);
    ibv_ack_cq_events(cq, 1);
    hear(line, 'g');
    say(line, 's');
    hear(parent, 's');
    for (int write = 0; write < WRITES; write++)
        post(IBV_WR_RDMA_WRITE, 0, WRITE);
    rest();
    say(parent, 'k');
    double killed = clock_of(CLOCK_MONOTONIC);
    CHECK(completed(cq).status == IBV_WC_RETRY_EXC_ERR);
    printf("%.0f ms from the kill\n", (clock_of(CLOCK_MONOTONIC) - killed) * 1e3);
    for (int write = 1; write < WRITES; write++)
        CHECK(completed(cq).status == IBV_WC_WR_FLUSH_ERR);
}

int main(void) {
    int line[2], own[2], status;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, line) && !socketpair(AF_UNIX, SOCK_STREAM, 0, own));
    pid_t stopped = fork();
    CHECK(stopped >= 0);
    if (stopped == 0) {
        /* One that is stopped outlives a failure otherwise. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(line[1]), close(own[0]), close(own[1]);
        victim(line[0]);
    }
    pid_t stayer = fork();
    CHECK(stayer >= 0);
    if (stayer == 0) {
        close(line[0]), close(own[0]);
        stays(line[1], own[1]);
        return 0;
    }
    close(line[0]), close(line[1]), close(own[1]);
    hear(own[0], 'b');
    CHECK(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
    say(own[0], 's');
    hear(own[0], 'c');
    CHECK(!kill(stopped, SIGCONT));
    CHECK(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
    say(own[0], 's');
    hear(own[0], 'k');
    CHECK(!kill(stopped, SIGKILL));
    CHECK(waitpid(stayer, &status, 0) == stayer && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(waitpid(stopped, &status, 0) == stopped);
    return 0;
}
