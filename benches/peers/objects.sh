#!/usr/bin/env bash
# Measures loco's key-value store, transfers and contended lock against Redis and OpenMPI's one-sided operations, in turn,
# on this machine, and prints the ratios.
#
#   benches/peers/objects.sh [ROUNDS]      default 3; the medians are compared
#
# Two processes a side: two nodes, two Redis clients (beside the server, over a Unix socket), two MPI ranks. A window is
# what Redis calls a pipeline. Environment: SECONDS_EACH (default 2) a measurement, CASES (default "kv lock transfer").
#
# Needs OpenMPI with its compiler, redis-server and hiredis: apt-get install openmpi-bin libopenmpi-dev redis-server
# libhiredis-dev (this script does so when run as root on Debian). Run it on an otherwise idle machine. CI does not run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-3}
seconds=${SECONDS_EACH:-2}
cases=${CASES:-kv lock transfer}
locks=341
accounts=1000000
# 80 % of 10 MB of keys and values of 8 bytes each.
keys=500000

if ! { command -v mpicc && command -v redis-server && [ -e /usr/include/hiredis/hiredis.h ]; } >/dev/null &&
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -qqy openmpi-bin libopenmpi-dev redis-server libhiredis-dev
fi
for program in mpicc mpirun redis-server; do
    command -v "$program" >/dev/null || { echo "objects.sh: $program is missing" >&2; exit 1; }
done

[ -n "${LOCO:-}" ] || cargo build --release --quiet --package loco-rdma-cli
loco=${LOCO:-${CARGO_TARGET_DIR:-target}/release/loco}
built=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$built"' EXIT
mpicc -O2 -o "$built/lock" benches/peers/lock.c
mpicc -O2 -o "$built/transfer" benches/peers/transfer.c
cc -O2 -o "$built/kv_redis" benches/peers/kv_redis.c -lhiredis -lm

# Over shared memory; more ranks than cores are allowed, and yield then.
mpi() { mpirun --allow-run-as-root --oversubscribe -n 2 --mca pml ob1 "$@" 2>/dev/null; }
# The rates of `loco bench` with these arguments, in one line.
bench() {
    "$loco" bench "$@" --fabric shm --nodes 2 --duration "$seconds" --json |
        sed -n 's/.*"operations_per_second":\([0-9.e+]*\).*/\1/p' | paste -sd' '
}
# Splits a line with a rate and its hand-overs into the files of SIDE.
rate_and_hand_overs() { read -r rate hand_overs && echo "$rate" >>"$built/$1-lock" && echo "$hand_overs" >>"$built/$1-hand-overs"; }
# Two clients at once.
redis() {
    "$built/kv_redis" "$built/socket" "$keys" "$1" "$seconds" "$2" "$3" 1 >"$built/one" &
    local first=$!
    "$built/kv_redis" "$built/socket" "$keys" "$1" "$seconds" "$2" "$3" 2 >"$built/other"
    wait "$first"
    cat "$built/one" "$built/other" | awk '{ sum += $1 } END { printf "%.1f\n", sum }'
}

redis_up() {
    [ -z "$server" ] || return 0
    redis-server --port 0 --unixsocket "$built/socket" --save '' --appendonly no >/dev/null &
    server=$!
    until [ -S "$built/socket" ]; do sleep 0.1; done
    "$built/kv_redis" "$built/socket" fill "$keys"
}
redis_down() { kill "$server" && wait "$server" || true; server=; }

# What is measured: a name, which is also that of the two files with the rounds' results.
names=()
for ((round = 1; round <= rounds; round++)); do
    printf 'round %d of %d\n' "$round" "$rounds" >&2
    for case in $cases; do
        case $case in
        kv)
            for distribution in ${DISTRIBUTIONS:-uniform zipf}; do
                for mix in read-only mixed write-only; do
                    for window in 3 128; do
                        name=kv-$distribution-$mix-$window
                        redis_up
                        redis "$window" "$distribution" "$mix" >>"$built/peer-$name"
                        # An idle server takes next to nothing, and is filled only once.
                        bench kv --window "$window" --distribution "$distribution" --mix "$mix" >>"$built/loco-$name"
                        [ "$round" -gt 1 ] || names+=("$name")
                    done
                done
            done
            redis_down
            ;;
        lock)
            mpi "$built/lock" "$seconds" | rate_and_hand_overs peer
            bench lock | rate_and_hand_overs loco
            [ "$round" -gt 1 ] || names+=(lock hand-overs)
            ;;
        transfer)
            mpi "$built/transfer" "$seconds" "$accounts" "$locks" >>"$built/peer-transfer"
            bench transfer --accounts "$accounts" --locks "$locks" >>"$built/loco-transfer"
            [ "$round" -gt 1 ] || names+=(transfer)
            ;;
        *) echo "objects.sh: no case $case" >&2; exit 2 ;;
        esac
    done
done

median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
goal() {
    case $1 in
    kv-*-read-only-3) echo 20 ;;
    kv-*-read-only-128) echo 10 ;;
    kv-*-mixed-3) echo 10 ;;
    kv-*-mixed-128) echo 5 ;;
    lock) echo 1 ;;
    transfer) echo 1.5 ;;
    *) echo - ;;
    esac
}
printf '%s, 2 processes, medians of %s, operations a second\n' \
    "$(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo)" "$rounds"
# The ratio of each round, from least to most.
spread() { paste "$built/loco-$1" "$built/peer-$1" | awk '{ print $1 / $2 }' | sort -g | sed -n '1p;$p' | paste -sd- | awk -F- '{ printf "%.2f-%.2f", $1, $2 }'; }
printf '%-28s %12s %12s %8s %15s %8s\n' '' loco peer ratio rounds 'at least'
for name in "${names[@]}"; do
    awk -v name="$name" -v loco="$(median "$built/loco-$name")" -v peer="$(median "$built/peer-$name")" \
        -v goal="$(goal "$name")" -v spread="$(spread "$name")" \
        'BEGIN { printf "%-28s %12.0f %12.0f %8.2f %15s %8s\n", name, loco, peer, loco / peer, spread, goal }'
done
