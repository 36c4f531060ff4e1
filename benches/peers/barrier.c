/* Time of MPI_Barrier: mean over all, in nanoseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    long iterations = argc > 1 ? atol(argv[1]) : 200000;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < iterations / 10; i++) MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < iterations; i++) MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;
    if (rank == 0) printf("%.1f\n", seconds * 1e9 / iterations);
    MPI_Finalize();
    return 0;
}
