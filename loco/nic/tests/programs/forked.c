/* A program that forks while it uses the device: the child has its own copy, which reaches nobody, and the parent goes on as before.
 * It exits with 0 if that is so. */
#include "../mistakes/pair.h"

#include <fcntl.h>
#include <glob.h>
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
    return 0;
}
