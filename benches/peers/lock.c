/* One contended lock, MPI one-sided: every rank increments a word on rank 0 by reading and writing it, under an
 * exclusive lock of the window (LOCO'26 B.1: MPI_Win_lock, OpenMPI).
 *
 *   mpirun -n 2 lock SECONDS
 *
 * Prints increments a second of all ranks together, and how often a second the lock went from one rank to the other; fails
 * if increments are lost. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    uint64_t *word, before, after = 0;
    MPI_Win window;
    MPI_Win_allocate(rank ? 0 : 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
    if (!rank) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        *word = 0;
        MPI_Win_unlock(0, window);
    }
    double mine = 0, elapsed = 0;
    uint64_t done = 0, all = 0, from_other = 0;
    double hand_overs = 0, hand_overs_together = 0;
    /* Warm-up, then the measurement. */
    for (int round = 0; round < 2; round++) {
        double duration = round ? seconds : seconds / 10;
        uint64_t count = 0;
        from_other = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        do {
            for (int i = 0; i < 64; i++, count++) {
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
                MPI_Get(&before, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, window);
                MPI_Win_flush(0, window);
                from_other += before != after;
                after = before + 1;
                MPI_Put(&after, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, window);
                MPI_Win_unlock(0, window);
            }
        } while ((elapsed = MPI_Wtime() - begin) < duration);
        mine = count / elapsed;
        hand_overs = from_other / elapsed;
        done += count;
    }
    double together = 0;
    MPI_Reduce(&mine, &together, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&hand_overs, &hand_overs_together, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&done, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    int wrong = 0;
    if (!rank) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        wrong = *word != all;
        if (wrong) fprintf(stderr, "lock: %lu of %lu increments\n", (unsigned long)*word, (unsigned long)all);
        MPI_Win_unlock(0, window);
        printf("%.1f %.1f\n", together, hand_overs_together);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return wrong;
}
