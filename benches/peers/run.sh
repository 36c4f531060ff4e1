#!/usr/bin/env bash
# Measures loco and its peers in turn, on this machine, and prints the ratios.
#
#   benches/peers/run.sh [ROUNDS]      default 5; the best of each side counts
#
# Needs OpenMPI with its compiler: apt-get install openmpi-bin libopenmpi-dev (this script does so when run as root on
# Debian). Run it on an otherwise idle machine. CI does not run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-5}
nodes=${NODES:-2}
iterations=${ITERATIONS:-200000}

if ! command -v mpicc >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -qqy openmpi-bin libopenmpi-dev
fi
command -v mpicc >/dev/null || { echo "run.sh: install openmpi-bin and libopenmpi-dev" >&2; exit 1; }

[ -n "${LOCO:-}" ] || cargo build --release --quiet --package loco-rdma-cli
loco=${LOCO:-${CARGO_TARGET_DIR:-target}/release/loco}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
mpicc -O2 -o "$built/barrier" benches/peers/barrier.c
mpicc -O2 -o "$built/ibcast" benches/peers/ibcast.c
cc -O2 -o "$built/observe" benches/peers/observe.c

# Over shared memory; more ranks than cores are allowed, and yield then.
mpi() { mpirun --allow-run-as-root --oversubscribe -n "$nodes" --mca pml ob1 "$@" 2>/dev/null; }

# The number FIELD of the result NAME.
field() { sed -n "/\"name\":\"$1\"/s/.*\"$2\":\([0-9.e+]*\).*/\1/p"; }
bench() { "$loco" bench "$1" --fabric shm --nodes "$nodes" --iters "$iterations" --json "${@:2}"; }

for ((round = 1; round <= rounds; round++)); do
    printf 'round %d of %d\n' "$round" "$rounds" >&2
    mpi "$built/barrier" "$iterations" >>"$built/mpi-barrier"
    bench barrier >"$built/out"
    field barrier operations_per_second <"$built/out" | awk '{ print 1e9 / $1 }' >>"$built/loco-barrier"
    field barrier-fenced operations_per_second <"$built/out" | awk '{ print 1e9 / $1 }' >>"$built/loco-fenced"
    mpi "$built/ibcast" "$iterations" 64 64 >>"$built/mpi-broadcast"
    bench broadcast --size 64 --window 64 >"$built/out"
    field broadcast operations_per_second <"$built/out" >>"$built/loco-broadcast"
    field broadcast-single operations_per_second <"$built/out" >>"$built/loco-single"
    "$built/observe" "$iterations" >>"$built/plain"
    bench put --size 8 | field put latency_ns_p50 >>"$built/loco-put"
done

least() { sort -g "$built/$1" | head -n1; }
most() { sort -g "$built/$1" | tail -n1; }
row() { awk -v name="$1" -v unit="$2" -v loco="$3" -v peer="$4" -v ratio="$5" -v goal="$6" 'BEGIN {
    printf "%-28s %14.1f %14.1f %-5s %7.2f   (%s)\n", name, loco, peer, unit, ratio, goal }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }

printf '%s, %s processes, best of %s\n' "$(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo)" "$nodes" "$rounds"
printf '%-28s %14s %14s %-5s %7s\n' '' loco peer '' ratio
row 'barrier / MPI_Barrier' ns "$(least loco-barrier)" "$(least mpi-barrier)" \
    "$(ratio "$(least loco-barrier)" "$(least mpi-barrier)")" 'at most 0.5'
row 'fenced barrier / MPI_Barrier' ns "$(least loco-fenced)" "$(least mpi-barrier)" \
    "$(ratio "$(least loco-fenced)" "$(least mpi-barrier)")" 'MPI promises no fence'
row 'put / store and observe' ns "$(least loco-put)" "$(least plain)" \
    "$(ratio "$(least loco-put)" "$(least plain)")" 'at most 1.5'
row 'broadcast / MPI_Ibcast' '/s' "$(most loco-broadcast)" "$(most mpi-broadcast)" \
    "$(ratio "$(most loco-broadcast)" "$(most mpi-broadcast)")" 'at least 5; submitted a window at a time'
row 'the same, one by one' '/s' "$(most loco-single)" "$(most mpi-broadcast)" \
    "$(ratio "$(most loco-single)" "$(most mpi-broadcast)")" 'one put and one head each'
