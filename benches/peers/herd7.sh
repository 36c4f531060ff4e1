#!/bin/sh
# Compares `mowgli check --model tso` with herd7 on the x86 tests beside this script: verdicts, then time.
#
#   benches/peers/herd7.sh [REPEAT]
#
# Needs herd7 on PATH (or in $HERD7; $HERD7_FLAGS for `-set-libdir`) and mowgli (or $MOWGLI), built with --release. Each test
# exists twice, NAME.x86 for herd7 and NAME.litmus for mowgli. Two figures, each per test:
#   alone     one process a test, as a user or a script would; start-up is in it
#   together  one process for REPEAT times all tests; start-up is next to nothing
# herd7 runs with its default model for X86 (x86tso.cat), and neither tool prints to a terminal.
set -eu

repeat=${1:-20}
herd=${HERD7:-herd7}
mowgli=${MOWGLI:-mowgli}
flags=${HERD7_FLAGS:-}
tests=$(dirname "$0")/x86
command -v "$herd" > /dev/null || { echo "no herd7: set HERD7 or install herdtools7" >&2; exit 2; }
command -v "$mowgli" > /dev/null || { echo "no mowgli: set MOWGLI or build it" >&2; exit 2; }

now_ns() { date +%s%N; }

different=0
count=0
for theirs in "$tests"/*.x86; do
    ours=${theirs%.x86}.litmus
    # shellcheck disable=SC2086 # The flags are words.
    a=$("$herd" $flags "$theirs" | awk '$1 == "Observation" { print ($3 == "Never" ? "forbidden" : "allowed") }')
    b=$("$mowgli" check "$ours" --model tso | awk '$1 == "Observation" { print ($3 == "Never" ? "forbidden" : "allowed") }')
    count=$((count + 1))
    if [ -z "$a" ] || [ "$a" != "$b" ]; then
        echo "DIFFERS $(basename "$ours" .litmus): herd7 ${a:-nothing}, mowgli ${b:-nothing}"
        different=$((different + 1))
    fi
done
echo "verdicts: $count tests, $different differ"

start=$(now_ns)
# shellcheck disable=SC2086
for _ in $(seq "$repeat"); do for t in "$tests"/*.x86; do "$herd" $flags "$t" > /dev/null; done; done
middle=$(now_ns)
for _ in $(seq "$repeat"); do for t in "$tests"/*.litmus; do "$mowgli" check "$t" --model tso > /dev/null; done; done
end=$(now_ns)
echo "alone:    herd7 $(((middle - start) / repeat / count / 1000)) us, mowgli $(((end - middle) / repeat / count / 1000)) us," \
    "ratio $(((middle - start) / (end - middle)))"

# herd7 skips a test whose name it has seen, so every copy gets a name of its own.
copies=$(mktemp -d)
trap 'rm -r "$copies"' EXIT
for i in $(seq "$repeat"); do
    for t in "$tests"/*.x86 "$tests"/*.litmus; do
        name=$(basename "$t")
        sed "1s/\$/-$i/" "$t" > "$copies/$i-$name"
    done
done
start=$(now_ns)
# shellcheck disable=SC2086
theirs=$("$herd" $flags "$copies"/*.x86 | grep -c '^Observation')
middle=$(now_ns)
ours=$("$mowgli" check "$copies"/*.litmus --model tso | grep -c '^Observation')
end=$(now_ns)
[ "$theirs" = "$ours" ] || { echo "herd7 answered $theirs tests, mowgli $ours" >&2; exit 1; }
echo "together: herd7 $(((middle - start) / repeat / count / 1000)) us, mowgli $(((end - middle) / repeat / count / 1000)) us," \
    "ratio $(((middle - start) / (end - middle)))"
exit "$((different > 0))"
