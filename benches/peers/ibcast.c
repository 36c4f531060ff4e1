/* Messages a second of MPI_Ibcast from rank 0, with a window of broadcasts outstanding. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 4096 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    long iterations = argc > 1 ? atol(argv[1]) : 200000;
    int size = argc > 2 ? atoi(argv[2]) : 64;
    int window = argc > 3 ? atoi(argv[3]) : 64;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size < 1 || window < 1 || window > WINDOW_MAX) MPI_Abort(MPI_COMM_WORLD, 2);
    static MPI_Request requests[WINDOW_MAX];
    char *buffers = malloc((size_t)window * size);
    if (!buffers) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffers, rank, (size_t)window * size);
    for (int i = 0; i < window; i++) requests[i] = MPI_REQUEST_NULL;
    double begin = 0;
    for (long i = -iterations / 10; i < iterations; i++) {
        if (i == 0) {
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
        }
        int slot = (int)((i + iterations) % window);
        /* The one that used this slot is the oldest: a new one is sent when it has completed. */
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        MPI_Ibcast(buffers + (size_t)slot * size, size, MPI_CHAR, 0, MPI_COMM_WORLD, &requests[slot]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    /* Everybody has everything. */
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;
    if (rank == 0) printf("%.0f\n", iterations / seconds);
    free(buffers);
    MPI_Finalize();
    return 0;
}
