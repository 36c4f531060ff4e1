/* What two processes that share memory can do without any library: the limit for every other figure.
 *
 *   memory observe ITERATIONS          one word, stored and watched in turn: half a round trip, in nanoseconds, median
 *   memory pingpong ITERATIONS SIZE    the same with a message that is copied in and out
 *   memory ring ITERATIONS SIZE        messages a second through a ring of records with a flag each, copied in and out
 *   memory copy ITERATIONS SIZE        copies a second into memory of the other process, which looks at none of them
 *   memory read ITERATIONS             reads a second of a word that the other process wrote
 *   memory ticket ITERATIONS           increments a second of a word under a ticket lock of both processes
 *   memory hand-overs ITERATIONS       the same; those a second that came after one of the other process
 *
 * Receivers check what they receive; increments are counted. Any difference is a failure. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 128, SLOTS_MAX = 64, RING_BYTES = 8 << 20, PIECE = 64, PIECES_MAX = 1 << 20 };

struct shared {
    _Alignas(LINE) _Atomic unsigned long ping;
    _Alignas(LINE) _Atomic unsigned long pong;
    _Alignas(LINE) _Atomic unsigned long next;
    _Alignas(LINE) _Atomic unsigned long serving;
    _Alignas(LINE) unsigned long counter;
    _Alignas(LINE) _Atomic unsigned long finished;
    _Alignas(LINE) _Atomic unsigned long handed_over;
    _Alignas(LINE) _Atomic unsigned long ready;
    _Alignas(LINE) char data[RING_BYTES + SLOTS_MAX * LINE];
};

static struct shared *shared;
static long size = 8;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* More processes than cores are allowed: who has waited for long lets others run. */
static void await(_Atomic unsigned long *word, unsigned long value) {
    for (unsigned long spins = 0; atomic_load_explicit(word, memory_order_acquire) < value; spins++) {
        if (spins < 100000)
            __builtin_ia32_pause();
        else
            sched_yield();
    }
}

static void differs(const char *what) {
    fprintf(stderr, "memory: %s is not as it was written\n", what);
    exit(1);
}

static void check(const char *message, unsigned long number) {
    if (message[0] != (char)number || message[size - 1] != (char)number) differs("a message");
}

/* Runs `child` in another process beside `parent`, and fails if it fails. Returns the seconds of `parent`. */
static double together(void (*child)(long), double (*parent)(long), long iterations) {
    pid_t other = fork();
    if (other < 0) exit(1);
    if (other == 0) {
        child(iterations);
        _exit(0);
    }
    double seconds = parent(iterations);
    int status;
    if (waitpid(other, &status, 0) != other || status != 0) exit(1);
    return seconds;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times round trips in pieces: reading the clock takes as long as one, and a piece that other work interrupts says nothing. The
 * first tenth is not measured. */
static double pieces[PIECES_MAX], piece_begin;
static long pieces_made;

static void after_round_trip(long i, long warmup) {
    if (i < warmup || (i - warmup) % PIECE != 0) return;
    double time = now();
    if (i > warmup && pieces_made < PIECES_MAX) pieces[pieces_made++] = time - piece_begin;
    piece_begin = time;
}

/* Seconds that `count` round trips take, by the median piece. */
static double by_median(long count) {
    if (pieces_made == 0) differs("the number of iterations, which is too small,");
    qsort(pieces, (size_t)pieces_made, sizeof *pieces, compare);
    return pieces[pieces_made / 2] / PIECE * count;
}

static void observe_child(long iterations) {
    for (long i = 1; i <= iterations; i++) {
        await(&shared->ping, (unsigned long)i);
        atomic_store_explicit(&shared->pong, (unsigned long)i, memory_order_release);
    }
}

static double observe_parent(long iterations) {
    long warmup = iterations / 10;
    for (long i = 1; i <= iterations; i++) {
        atomic_store_explicit(&shared->ping, (unsigned long)i, memory_order_release);
        await(&shared->pong, (unsigned long)i);
        after_round_trip(i, warmup);
    }
    return by_median(iterations - warmup);
}

/* Each way a buffer and a word that says which message is in it. */
static void pingpong_child(long iterations) {
    char *in = shared->data, *out = shared->data + RING_BYTES / 2, *copy = calloc(1, (size_t)size);
    for (long i = 1; i <= iterations; i++) {
        await(&shared->ping, (unsigned long)i);
        memcpy(copy, in, (size_t)size);
        check(copy, (unsigned long)i);
        memcpy(out, copy, (size_t)size);
        atomic_store_explicit(&shared->pong, (unsigned long)i, memory_order_release);
    }
}

static double pingpong_parent(long iterations) {
    char *out = shared->data, *in = shared->data + RING_BYTES / 2, *message = calloc(1, (size_t)size);
    long warmup = iterations / 10;
    for (long i = 1; i <= iterations; i++) {
        message[0] = message[size - 1] = (char)i;
        memcpy(out, message, (size_t)size);
        atomic_store_explicit(&shared->ping, (unsigned long)i, memory_order_release);
        await(&shared->pong, (unsigned long)i);
        memcpy(message, in, (size_t)size);
        check(message, (unsigned long)i);
        after_round_trip(i, warmup);
    }
    return by_median(iterations - warmup);
}

/* A record is a word with its number and the message. The reader says now and then how far it is. */
static long slots(void) {
    long fit = RING_BYTES / size;
    return fit < 4 ? 4 : fit > SLOTS_MAX ? SLOTS_MAX : fit;
}

static char *record(long number, _Atomic unsigned long **flag) {
    long stride = (size + 8 + 63) / 64 * 64;
    char *at = shared->data + number % slots() * stride;
    *flag = (_Atomic unsigned long *)at;
    return at + 8;
}

static void ring_child(long iterations) {
    char *copy = calloc(1, (size_t)size);
    _Atomic unsigned long *flag;
    for (long i = 1; i <= iterations; i++) {
        char *message = record(i, &flag);
        await(flag, (unsigned long)i);
        memcpy(copy, message, (size_t)size);
        check(copy, (unsigned long)i);
        if (i % (slots() / 4) == 0 || i == iterations)
            atomic_store_explicit(&shared->pong, (unsigned long)i, memory_order_release);
    }
}

static double ring_parent(long iterations) {
    char *message = malloc((size_t)size);
    memset(message, 1, (size_t)size);
    _Atomic unsigned long *flag;
    double begin = 0;
    for (long i = 1, warmup = iterations / 10; i <= iterations; i++) {
        if (i == warmup + 1) begin = now();
        if (i > slots()) await(&shared->pong, (unsigned long)(i - slots()));
        message[0] = message[size - 1] = (char)i;
        memcpy(record(i, &flag), message, (size_t)size);
        atomic_store_explicit(flag, (unsigned long)i, memory_order_release);
    }
    await(&shared->pong, (unsigned long)iterations);
    return now() - begin;
}

static void idle_child(long iterations) {
    (void)iterations;
    await(&shared->ping, 1);
}

static double copy_parent(long iterations) {
    char *message = malloc((size_t)size);
    memset(message, 1, (size_t)size);
    double begin = 0;
    for (long i = 1, warmup = iterations / 10; i <= iterations; i++) {
        if (i == warmup + 1) begin = now();
        memcpy(shared->data, message, (size_t)size);
        atomic_signal_fence(memory_order_seq_cst);
    }
    double seconds = now() - begin;
    atomic_store(&shared->ping, 1);
    return seconds;
}

static double read_parent(long iterations) {
    volatile unsigned long found;
    double begin = 0;
    for (long i = 1, warmup = iterations / 10; i <= iterations; i++) {
        if (i == warmup + 1) begin = now();
        found = atomic_load_explicit(&shared->pong, memory_order_acquire);
    }
    (void)found;
    double seconds = now() - begin;
    atomic_store(&shared->ping, 1);
    return seconds;
}

static void increments(long iterations) {
    unsigned long last = 0, handed_over = 0;
    for (long i = 0; i < iterations; i++) {
        unsigned long mine = atomic_fetch_add_explicit(&shared->next, 1, memory_order_relaxed);
        await(&shared->serving, mine);
        unsigned long before = shared->counter;
        handed_over += before != last;
        shared->counter = last = before + 1;
        atomic_store_explicit(&shared->serving, mine + 1, memory_order_release);
    }
    atomic_fetch_add(&shared->handed_over, handed_over);
    atomic_fetch_add(&shared->finished, 1);
}

/* Both begin at the same time: a few increments are over before the other process has started. */
static void meet(void) {
    atomic_fetch_add(&shared->ready, 1);
    await(&shared->ready, 2);
}

static void ticket_child(long iterations) {
    meet();
    increments(iterations / 2);
}

static double ticket_parent(long iterations) {
    meet();
    double begin = now();
    increments(iterations / 2);
    await(&shared->finished, 2);
    double seconds = now() - begin;
    if (shared->counter != (unsigned long)(iterations / 2 * 2)) differs("the counter");
    return seconds;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long iterations = argc > 2 ? atol(argv[2]) : 100000;
    if (argc > 3) size = atol(argv[3]);
    if (iterations < 1000 || size < 1 || size > RING_BYTES / 4) {
        fprintf(stderr, "memory: at least 1000 iterations; sizes up to %d\n", RING_BYTES / 4);
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    memset(shared, 0, sizeof *shared);
    long measured = iterations - iterations / 10;
    if (!strcmp(what, "observe"))
        printf("%.2f\n", together(observe_child, observe_parent, iterations) / measured * 5e8);
    else if (!strcmp(what, "pingpong"))
        printf("%.2f\n", together(pingpong_child, pingpong_parent, iterations) / measured * 5e8);
    else if (!strcmp(what, "ring"))
        printf("%.1f\n", measured / together(ring_child, ring_parent, iterations));
    else if (!strcmp(what, "copy"))
        printf("%.1f\n", measured / together(idle_child, copy_parent, iterations));
    else if (!strcmp(what, "read"))
        printf("%.1f\n", measured / together(idle_child, read_parent, iterations));
    else if (!strcmp(what, "ticket"))
        printf("%.1f\n", (iterations / 2 * 2) / together(ticket_child, ticket_parent, iterations));
    else if (!strcmp(what, "hand-overs")) {
        double seconds = together(ticket_child, ticket_parent, iterations);
        printf("%.1f\n", atomic_load(&shared->handed_over) / seconds);
    } else {
        fprintf(stderr, "memory: observe, pingpong, ring, copy, read, ticket or hand-overs\n");
        return 2;
    }
    return 0;
}
