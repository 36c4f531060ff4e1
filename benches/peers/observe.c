/* What shared memory itself takes: two processes store to a word of their own and watch the other's, in turn. Prints the
 * median of half a round trip, in nanoseconds. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct words {
    _Alignas(128) _Atomic unsigned long ping;
    _Alignas(128) _Atomic unsigned long pong;
};

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void await(_Atomic unsigned long *word, unsigned long value) {
    while (atomic_load_explicit(word, memory_order_acquire) < value) __builtin_ia32_pause();
}

static int compare(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    long iterations = argc > 1 ? atol(argv[1]) : 100000, warmup = iterations / 10;
    struct words *words = mmap(NULL, sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long *times = calloc((size_t)iterations, sizeof *times);
    if (words == MAP_FAILED || !times) return 1;
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        for (long i = 1; i <= warmup + iterations; i++) {
            await(&words->ping, (unsigned long)i);
            atomic_store_explicit(&words->pong, (unsigned long)i, memory_order_release);
        }
        return 0;
    }
    for (long i = 1; i <= warmup + iterations; i++) {
        long begin = now();
        atomic_store_explicit(&words->ping, (unsigned long)i, memory_order_release);
        await(&words->pong, (unsigned long)i);
        if (i > warmup) times[i - warmup - 1] = now() - begin;
    }
    waitpid(child, NULL, 0);
    qsort(times, (size_t)iterations, sizeof *times, compare);
    printf("%.1f\n", times[iterations / 2] / 2.0);
    return 0;
}
