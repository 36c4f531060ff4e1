/* A thread forks again and again while another opens the device: a child that was made before can open one, and one that was made after
 * cannot (EOPNOTSUPP). None of them waits for ever. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

enum { AFTER = 5, SECONDS = 60 };

static struct ibv_device *device;
static atomic_int made, opened;

/* Exits with 0 if the device opens, with 1 if it is refused as the parent's, and with 2 otherwise. */
static void child(void) {
    alarm(SECONDS);
    struct ibv_context *context = ibv_open_device(device);
    _exit(context ? 0 : errno == EOPNOTSUPP ? 1 : 2);
}

static void *forks(void *unused) {
    int left = AFTER, last = 0;
    while (left > 0) {
        /* What is made from now on is the parent's. */
        int late = atomic_load(&opened), status;
        pid_t one = fork();
        CHECK(one >= 0);
        if (one == 0)
            child();
        atomic_fetch_add(&made, 1);
        CHECK(waitpid(one, &status, 0) == one && WIFEXITED(status) && WEXITSTATUS(status) < 2);
        /* Once the parent has one, no later child opens its own. */
        CHECK(WEXITSTATUS(status) >= last && (!late || WEXITSTATUS(status) == 1));
        last = WEXITSTATUS(status);
        left -= late;
    }
    return unused;
}

int main(void) {
    pthread_t forker;
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && (device = list[0]));
    CHECK(!pthread_create(&forker, NULL, forks, NULL));
    while (atomic_load(&made) < 1) {
    }
    CHECK(ibv_open_device(device));
    atomic_store(&opened, 1);
    CHECK(!pthread_join(forker, NULL));
    return 0;
}
