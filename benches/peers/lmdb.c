/* Lookups a second of two processes in one LMDB: keys and values of 8 bytes, every key equally likely.
 *
 *   lmdb FOLDER ITERATIONS KEYS WINDOW     WINDOW lookups in one read transaction
 *
 * Makes the database in FOLDER if there is none, without writing it through to the disk. Values are checked. */
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void must(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "lmdb: %s: %s\n", what, mdb_strerror(code));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static MDB_env *open_folder(const char *folder) {
    MDB_env *env;
    must(mdb_env_create(&env), "making an environment");
    must(mdb_env_set_mapsize(env, (size_t)1 << 30), "setting its size");
    must(mdb_env_open(env, folder, MDB_NOSYNC | MDB_WRITEMAP, 0600), folder);
    return env;
}

static void fill(const char *folder, uint64_t keys) {
    MDB_env *env = open_folder(folder);
    MDB_txn *txn;
    MDB_dbi table;
    must(mdb_txn_begin(env, NULL, 0, &txn), "beginning");
    must(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &table), "opening");
    for (uint64_t i = 0; i < keys; i++) {
        uint64_t value = i * 3;
        MDB_val key = {8, &i}, data = {8, &value};
        must(mdb_put(txn, table, &key, &data, 0), "putting");
    }
    must(mdb_txn_commit(txn), "committing");
    mdb_env_close(env);
}

/* Seconds for so many lookups. */
static double look_up(const char *folder, long iterations, uint64_t keys, long window, uint64_t random) {
    MDB_env *env = open_folder(folder);
    MDB_txn *txn;
    MDB_dbi table;
    must(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "beginning");
    must(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &table), "opening");
    mdb_txn_reset(txn);
    double begin = 0;
    for (long i = 0, left = 0, warmup = iterations / 10; i < iterations; i++) {
        if (i == warmup) begin = now();
        if (left == 0) {
            must(mdb_txn_renew(txn), "renewing");
            left = window;
        }
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t key = random % keys;
        MDB_val at = {8, &key}, data;
        must(mdb_get(txn, table, &at, &data), "getting");
        uint64_t value;
        memcpy(&value, data.mv_data, 8);
        if (value != key * 3) must(MDB_CORRUPTED, "a value");
        if (--left == 0) mdb_txn_reset(txn);
    }
    double seconds = now() - begin;
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return seconds;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    long iterations = atol(argv[2]), window = atol(argv[4]);
    uint64_t keys = strtoull(argv[3], NULL, 10);
    char data[4096];
    snprintf(data, sizeof data, "%s/data.mdb", argv[1]);
    if (access(data, F_OK) != 0) fill(argv[1], keys);
    double *seconds = mmap(NULL, 2 * sizeof *seconds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seconds == MAP_FAILED || iterations < 20 || window < 1) return 1;
    long each = iterations / 2;
    pid_t other = fork();
    if (other < 0) return 1;
    if (other == 0) {
        seconds[1] = look_up(argv[1], each, keys, window, 88172645463325252ULL);
        _exit(0);
    }
    seconds[0] = look_up(argv[1], each, keys, window, 1442695040888963407ULL);
    int status;
    if (waitpid(other, &status, 0) != other || status != 0) return 1;
    double measured = each - each / 10;
    printf("%.1f\n", measured / seconds[0] + measured / seconds[1]);
    return 0;
}
