#!/usr/bin/env bash
# What operations take with more and more processes on the same cores, next to OpenMPI with as many ranks (which yield,
# since there are more than slots). Prints a table in nanoseconds; the least of each, of some rounds.
#
#   benches/peers/crowded.sh [ROUNDS]      default 3; NODES="2 3 4 6 8"
#
# Needs what run.sh needs, and an otherwise idle machine. CI does not run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-3}
iterations=${ITERATIONS:-20000}
# A rank that starves is cut off here.
patience=${PATIENCE:-20}

command -v mpicc >/dev/null || { echo "crowded.sh: install openmpi-bin and libopenmpi-dev" >&2; exit 1; }
[ -n "${LOCO:-}" ] || cargo build --release --quiet --package loco-rdma-cli
loco=${LOCO:-${CARGO_TARGET_DIR:-target}/release/loco}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
mpicc -O2 -o "$built/barrier" benches/peers/barrier.c
mpicc -O2 -o "$built/ibcast" benches/peers/ibcast.c

mpi() { timeout "$patience" mpirun --allow-run-as-root --oversubscribe -n "$nodes" --mca pml ob1 "$@" 2>/dev/null || true; }
bench() {
    timeout "$patience" "$loco" bench "$1" --fabric shm --nodes "$nodes" --iters "$iterations" --json "${@:2}" || true
}
# The number FIELD of the result NAME.
field() { sed -n "/\"name\":\"$1\"/s/.*\"$2\":\([0-9.e+]*\).*/\1/p"; }
each() { awk '{ print 1e9 / $1 }'; }
least() { [ -s "$1" ] && sort -g "$1" | head -n1 | xargs printf '%.0f' || echo '-'; }

printf '%s, %s cores, least of %s, ns\n' "$(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo)" "$(nproc)" "$rounds"
format='%-6s %9s %12s %9s %12s %12s\n'
# shellcheck disable=SC2059 # The format is a constant.
printf "$format" nodes barrier MPI_Barrier put broadcast MPI_Ibcast
for nodes in ${NODES:-2 3 4 6 8}; do
    for ((round = 0; round < rounds; round++)); do
        bench barrier | field barrier operations_per_second | each >>"$built/$nodes.barrier"
        mpi "$built/barrier" "$iterations" >>"$built/$nodes.mpi-barrier"
        bench put | field put latency_ns_p50 >>"$built/$nodes.put"
        bench broadcast | field broadcast operations_per_second | each >>"$built/$nodes.broadcast"
        mpi "$built/ibcast" "$iterations" | each >>"$built/$nodes.mpi-ibcast"
    done
    # shellcheck disable=SC2059
    printf "$format" "$nodes" "$(least "$built/$nodes.barrier")" "$(least "$built/$nodes.mpi-barrier")" \
        "$(least "$built/$nodes.put")" "$(least "$built/$nodes.broadcast")" "$(least "$built/$nodes.mpi-ibcast")"
done
