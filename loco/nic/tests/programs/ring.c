/* Processes of MPI send blocks round a ring, and add up what each has. The program exits with 0 if all blocks and sums are right. */
#include <mpi.h>

#include "../check.h"

enum { WORDS = 10000, ROUNDS = 20 };

int main(int argc, char **argv) {
    static long block[WORDS];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int word = 0; word < WORDS; word++)
        block[word] = rank;
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Sendrecv_replace(block, WORDS, MPI_LONG, (rank + 1) % size, 0, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        long from = ((rank - round) % size + size) % size, sum = 0, own = rank + round;
        for (int word = 0; word < WORDS; word++)
            CHECK(block[word] == from + (round - 1) * size);
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == (long)size * (size - 1) / 2 + (long)size * round);
        for (int word = 0; word < WORDS; word++)
            block[word] += size;
    }
    if (rank == 0)
        puts("the ring is closed");
    MPI_Finalize();
    return 0;
}
