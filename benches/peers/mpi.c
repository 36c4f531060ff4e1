/* Two-sided, one-sided and collective operations of MPI, from rank 0 to the others.
 *
 *   mpirun -n 2 mpi put ITERATIONS SIZE        MPI_Put and MPI_Win_flush, operations a second
 *   mpirun -n 2 mpi get ITERATIONS SIZE        MPI_Get and MPI_Win_flush, operations a second
 *   mpirun -n 2 mpi get-time ITERATIONS SIZE   the same, nanoseconds an operation
 *   mpirun -n 2 mpi add-time ITERATIONS 8      MPI_Fetch_and_op and MPI_Win_flush, nanoseconds an operation
 *   mpirun -n 2 mpi send ITERATIONS SIZE       MPI_Send to MPI_Recv, messages a second
 *   mpirun -n 2 mpi pong-time ITERATIONS SIZE  MPI_Send there and back, nanoseconds one way
 *   mpirun -n 2 mpi bcast ITERATIONS SIZE [N]  blocking MPI_Bcast, messages a second; N messages are packed into one
 *
 * Receivers check what they receive. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

static void wrong(void) {
    fprintf(stderr, "mpi: a message is not as it was sent\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *what = argc > 1 ? argv[1] : "";
    long iterations = argc > 2 ? atol(argv[2]) : 100000;
    int size = argc > 3 ? atoi(argv[3]) : 8;
    int pack = argc > 4 ? atoi(argv[4]) : 1;
    if (iterations < 20 || size < 1 || pack < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    iterations /= pack;
    size *= pack;
    long warmup = iterations / 10;
    char *buffer = malloc((size_t)size), *memory;
    /* Written, as pages that never were are all one page of zeros, which stays in the first cache. */
    memset(buffer, 1, (size_t)size);
    MPI_Win window;
    MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 5, (size_t)size);
    int one_sided = !strcmp(what, "put") || !strncmp(what, "get", 3) || !strcmp(what, "add-time");
    int adds = what[0] == 'a';
    long one = 1, before, *counter = (long *)memory;
    if (adds && size != sizeof one) MPI_Abort(MPI_COMM_WORLD, 2);
    if (adds) *counter = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (one_sided && rank == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    double begin = 0;
    for (long i = 0; i < iterations; i++) {
        if (i == warmup) {
            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
        }
        if (one_sided) {
            if (rank != 0) continue;
            buffer[0] = buffer[size - 1] = (char)i;
            if (what[0] == 'p') {
                MPI_Put(buffer, size, MPI_CHAR, 1, 0, size, MPI_CHAR, window);
                MPI_Win_flush(1, window);
            } else if (adds) {
                MPI_Fetch_and_op(&one, &before, MPI_LONG, 1, 0, MPI_SUM, window);
                MPI_Win_flush(1, window);
                if (before != i) wrong();
            } else {
                MPI_Get(buffer, size, MPI_CHAR, 1, 0, size, MPI_CHAR, window);
                MPI_Win_flush(1, window);
                if (buffer[0] != 5 || buffer[size - 1] != 5) wrong();
            }
            continue;
        }
        if (rank == 0) buffer[0] = buffer[size - 1] = (char)i;
        if (!strcmp(what, "send")) {
            if (rank == 0) MPI_Send(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            if (rank == 1) MPI_Recv(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (!strcmp(what, "pong-time")) {
            if (rank == 0) MPI_Send(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1) MPI_Send(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        } else if (!strcmp(what, "bcast")) {
            MPI_Bcast(buffer, size, MPI_CHAR, 0, MPI_COMM_WORLD);
        } else {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        if ((rank != 0 || what[1] == 'o') && (buffer[0] != (char)i || buffer[size - 1] != (char)i)) wrong();
    }
    if (one_sided && rank == 0) MPI_Win_unlock(1, window);
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;
    if (one_sided && what[0] == 'p' && rank == 1 && memory[0] != (char)(iterations - 1)) wrong();
    double rate = (iterations - warmup) * (double)pack / seconds;
    if (what[0] == 'p' && what[1] == 'o') rate *= 2; /* one way */
    if (rank == 0) printf("%.1f\n", strstr(what, "-time") ? 1e9 / rate : rate);
    MPI_Win_free(&window);
    free(buffer);
    MPI_Finalize();
    return 0;
}
