/* A program that forks while it uses the device: the child has its own copy, which reaches nobody, and the parent goes on as before.
 * It exits with 0 if that is so. */
#include "../mistakes/pair.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The sockets in the folder of the world. */
static size_t sockets(void) {
    char pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/nic-*.sock", getenv("LOCO_NIC_WORLD"));
    if (glob(pattern, 0, NULL, &found))
        return 0;
    size_t count = found.gl_pathc;
    globfree(&found);
    return count;
}

/* What a child may do with what it has from its parent. */
static void child(struct pair *p) {
    struct ibv_wc wc;
    /* Memory is its own: nobody else sees this. */
    p->there[5] = 99;
    CHECK(!post(p, p->a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    wc = completed(p->cq_a);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    errno = 0;
    CHECK(!ibv_open_device(list[0]) && errno == EOPNOTSUPP);
    CHECK(!ibv_destroy_qp(p->a) && !ibv_destroy_qp(p->b));
    exit(0);
}

/* Whether an event of a completion queue is there. */
static int has_event(struct pair *p) {
    struct pollfd waits = {.fd = p->channel->fd, .events = POLLIN};
    return poll(&waits, 1, 0);
}

/* Writes from `b`, and waits for the event of its completion queue and for the completion. */
static void write_and_wait(struct pair *p) {
    CHECK(!post(p, p->b, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    struct pollfd waits = {.fd = p->channel->fd, .events = POLLIN};
    CHECK(poll(&waits, 1, 10000) == 1);
    complete(p->cq_b, 1);
}

/* Takes the one event that is there. */
static void take_event(struct pair *p) {
    struct ibv_cq *cq;
    void *with;
    CHECK(has_event(p) == 1);
    CHECK(!ibv_get_cq_event(p->channel, &cq, &with) && cq == p->cq_b);
    ibv_ack_cq_events(cq, 1);
    CHECK(has_event(p) == 0);
}

/* The events of a channel are the parent's: a child neither takes one, when it gives back what it has, nor makes one. */
static void events(struct pair *p) {
    int status;
    CHECK(!ibv_req_notify_cq(p->cq_b, 0));
    write_and_wait(p);
    pid_t one = fork();
    CHECK(one >= 0);
    if (one == 0) {
        struct ibv_cq *cq;
        void *with;
        CHECK(ibv_get_cq_event(p->channel, &cq, &with));
        CHECK(!ibv_destroy_qp(p->a) && !ibv_destroy_qp(p->b));
        CHECK(!ibv_destroy_cq(p->cq_a) && !ibv_destroy_cq(p->cq_b));
        CHECK(!ibv_destroy_comp_channel(p->channel));
        exit(0);
    }
    CHECK(waitpid(one, &status, 0) == one && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    take_event(p);

    CHECK(!ibv_req_notify_cq(p->cq_b, 0));
    one = fork();
    CHECK(one >= 0);
    if (one == 0) {
        CHECK(!post(p, p->b, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        struct ibv_wc wc = completed(p->cq_b);
        CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
        exit(0);
    }
    CHECK(waitpid(one, &status, 0) == one && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(has_event(p) == 0);
    write_and_wait(p);
    take_event(p);
}

/* A child that is made when no descriptor is left, and no file can be opened, has its own descriptors, too. */
static void without_descriptors(struct pair *p) {
    int status, taken[256], count = 0;
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 256;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    while (count < 256 && (taken[count] = dup(1)) >= 0)
        count++;
    CHECK(count < 256);
    pid_t one = fork();
    CHECK(one >= 0);
    if (one == 0)
        child(p);
    CHECK(waitpid(one, &status, 0) == one && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    while (count > 0)
        close(taken[--count]);
    /* The parent's poller has its links still, and its world knows of it. */
    CHECK(sockets() == 1);
    CHECK(!post(p, p->a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    complete(p->cq_a, 1);
}

int main(void) {
    int status;
    CHECK(!ibv_fork_init() && ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
    struct pair p = make_pair(0, 7);
    CHECK(sockets() == 1);
    for (uint64_t round = 1; round <= 3; round++) {
        p.here[0] = round;
        /* The first child is made before there is a link, and the others while writes are under way. */
        if (round > 1)
            CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        pid_t one = fork();
        CHECK(one >= 0);
        if (one == 0) {
            if (round > 1) {
                struct ibv_wc wc = completed(p.cq_a);
                CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_RETRY_EXC_ERR);
                if (wc.status != IBV_WC_SUCCESS)
                    exit(0);
            }
            child(&p);
        }
        CHECK(waitpid(one, &status, 0) == one && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (round > 1)
            complete(p.cq_a, 1);
        CHECK(sockets() == 1);
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        CHECK(!post(&p, p.a, IBV_WR_RDMA_READ, 8, 0, 1, IBV_SEND_SIGNALED));
        complete(p.cq_a, 1);
        CHECK(p.there[0] == round && p.here[8] == round && p.there[5] == 0);
    }
    events(&p);
    without_descriptors(&p);
    return 0;
}
