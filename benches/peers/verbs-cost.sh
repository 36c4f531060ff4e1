#!/usr/bin/env bash
# What the verbs fabric costs over raw verbs: perftest and our `verbs_cost` in one run on one device, in turn, ROUNDS
# rounds (default 9); prints the median of each, the least and the greatest, and the ratios of the medians: in emulation
# single rounds of either differ by a factor of two. Runs in the virtual machine of ci/rdma-vm, or with --here on this
# host's device. Server and client, or our two nodes, have a processor each.
#
# Bounds: latency at most 1.1 times perftest's, message rate at least 0.9 of it. Exits with 1 if one is missed. In the
# virtual machine this means something only if the host does nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1:-}" != --inside ] && [ "${1:-}" != --here ]; then
    cargo build --release --quiet --package loco-verbs --example verbs_cost
    cargo build --release --quiet --package loco-rdma-cli
    release=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
    exec ci/rdma-vm --timeout 900 --env "release=$release" --env "ROUNDS=${ROUNDS:-9}" -- bash benches/peers/verbs-cost.sh --inside
fi
release=${release:-target/release}
device=$(basename "$(ls -d /sys/class/infiniband/* | head -n 1)")
gid=$("$release/loco" fabrics --json | sed 's/.*"chosen":{[^}]*"gid_index":\([0-9]*\).*/\1/')

# perftest TOOL COLUMN [OPTION...]: a server and a client; the column of the client's result line.
perftest() {
    local tool=$1 column=$2
    shift 2
    taskset -c 0 "$tool" -d "$device" -x "$gid" -F "$@" >/dev/null 2>&1 &
    local server=$!
    sleep 0.7
    taskset -c 1 "$tool" -d "$device" -x "$gid" -F "$@" 127.0.0.1 2>/dev/null | awk -v c="$column" '$1 == 8 { print $c }'
    wait "$server"
}

declare -A results
# keep NAME VALUE
keep() {
    [ -n "$2" ] || { echo "no result for $1" >&2; exit 1; }
    results[$1]+="$2"$'\n'
}

for _ in $(seq "${ROUNDS:-9}"); do
    # The typical (median) latency is in column 5, the message rate in millions a second in column 5.
    keep raw_put "$(perftest ib_write_lat 5 -s 8 -n 1000)"
    keep raw_get "$(perftest ib_read_lat 5 -s 8 -n 1000)"
    keep raw_add "$(perftest ib_atomic_lat 5 -n 1000)"
    keep raw_rate "$(perftest ib_write_bw 5 -s 8 -n 10000 -t 64 | awk '{ print $1 * 1e6 }')"
    # shellcheck disable=SC2016 # each node has its own number
    ours=$("$release/loco" run -n 2 --fabric verbs --no-prefix -- \
        sh -c 'exec taskset -c $((1 - LOCO_NODE)) "$0"' "$release/examples/verbs_cost")
    field() { awk -v n="$1" '$1 == n { print $2 }' <<<"$ours"; }
    keep put "$(field put_latency)"
    keep get "$(field get_latency)"
    keep add "$(field fetch_add_latency)"
    keep rate "$(field put_rate)"
done

missed=0
# median NAME: the median, the least and the greatest.
median() {
    printf '%s' "${results[$1]}" | sort -g |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'
}
# report TEXT NAME BOUND most|least
report() {
    echo "$(median "$2") $(median "raw_$2")" | awk -v name="$1" -v bound="$3" -v how="$4" '{
        ratio = $1 / $4
        ok = how == "most" ? ratio <= bound : ratio >= bound
        printf "%-18s %9.2f (%.2f-%.2f) %9.2f (%.2f-%.2f)  ratio %.3f (at %s %.1f)%s\n",
            name, $1, $2, $3, $4, $5, $6, ratio, how, bound, ok ? "" : "  MISSED"
        exit !ok
    }' || missed=1
}
printf 'medians of %s rounds   loco (least-greatest)   raw (least-greatest)\n' "${ROUNDS:-9}"
report "put latency, us" put 1.1 most
report "get latency, us" get 1.1 most
report "fetch-and-add, us" add 1.1 most
report "put rate, per s" rate 0.9 least
exit "$missed"
