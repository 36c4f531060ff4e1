/* Lookups and updates on Redis, as `loco bench kv` does them on the store: one client process.
 *
 *   kv_redis SERVER fill KEYS
 *   kv_redis SERVER KEYS WINDOW SECONDS uniform|zipf read-only|mixed|write-only SEED
 *
 * SERVER is the path of a Unix socket, or HOST:PORT. Keys and values are 8 bytes, as they are in memory. WINDOW commands are written at once, then their replies are
 * read: pipelining. Keys are drawn before the time starts. Prints operations a second. Every reply is checked.
 * Built with: cc -O2 kv_redis.c -lhiredis -lm */
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PICKS (1 << 20)
#define ZIPF_EXPONENT 0.99

static uint64_t state;

/* splitmix64 */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t draw(void) { return mix(state += 0x9e3779b97f4a7c15u); }

/* The same keys as loco's. */
static uint64_t key(uint32_t i) { return mix(((uint64_t)i + 1) * 0x9e3779b97f4a7c15u); }

static uint64_t value(uint64_t key, uint32_t version) { return (uint64_t)version << 32 | (key & 0xffffffffu); }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "kv_redis: %s: %s\n", what, why);
    exit(1);
}

static void append(redisContext *redis, int write, uint64_t key, uint64_t value) {
    static const size_t set_lengths[] = {3, 8, 8}, get_lengths[] = {3, 8};
    const char *set[] = {"SET", (char *)&key, (char *)&value}, *get[] = {"GET", (char *)&key};
    int outcome = write ? redisAppendCommandArgv(redis, 3, set, set_lengths)
                        : redisAppendCommandArgv(redis, 2, get, get_lengths);
    if (outcome != REDIS_OK) fail("command", redis->errstr);
}

static void answer(redisContext *redis, int write, uint64_t key) {
    redisReply *reply;
    if (redisGetReply(redis, (void **)&reply) != REDIS_OK) fail("reply", redis->errstr);
    if (write) {
        if (reply->type != REDIS_REPLY_STATUS) fail("SET", "no status");
    } else {
        uint64_t found = 0;
        if (reply->type != REDIS_REPLY_STRING || reply->len != 8) fail("GET", "no value of 8 bytes");
        memcpy(&found, reply->str, 8);
        if ((found ^ key) & 0xffffffffu) fail("GET", "a value that nobody wrote");
    }
    freeReplyObject(reply);
}

static uint32_t *picks(uint32_t keys, int zipf) {
    uint32_t *drawn = malloc(PICKS * sizeof *drawn);
    double *until = malloc(keys * sizeof *until), sum = 0;
    for (uint32_t i = 0; i < keys; i++) until[i] = sum += zipf ? pow(i + 1, -ZIPF_EXPONENT) : 1;
    for (int i = 0; i < PICKS; i++) {
        double at = (draw() >> 11) * 0x1p-53 * sum;
        uint32_t low = 0, high = keys - 1;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (until[middle] > at) high = middle;
            else low = middle + 1;
        }
        drawn[i] = low;
    }
    free(until);
    return drawn;
}

static redisContext *server(char *name) {
    char *port = strrchr(name, ':');
    if (!port) return redisConnectUnix(name);
    *port = 0;
    return redisConnect(name, atoi(port + 1));
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 8) fail("usage", "kv_redis SERVER (fill KEYS | KEYS WINDOW SECONDS DISTRIBUTION MIX SEED)");
    redisContext *redis = server(argv[1]);
    if (!redis || redis->err) fail("connect", redis ? redis->errstr : "no memory");
    if (argc == 4) {
        uint32_t keys = strtoul(argv[3], 0, 10);
        for (uint32_t i = 0; i < keys; i += 100) {
            uint32_t end = i + 100 < keys ? i + 100 : keys;
            for (uint32_t j = i; j < end; j++) append(redis, 1, key(j), value(key(j), 0));
            for (uint32_t j = i; j < end; j++) answer(redis, 1, key(j));
        }
        return 0;
    }
    uint32_t keys = strtoul(argv[2], 0, 10), window = strtoul(argv[3], 0, 10), version = 0;
    double seconds = atof(argv[4]);
    int zipf = !strcmp(argv[5], "zipf");
    int writes = !strcmp(argv[6], "write-only"), mixed = !strcmp(argv[6], "mixed");
    state = strtoull(argv[7], 0, 10) << 32;
    uint32_t *drawn = picks(keys, zipf);
    uint8_t *is_write = malloc(PICKS);
    for (int i = 0; i < PICKS; i++) is_write[i] = writes || (mixed && draw() >> 63);
    uint64_t done = 0, at = 0;
    double warm = now() + seconds / 10, begin = 0, elapsed = 0;
    for (;;) {
        for (int round = 0; round < 16; round++, at += window, done += window) {
            if (at + window > PICKS) at = 0;
            for (uint32_t i = 0; i < window; i++) {
                uint64_t k = key(drawn[at + i]);
                append(redis, is_write[at + i], k, value(k, ++version));
            }
            for (uint32_t i = 0; i < window; i++) answer(redis, is_write[at + i], key(drawn[at + i]));
        }
        double time = now();
        if (!begin) {
            if (time >= warm) begin = time, done = 0;
        } else if ((elapsed = time - begin) >= seconds)
            break;
    }
    printf("%.1f\n", done / elapsed);
    return 0;
}
