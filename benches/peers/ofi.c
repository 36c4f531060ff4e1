/* The one-sided operations of `loco bench` posted to libfabric itself, without any library: what they cost at least.
 *
 *   ofi put ITERATIONS [HOW...]            a word put to and fro and watched: half a round trip, in nanoseconds, median
 *   ofi get ITERATIONS [HOW...]            a read of a word, to its completion, in nanoseconds, median
 *   ofi add ITERATIONS [HOW...]            a fetch-and-add, to its completion, in nanoseconds, median
 *   ofi put-rate|get-rate|add-rate ITERATIONS [HOW...]
 *                                          operations a second of both processes, each with 64 under way at the other
 *
 * HOW is `rma`: puts and gets are writes and reads of libfabric, which may tear words, and not atomic ones as loco's are;
 * `fd`: the completion queue has a descriptor to sleep on, as loco's has; or `thread`: the process has a second thread, which
 * sleeps all the time. The kernel and the C library do less for a process with one.
 *
 * Two processes, provider `tcp` at 127.0.0.1. The endpoint, the modes of registration and the flags are those that loco asks
 * for (loco/ofi): FI_EP_RDM, FI_THREAD_DOMAIN, a completion for every operation, none that waits for delivery. Results are
 * checked.
 * Built with: cc -O2 ofi.c -lfabric -lpthread */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 64, HALF = WINDOW / 2, NAME_MAX_BYTES = 256, LINE = 128, TIMES_MAX = 10000000 };
enum verb { PUT, GET, ADD };
static const uint64_t FILL = 0x0505050505050505;

/* What the two processes tell one another besides. */
struct card {
    char name[NAME_MAX_BYTES];
    uint64_t base, key;
    _Alignas(LINE) _Atomic uint64_t phase;
    double rate;
};
static struct card *cards, *mine, *other;

/* The registered memory: words for the peer, and a word with its context for each operation under way. */
struct memory {
    _Alignas(LINE) _Atomic uint64_t bell;
    _Alignas(LINE) uint64_t data;
    _Alignas(LINE) _Atomic uint64_t counter;
    struct slot {
        _Alignas(LINE) uint64_t operand, result;
        uint64_t number;
        int busy;
        struct fi_context2 context;
    } slots[WINDOW];
};
static struct memory *memory;

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static fi_addr_t peer;
static int rma, descriptor, threads;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "ofi: %s: %s\n", what, why);
    exit(1);
}

static void ok(const char *what, long status) {
    if (status < 0) fail(what, fi_strerror((int)-status));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Takes completions, and makes progress: the peer's operations on this process's memory are carried out in here. More processes
 * than cores are allowed: who has waited for long lets others run. */
static void progress(void) {
    static long spins;
    struct fi_cq_entry entries[WINDOW];
    ssize_t n = fi_cq_read(cq, entries, WINDOW);
    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(cq, &error, 0);
        fail("an operation", fi_strerror(error.err));
    }
    if (n == -FI_EAGAIN) {
        if (++spins % 1000 == 0) sched_yield();
        return;
    }
    ok("fi_cq_read", n);
    for (ssize_t i = 0; i < n; i++) {
        struct slot *slot = (struct slot *)((char *)entries[i].op_context - offsetof(struct slot, context));
        slot->busy = 0;
    }
}

/* Waits for the peer to be as far as this process. */
static void meet(void) {
    uint64_t here = atomic_fetch_add(&mine->phase, 1) + 1;
    while (atomic_load(&other->phase) < here) progress();
}

static void open_endpoint(void) {
    struct fi_info *hints = fi_allocinfo();
    hints->caps = FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->fabric_attr->prov_name = strdup("tcp");
    ok("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
    ok("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    ok("fi_domain", fi_domain(fabric, info, &domain, NULL));
    struct fi_av_attr av_attr = {.type = info->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info->domain_attr->av_type};
    ok("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
    struct fi_cq_attr cq_attr = {.size = info->tx_attr->size > 1024 ? info->tx_attr->size : 1024,
                                 .format = FI_CQ_FORMAT_CONTEXT,
                                 .wait_obj = descriptor ? FI_WAIT_FD : FI_WAIT_NONE};
    ok("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
    ok("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    ok("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    ok("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    ok("fi_enable", fi_enable(ep));

    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap", "no memory");
    memset(memory, 0, sizeof *memory);
    memory->data = FILL;
    uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    ok("fi_mr_reg", fi_mr_reg(domain, memory, sizeof *memory, access, 0, 1, 0, &mr, NULL));
    if (info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
        ok("fi_mr_bind", fi_mr_bind(mr, &ep->fid, 0));
        ok("fi_mr_enable", fi_mr_enable(mr));
    }
    size_t length = sizeof mine->name;
    ok("fi_getname", fi_getname(&ep->fid, mine->name, &length));
    mine->base = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
    mine->key = fi_mr_key(mr);
    meet();
    if (fi_av_insert(av, other->name, 1, &peer, 0, NULL) != 1) fail("fi_av_insert", "the peer's address");
}

static void close_endpoint(void) {
    fi_close(&ep->fid);
    fi_close(&mr->fid);
    fi_close(&cq->fid);
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
}

/* Posts an operation on the peer's word at `offset`, as operation `number`. */
static void post(enum verb verb, size_t offset, uint64_t number, uint64_t operand) {
    struct slot *slot = &memory->slots[number % WINDOW];
    *slot = (struct slot){.operand = operand, .number = number, .busy = 1};
    void *desc = fi_mr_desc(mr), *result_desc = desc;
    ssize_t status;
    do {
        if (rma && verb != ADD) {
            struct iovec local = {verb == PUT ? &slot->operand : &slot->result, 8};
            struct fi_rma_iov remote = {other->base + offset, 8, other->key};
            struct fi_msg_rma message = {.msg_iov = &local, .desc = &desc, .iov_count = 1, .addr = peer,
                                         .rma_iov = &remote, .rma_iov_count = 1, .context = &slot->context};
            status = verb == PUT ? fi_writemsg(ep, &message, FI_COMPLETION) : fi_readmsg(ep, &message, FI_COMPLETION);
        } else {
            struct fi_ioc local = {&slot->operand, 1}, result = {&slot->result, 1};
            struct fi_rma_ioc remote = {other->base + offset, 1, other->key};
            struct fi_msg_atomic message = {.msg_iov = &local, .desc = &desc, .iov_count = 1, .addr = peer,
                                            .rma_iov = &remote, .rma_iov_count = 1, .datatype = FI_UINT64,
                                            .op = verb == PUT ? FI_ATOMIC_WRITE : verb == GET ? FI_ATOMIC_READ : FI_SUM,
                                            .context = &slot->context};
            if (verb == GET) message.msg_iov = NULL, message.iov_count = 0, message.desc = NULL;
            status = verb == PUT ? fi_atomicmsg(ep, &message, FI_COMPLETION)
                                 : fi_fetch_atomicmsg(ep, &message, &result, &result_desc, 1, FI_COMPLETION);
        }
        if (status == -FI_EAGAIN) progress();
    } while (status == -FI_EAGAIN);
    ok("posting", status);
}

/* Waits for operation `number`, and checks its result. Nobody else adds to the peer's counter. */
static void complete(enum verb verb, uint64_t number) {
    struct slot *slot = &memory->slots[number % WINDOW];
    while (slot->busy) progress();
    if (slot->number != number) fail("an operation", "another one has its place");
    if (verb == GET && slot->result != FILL) fail("a read", "not what the peer has there");
    if (verb == ADD && slot->result != number) fail("a fetch-and-add", "not the number of those before");
}

/* Posts `count` operations from number `first` on. One half of a window is waited for while the other is under way. */
static void batch(enum verb verb, size_t offset, long first, long count) {
    long waited = first;
    for (long i = first; i < first + count; i++) {
        /* A put's word is checked at the end. */
        post(verb, offset, (uint64_t)i, verb == ADD ? 1 : FILL);
        if ((i - first + 1) % HALF == 0)
            for (; waited <= i - HALF; waited++) complete(verb, (uint64_t)waited);
    }
    for (; waited < first + count; waited++) complete(verb, (uint64_t)waited);
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median(float *times, long count) {
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 2];
}

/* A word to and fro. The process that begins looks at the clock. */
static float round_trips(int begins, long warmup, long count, float *times) {
    for (long i = 1; i <= warmup + count; i++) {
        double begin = begins ? now() : 0;
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == begins) {
                /* The completion of an earlier put may not have been seen yet. */
                while (memory->slots[i % WINDOW].busy) progress();
                post(PUT, offsetof(struct memory, bell), (uint64_t)i, (uint64_t)i);
            } else
                while (atomic_load_explicit(&memory->bell, memory_order_acquire) < (uint64_t)i) progress();
        }
        if (begins && i > warmup) times[i - warmup - 1] = (float)((now() - begin) / 2);
    }
    meet();
    return begins ? median(times, count) : 0;
}

static float completions(enum verb verb, size_t offset, int begins, long warmup, long count, float *times) {
    for (long i = 0; begins && i < warmup + count; i++) {
        double begin = now();
        post(verb, offset, (uint64_t)i, 1);
        complete(verb, (uint64_t)i);
        if (i >= warmup) times[i - warmup] = (float)(now() - begin);
    }
    meet();
    return begins ? median(times, count) : 0;
}

static double rates(enum verb verb, size_t offset, long warmup, long count) {
    batch(verb, offset, 0, warmup);
    meet();
    double begin = now();
    batch(verb, offset, warmup, count);
    mine->rate = (double)count / (now() - begin) * 1e9;
    meet();
    if (verb == ADD && atomic_load(&memory->counter) != (uint64_t)(warmup + count)) fail("the counter", "not all additions");
    if (verb == PUT && memory->bell != FILL) fail("a put", "not what the peer put");
    return mine->rate + other->rate;
}

static void *sleeper(void *nothing) {
    for (;;) pause();
    return nothing;
}

static void run(int begins, const char *what, long iterations) {
    pthread_t thread;
    if (threads && pthread_create(&thread, NULL, sleeper, NULL)) fail("pthread_create", "no thread");
    cards[begins].phase = 0;
    mine = &cards[begins], other = &cards[!begins];
    open_endpoint();
    enum verb verb = what[0] == 'p' ? PUT : what[0] == 'g' ? GET : ADD;
    size_t offset = verb == PUT   ? offsetof(struct memory, bell)
                    : verb == GET ? offsetof(struct memory, data)
                                  : offsetof(struct memory, counter);
    long warmup = iterations / 10, count = iterations < TIMES_MAX ? iterations : TIMES_MAX;
    float *times = malloc((size_t)count * sizeof *times);
    /* The first operation makes the connection. */
    meet();
    double figure = strstr(what, "-rate") ? rates(verb, offset, warmup, iterations)
                    : verb == PUT         ? round_trips(begins, warmup, count, times)
                                          : completions(verb, offset, begins, warmup, count, times);
    if (begins) printf("%.1f\n", figure);
    meet();
    free(times);
    close_endpoint();
}

/* Neither process waits for one that has failed. */
static void ended(int signal) {
    int status;
    (void)signal;
    if (waitpid(-1, &status, 0) < 0 || status != 0) _exit(1);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *known[] = {"put", "get", "add", "put-rate", "get-rate", "add-rate"};
    long iterations = argc > 2 ? atol(argv[2]) : 100000;
    int found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= !strcmp(what, known[i]);
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "rma")) rma = 1;
        else if (!strcmp(argv[i], "fd")) descriptor = 1;
        else if (!strcmp(argv[i], "thread")) threads = 1;
        else found = 0;
    }
    if (!found || iterations < 1000) fail("usage", "ofi put|get|add[-rate] ITERATIONS [rma] [fd] [thread], at least 1000 iterations");
    cards = mmap(NULL, 2 * sizeof *cards, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cards == MAP_FAILED) fail("mmap", "no memory");
    signal(SIGCHLD, ended);
    pid_t child = fork();
    if (child < 0) fail("fork", "no process");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(0, what, iterations);
        return 0;
    }
    run(1, what, iterations);
    return 0;
}
