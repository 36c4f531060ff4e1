/* Two processes, which may be of different hosts: one writes into the memory of the other, whose CPU looks at it.
 *
 * It is run as `PROGRAM target ADDRESS PORT` and then as `PROGRAM FORM ADDRESS PORT ROUNDS`. The forms `mistake` and `mended` write
 * data and a flag, as `flag_before_data.c` does; the target exits with 3 if it sees the flag before the data. The form `lost` writes
 * until a completion is no success, says `writing` after the first, and prints the last one's status and how late it came.
 *
 * The form `behind` writes data to a target of the form `reopens`, which may open no descriptor until it is told, and then a flag. The
 * target exits with 3 if it sees either.
 *
 * A target of the form `short` may open no more descriptors when the two have met. One of the form `forks` has then two children that
 * wait for the end of its input, of which one is another program. */
#include <arpa/inet.h>
#include <dirent.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../connect.h"

enum { WORDS = 16, FLAG = 8, DEPTH = 64 };

/* A queue pair waits 4.096 us * 2^14 * 8 for its peer: 0.54 s. */
enum { TIMEOUT = 14, RETRIES = 7 };

static volatile uint64_t *memory;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct card other;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

/* Lets both sides go on when both are here. */
static void wait_for_other(int line) {
    char here = 1;
    CHECK(write(line, &here, 1) == 1);
    CHECK(recv(line, &here, 1, MSG_WAITALL) == 1);
}

/* Connects with the other. Does something just before both begin. */
static void meet(int line, void (*before)(void)) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;
    CHECK(list && list[0]);
    CHECK(context = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    CHECK(pd = ibv_alloc_pd(context));
    CHECK(cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0));
    CHECK(memory = aligned_alloc(64, WORDS * 8));
    memset((void *)memory, 0, WORDS * 8);
    CHECK(mr = ibv_reg_mr(pd, (void *)memory, WORDS * 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    CHECK(qp = ibv_create_qp(pd, &init));
    struct card own = card_of(qp, mr);
    CHECK(write(line, &own, sizeof own) == sizeof own);
    CHECK(recv(line, &other, sizeof other, MSG_WAITALL) == sizeof other);
    struct terms terms = {.access = IBV_ACCESS_REMOTE_WRITE, .reads = 1, .timeout = TIMEOUT, .retries = RETRIES, .rnr_retries = 7};
    init_qp(qp, &terms);
    connect_qp(qp, other.qpn, &other.gid, &terms);
    if (before)
        before();
    wait_for_other(line);
}

static void post(int from, int words) {
    struct ibv_sge sge = {(uintptr_t)(memory + from), words * 8, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    wr.wr.rdma.remote_addr = other.addr + from * 8;
    wr.wr.rdma.rkey = other.rkey;
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

static int look(int line) {
    struct ibv_wc wc;
    char seen = 1;
    for (uint64_t round = 1;; round++) {
        while (memory[FLAG] != round) {
            CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
            __asm__ volatile("" ::: "memory");
            ssize_t got = recv(line, &seen, 1, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno == ECONNRESET))
                return 0;
        }
        for (int word = 0; word < FLAG; word++) {
            if (memory[word] != round) {
                puts("the flag came before the data");
                return 3;
            }
        }
        CHECK(write(line, &seen, 1) == 1);
    }
}

static int write_all(int line, int mended, long rounds) {
    char seen;
    for (long round = 1; round <= rounds; round++) {
        for (int word = 0; word <= FLAG; word++)
            memory[word] = round;
        post(0, FLAG);
        if (mended)
            CHECK(completed(cq).status == IBV_WC_SUCCESS);
        post(FLAG, 1);
        if (recv(line, &seen, 1, MSG_WAITALL) != 1)
            return 0; /* The target has seen the mistake. */
        for (int count = mended ? 1 : 2; count > 0; count--)
            CHECK(completed(cq).status == IBV_WC_SUCCESS);
    }
    return 0;
}

static int write_until_lost(void) {
    double last = now();
    for (long successes = 0;; successes++) {
        post(0, 1);
        enum ibv_wc_status status = completed(cq).status;
        if (status != IBV_WC_SUCCESS) {
            printf("%s, %.0f ms after %ld successes\n", ibv_wc_status_str(status), (now() - last) * 1e3, successes);
            return status == IBV_WC_RETRY_EXC_ERR ? 0 : 1;
        }
        last = now();
        if (successes == 0) {
            puts("writing");
            fflush(stdout);
        }
    }
}

/* Leaves no number for one more descriptor. */
static void open_no_more(void) {
    struct rlimit limit;
    int next = dup(0);
    CHECK(next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = next;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static int reopen(int line) {
    struct rlimit limit;
    wait_for_other(line);
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    wait_for_other(line);
    wait_for_other(line);
    return memory[0] || memory[FLAG] ? 3 : 0;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    CHECK(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

static int write_behind(int line) {
    int before = open_descriptors();
    memory[0] = memory[FLAG] = 1;
    post(0, 1);
    /* The target closes the connection, and its descriptor here goes. */
    while (open_descriptors() > before)
        sched_yield();
    wait_for_other(line);
    wait_for_other(line);
    post(FLAG, 1);
    CHECK(completed(cq).status == IBV_WC_RETRY_EXC_ERR);
    CHECK(completed(cq).status == IBV_WC_WR_FLUSH_ERR);
    wait_for_other(line);
    return 0;
}

/* Makes two children, which outlive this process. */
static void have_children(int line) {
    char end;
    for (int is_other = 0; is_other < 2; is_other++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            close(line);
            if (is_other)
                execlp("cat", "cat", (char *)NULL);
            while (read(0, &end, 1) > 0) {
            }
            _exit(0);
        }
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    CHECK(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
    int line = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    CHECK(line >= 0);
    int is_short = strcmp(argv[1], "short") == 0, reopens = strcmp(argv[1], "reopens") == 0;
    int forks = strcmp(argv[1], "forks") == 0;
    if (strcmp(argv[1], "target") == 0 || is_short || reopens || forks) {
        CHECK(!setsockopt(line, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
        CHECK(!bind(line, (struct sockaddr *)&at, sizeof at) && !listen(line, 1));
        CHECK((line = accept(line, NULL, NULL)) >= 0);
        meet(line, is_short || reopens ? open_no_more : NULL);
        if (reopens)
            return reopen(line);
        if (forks)
            have_children(line);
        return look(line);
    }
    CHECK(argc == 5);
    CHECK(!connect(line, (struct sockaddr *)&at, sizeof at));
    meet(line, NULL);
    if (strcmp(argv[1], "lost") == 0)
        return write_until_lost();
    if (strcmp(argv[1], "behind") == 0)
        return write_behind(line);
    return write_all(line, strcmp(argv[1], "mended") == 0, atol(argv[4]));
}
