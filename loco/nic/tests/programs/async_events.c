/* Asynchronous events and the end of what they are of, one sort of object in each case: `PROGRAM qp|srq|cq`. As the manual page of
 * ibv_get_async_event says, who destroys an object waits until its events that were taken are acknowledged. An event that nobody has
 * taken goes with its object. A child of fork has no thread that could acknowledge, so that it does not wait. */
#define _GNU_SOURCE
#include "../mistakes/pair.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* The rounds do not use a number of a queue pair twice: there are 4096. */
enum { ROUNDS = 2000, LONGEST = 1000, SECONDS = 60, LOOKS = 64 };

static struct pair p;

/* What is made for an event: the object that the event is of, and what is needed to raise it. */
struct made {
    struct ibv_qp *from, *to;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
};

/* The kind of object that a case is about. */
struct kind {
    const char *name;
    enum ibv_event_type type;
    struct made (*make)(void);
    /* Destroys what is in the object's way. */
    void (*clear)(struct made *);
    void *(*object)(struct made *);
    int (*destroy)(void *);
    /* Returns the object of an event, and reads of it to which device it belongs. */
    void *(*of)(struct ibv_async_event *);
    struct ibv_context *(*context)(struct ibv_async_event *);
};

static int is_readable(void) {
    struct pollfd poller = {.fd = p.context->async_fd, .events = POLLIN};
    return poll(&poller, 1, 0);
}

/* The number of events that a thread has taken which takes all of them. */
static atomic_int took;

/* Waits until there is an event, or until the thread has taken more than there were before. */
static void wait_for_event(int before) {
    while (is_readable() == 0 && took == before)
        sched_yield();
}

/* Makes two queue pairs that are connected; the second one's completions and receives are as said. */
static struct made connected(struct ibv_cq *cq, struct ibv_srq *srq) {
    struct made made = {.cq = cq, .srq = srq};
    struct ibv_qp_init_attr init = {
        .send_cq = p.cq_a,
        .recv_cq = p.cq_a,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    union ibv_gid gid;
    CHECK(!ibv_query_gid(p.context, 1, 1, &gid));
    CHECK(made.from = ibv_create_qp(p.pd, &init));
    init.send_cq = init.recv_cq = cq ? cq : p.cq_b;
    init.srq = srq;
    CHECK(made.to = ibv_create_qp(p.pd, &init));
    connect_to(made.from, made.to, &gid, 7);
    connect_to(made.to, made.from, &gid, 7);
    return made;
}

/* A queue pair that was asked for memory by a key that is not there. */
static struct made make_qp(void) {
    int before = took;
    struct made made = connected(NULL, NULL);
    uint32_t key = p.mr_there->rkey;
    p.mr_there->rkey = ~key;
    CHECK(!post(&p, made.from, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    p.mr_there->rkey = key;
    wait_for_event(before);
    return made;
}

static void clear_qp(struct made *made) {
    CHECK(!ibv_destroy_qp(made->from));
}

static void *qp_object(struct made *made) {
    return made->to;
}

static int destroy_qp(void *object) {
    return ibv_destroy_qp(object);
}

static void *of_qp(struct ibv_async_event *event) {
    return event->element.qp;
}

static struct ibv_context *context_of_qp(struct ibv_async_event *event) {
    return event->element.qp->context;
}

/* A shared receive queue that has fewer receives than its limit. */
static struct made make_srq(void) {
    int before = took;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(p.pd, &init);
    CHECK(srq);
    struct made made = connected(NULL, srq);
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
    CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
    struct ibv_srq_attr attr = {.srq_limit = 1};
    CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
    CHECK(!post(&p, made.from, IBV_WR_SEND, 0, 0, 0, IBV_SEND_SIGNALED));
    wait_for_event(before);
    return made;
}

static void clear_srq(struct made *made) {
    CHECK(!ibv_destroy_qp(made->from) && !ibv_destroy_qp(made->to));
}

static void *srq_object(struct made *made) {
    return made->srq;
}

static int destroy_srq(void *object) {
    return ibv_destroy_srq(object);
}

static void *of_srq(struct ibv_async_event *event) {
    return event->element.srq;
}

static struct ibv_context *context_of_srq(struct ibv_async_event *event) {
    return event->element.srq->context;
}

/* A completion queue that was too small. */
static struct made make_cq(void) {
    int before = took;
    struct ibv_cq *cq = ibv_create_cq(p.context, 1, NULL, NULL, 0);
    CHECK(cq);
    struct made made = connected(cq, NULL);
    for (int write = 0; write < 2; write++)
        CHECK(!post(&p, made.to, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_SEND_SIGNALED));
    wait_for_event(before);
    return made;
}

static void *cq_object(struct made *made) {
    return made->cq;
}

static int destroy_cq(void *object) {
    return ibv_destroy_cq(object);
}

static void *of_cq(struct ibv_async_event *event) {
    return event->element.cq;
}

static struct ibv_context *context_of_cq(struct ibv_async_event *event) {
    return event->element.cq->context;
}

static const struct kind kinds[] = {
    {"qp", IBV_EVENT_QP_ACCESS_ERR, make_qp, clear_qp, qp_object, destroy_qp, of_qp, context_of_qp},
    {"srq", IBV_EVENT_SRQ_LIMIT_REACHED, make_srq, clear_srq, srq_object, destroy_srq, of_srq, context_of_srq},
    {"cq", IBV_EVENT_CQ_ERR, make_cq, clear_srq, cq_object, destroy_cq, of_cq, context_of_cq},
};
static const struct kind *kind;

/* The thread that destroys. */
static void *object;
static atomic_int thread_number, destroyed;

static void *destroys(void *unused) {
    thread_number = gettid();
    CHECK(!kind->destroy(object));
    destroyed = 1;
    return unused;
}

/* Returns whether a thread of this process sleeps. */
static int sleeps(int thread) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t read = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[read] = 0;
    char *state = strrchr(line, ')');
    return state && state[1] && state[2] == 'S';
}

/* Waits until the thread that destroys has done so, or sleeps at each of some looks. */
static void wait_for_thread(void) {
    while (!thread_number)
        sched_yield();
    for (int looks = 0; looks < LOOKS && !destroyed;) {
        looks = sleeps(thread_number) ? looks + 1 : 0;
        sched_yield();
    }
}

static struct ibv_async_event taken(void) {
    struct ibv_async_event event;
    CHECK(!ibv_get_async_event(p.context, &event));
    CHECK(event.event_type == kind->type);
    return event;
}

static void waits_for_the_acknowledgement(void) {
    struct made made = kind->make();
    struct ibv_async_event event = taken();
    object = kind->object(&made);
    CHECK(kind->of(&event) == object);
    kind->clear(&made);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, destroys, NULL));
    wait_for_thread();
    CHECK(!destroyed);
    ibv_ack_async_event(&event);
    CHECK(!pthread_join(thread, NULL) && destroyed);
}

static void goes_with_its_object(void) {
    struct made made = kind->make();
    kind->clear(&made);
    CHECK(is_readable() == 1);
    CHECK(!kind->destroy(kind->object(&made)));
    CHECK(is_readable() == 0);
}

static void does_not_wait_in_a_child(void) {
    int status;
    struct made made = kind->make();
    struct ibv_async_event event = taken();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(SECONDS);
        kind->clear(&made);
        CHECK(!kind->destroy(kind->object(&made)));
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    kind->clear(&made);
    ibv_ack_async_event(&event);
    CHECK(!kind->destroy(kind->object(&made)));
}

static void *takes(void *unused) {
    for (;;) {
        struct ibv_async_event event = taken();
        /* The object is there until the event is acknowledged. */
        CHECK(kind->context(&event) == p.context);
        took++;
        ibv_ack_async_event(&event);
    }
    return unused;
}

/* Destroys objects while a thread takes their events: each event is taken, and waited for, or goes. */
static void races_with_who_takes(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, takes, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        struct made made = kind->make();
        kind->clear(&made);
        /* At another moment of the other thread's way in each round. */
        for (volatile int step = round * 7 % LONGEST; step > 0; step--) {
        }
        CHECK(!kind->destroy(kind->object(&made)));
        struct ibv_wc wc[8];
        while (ibv_poll_cq(p.cq_a, 8, wc) > 0 || ibv_poll_cq(p.cq_b, 8, wc) > 0) {
        }
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++)
        if (!strcmp(argv[1], kinds[at].name))
            kind = &kinds[at];
    CHECK(kind);
    alarm(SECONDS);
    p = make_pair(0, 7);
    goes_with_its_object();
    waits_for_the_acknowledgement();
    does_not_wait_in_a_child();
    races_with_who_takes();
    return 0;
}
