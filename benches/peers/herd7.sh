#!/usr/bin/env bash
# Compares `mowgli check --model tso` with herd7 on the x86 tests beside this script: verdicts, then time.
#
#   benches/peers/herd7.sh [REPEAT]
#
# Needs herd7 on PATH (or in $HERD7; $HERD7_FLAGS for `-set-libdir`) and mowgli (or $MOWGLI), built with --release. Each test
# exists twice, NAME.x86 for herd7 and NAME.litmus for mowgli. Two figures, each CPU time (user and system) per test, so
# that a busy machine disturbs them little:
#   alone     one process a test, as a user or a script would; start-up is in it
#   together  one process for REPEAT times all tests; start-up is next to nothing
# herd7 runs with its default model for X86 (x86tso.cat), and neither tool prints to a terminal.
# shellcheck disable=SC2086 # The flags are words.
set -eu

repeat=${1:-20}
herd=${HERD7:-herd7}
mowgli=${MOWGLI:-mowgli}
flags=${HERD7_FLAGS:-}
tests=$(dirname "$0")/x86
command -v "$herd" > /dev/null || { echo "no herd7: set HERD7 or install herdtools7" >&2; exit 2; }
command -v "$mowgli" > /dev/null || { echo "no mowgli: set MOWGLI or build it" >&2; exit 2; }

# CPU time of a command, in microseconds.
cpu_us() {
    local TIMEFORMAT='%3U %3S'
    { time "$@" > /dev/null 2> /dev/null; } 2>&1 | awk '{ printf "%d\n", ($1 + $2) * 1000000 }'
}
each() {
    local file
    for file in "${@:2}"; do for _ in $(seq "$repeat"); do $1 "$file"; done; done
}
compare() {
    echo "$1 herd7 $(($2 / repeat / count)) us, mowgli $(($3 / repeat / count)) us, ratio $(awk "BEGIN { printf \"%.1f\", $2 / $3 }")"
}
alone_theirs() { "$herd" $flags "$1"; }
alone_ours() { "$mowgli" check "$1" --model tso; }

different=0
count=0
for theirs in "$tests"/*.x86; do
    ours=${theirs%.x86}.litmus
    a=$("$herd" $flags "$theirs" | awk '$1 == "Observation" { print ($3 == "Never" ? "forbidden" : "allowed") }')
    b=$("$mowgli" check "$ours" --model tso | awk '$1 == "Observation" { print ($3 == "Never" ? "forbidden" : "allowed") }')
    count=$((count + 1))
    if [ -z "$a" ] || [ "$a" != "$b" ]; then
        echo "DIFFERS $(basename "$ours" .litmus): herd7 ${a:-nothing}, mowgli ${b:-nothing}"
        different=$((different + 1))
    fi
done
echo "verdicts: $count tests, $different differ"

compare "alone:   " "$(cpu_us each alone_theirs "$tests"/*.x86)" "$(cpu_us each alone_ours "$tests"/*.litmus)"

# herd7 skips a test whose name it has seen, so every copy gets a name of its own.
copies=$(mktemp -d)
trap 'rm -r "$copies"' EXIT
for i in $(seq "$repeat"); do
    for t in "$tests"/*.x86 "$tests"/*.litmus; do
        name=$(basename "$t")
        sed "1s/\$/-$i/" "$t" > "$copies/$i-$name"
    done
done
theirs=$("$herd" $flags "$copies"/*.x86 | grep -c '^Observation')
ours=$("$mowgli" check "$copies"/*.litmus --model tso | grep -c '^Observation')
[ "$theirs" = "$ours" ] || { echo "herd7 answered $theirs tests, mowgli $ours" >&2; exit 1; }
compare "together:" "$(cpu_us "$herd" $flags "$copies"/*.x86)" "$(cpu_us "$mowgli" check "$copies"/*.litmus --model tso)"
exit "$((different > 0))"
