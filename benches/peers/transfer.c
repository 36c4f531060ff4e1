/* Transfers between two random accounts, MPI one-sided: the accounts are distributed over windows, each of which has a
 * lock per rank; a transfer takes the locks of both accounts in order (LOCO'26 B.1).
 *
 *   mpirun -n 2 transfer SECONDS ACCOUNTS WINDOWS
 *
 * Account `a` is in window `a % WINDOWS`, on rank `a / WINDOWS % ranks`. Prints transfers a second of all ranks
 * together; fails if money is made or lost. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPOSIT 1000

static uint64_t state;

/* splitmix64 */
static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int ranks, windows;
static MPI_Win *window;

struct place { int window, rank; MPI_Aint at; };

static struct place place(uint64_t account) {
    struct place p = {account % windows, account / windows % ranks, account / windows / ranks};
    return p;
}

static int after(struct place a, struct place b) {
    return a.window != b.window ? a.window > b.window : a.rank > b.rank;
}

static void transfer(struct place from, struct place to, int64_t amount) {
    struct place first = from, second = to;
    if (after(first, second)) first = to, second = from;
    int same = first.window == second.window && first.rank == second.rank;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first.rank, 0, window[first.window]);
    if (!same) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, second.rank, 0, window[second.window]);
    int64_t has, other;
    MPI_Get(&has, 1, MPI_INT64_T, from.rank, from.at, 1, MPI_INT64_T, window[from.window]);
    MPI_Get(&other, 1, MPI_INT64_T, to.rank, to.at, 1, MPI_INT64_T, window[to.window]);
    MPI_Win_flush(from.rank, window[from.window]);
    if (!same) MPI_Win_flush(to.rank, window[to.window]);
    if (has >= amount) {
        has -= amount;
        other += amount;
        MPI_Put(&has, 1, MPI_INT64_T, from.rank, from.at, 1, MPI_INT64_T, window[from.window]);
        MPI_Put(&other, 1, MPI_INT64_T, to.rank, to.at, 1, MPI_INT64_T, window[to.window]);
    }
    if (!same) MPI_Win_unlock(second.rank, window[second.window]);
    MPI_Win_unlock(first.rank, window[first.window]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    uint64_t accounts = argc > 2 ? strtoull(argv[2], 0, 10) : 1000000;
    windows = argc > 3 ? atoi(argv[3]) : 341;
    state = (uint64_t)(rank + 1) << 32;
    MPI_Aint each = accounts / windows / ranks + 1;
    window = calloc(windows, sizeof *window);
    int64_t **memory = calloc(windows, sizeof *memory);
    for (int w = 0; w < windows; w++)
        MPI_Win_allocate(each * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[w], &window[w]);
    for (int w = 0; w < windows; w++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window[w]);
        for (MPI_Aint i = 0; i < each; i++) memory[w][i] = DEPOSIT;
        MPI_Win_unlock(rank, window[w]);
    }
    double mine = 0, elapsed = 0;
    for (int round = 0; round < 2; round++) {
        double duration = round ? seconds : seconds / 10;
        uint64_t count = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        do {
            for (int i = 0; i < 64; i++, count++) {
                uint64_t from = draw() % accounts, to = (from + 1 + draw() % (accounts - 1)) % accounts;
                transfer(place(from), place(to), 1 + draw() % 100);
            }
        } while ((elapsed = MPI_Wtime() - begin) < duration);
        mine = count / elapsed;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double together = 0;
    int64_t held = 0, all = 0;
    for (int w = 0; w < windows; w++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window[w]);
        for (MPI_Aint i = 0; i < each; i++) held += memory[w][i];
        MPI_Win_unlock(rank, window[w]);
    }
    MPI_Reduce(&mine, &together, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&held, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    int wrong = 0;
    if (!rank) {
        int64_t deposits = (int64_t)DEPOSIT * each * windows * ranks;
        wrong = all != deposits;
        if (wrong) fprintf(stderr, "transfer: the accounts hold %ld, not %ld\n", (long)all, (long)deposits);
        printf("%.1f\n", together);
    }
    for (int w = 0; w < windows; w++) MPI_Win_free(&window[w]);
    MPI_Finalize();
    return wrong;
}
