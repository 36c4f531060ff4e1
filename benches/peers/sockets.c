/* Plain TCP sockets between two processes of this host, which poll them all the time.
 *
 *   sockets ping-pong ITERATIONS SIZE   a message there and back, nanoseconds one way
 *   sockets send ITERATIONS SIZE [N]    messages a second in one direction, N in each write
 *
 * Receivers check the number and the content of each message. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Writes the number of a message, and a byte that follows from it in all the rest. */
static void fill(char *message, int size, uint64_t number) {
    memset(message, (char)number, (size_t)size);
    memcpy(message, &number, sizeof number);
}

static void check(const char *message, int size, uint64_t number) {
    uint64_t its;
    memcpy(&its, message, sizeof its);
    int wrong = its != number;
    for (int at = sizeof its; at < size; at++) wrong |= message[at] != (char)number;
    if (wrong) {
        fprintf(stderr, "sockets: message %lu is not as it was sent\n", (unsigned long)number);
        exit(1);
    }
}

static void give(int fd, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EAGAIN) fail("write");
        if (n > 0) bytes += n, len -= (size_t)n;
    }
}

/* Takes at least `least` bytes and at most `most`, by polling. */
static size_t take(int fd, char *bytes, size_t least, size_t most) {
    size_t have = 0;
    while (have < least) {
        ssize_t n = read(fd, bytes + have, most - have);
        if (n == 0) fail("the other process ended");
        if (n < 0 && errno != EAGAIN) fail("read");
        if (n > 0) have += (size_t)n;
    }
    return have;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long iterations = argc > 2 ? atol(argv[2]) : 100000, warmup = iterations / 10;
    int size = argc > 3 ? atoi(argv[3]) : 64, pack = argc > 4 ? atoi(argv[4]) : 1;
    int pong = !strcmp(what, "ping-pong");
    if ((!pong && strcmp(what, "send")) || iterations < 20 || size < 8 || pack < 1) return 2;

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1)) fail("listen");
    if (getsockname(listener, (struct sockaddr *)&at, &len)) fail("getsockname");
    pid_t child = fork();
    if (child < 0) fail("fork");
    int fd = child ? accept(listener, 0, 0) : socket(AF_INET, SOCK_STREAM, 0);
    if (!child && connect(fd, (struct sockaddr *)&at, len)) fail("connect");
    if (fd < 0) fail("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fcntl(fd, F_SETFL, O_NONBLOCK)) fail("fcntl");

    size_t room = (size_t)size * (size_t)pack;
    char *message = malloc(room), *incoming = malloc(1 << 20);
    double begin = now();
    if (pong) {
        for (long i = 0; i < iterations; i++) {
            if (i == warmup) begin = now();
            if (child) {
                fill(message, size, (uint64_t)i);
                give(fd, message, (size_t)size);
            }
            take(fd, incoming, (size_t)size, (size_t)size);
            check(incoming, size, (uint64_t)i);
            if (!child) give(fd, incoming, (size_t)size);
        }
        double seconds = now() - begin;
        if (child) printf("%.1f\n", seconds * 1e9 / (double)(iterations - warmup) / 2);
    } else if (child) {
        for (long i = 0; i < iterations; i += pack) {
            int some = iterations - i < pack ? (int)(iterations - i) : pack;
            for (int j = 0; j < some; j++) fill(message + (size_t)j * (size_t)size, size, (uint64_t)(i + j));
            give(fd, message, (size_t)some * (size_t)size);
        }
        take(fd, incoming, 1, 1); /* The receiver has all. */
        printf("%.1f\n", (double)iterations / (now() - begin));
    } else {
        size_t have = 0;
        for (long i = 0; i < iterations;) {
            have += take(fd, incoming + have, 1, (1 << 20) - have);
            size_t used = 0;
            for (; have - used >= (size_t)size; used += (size_t)size) check(incoming + used, size, (uint64_t)i++);
            memmove(incoming, incoming + used, have -= used);
        }
        give(fd, "!", 1);
    }
    int status = 0;
    if (child && (waitpid(child, &status, 0) < 0 || status)) fail("the receiver");
    return 0;
}
