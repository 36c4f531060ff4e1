#!/usr/bin/env bash
# Measures loco beside other libraries and plain memory, in two processes of this machine, and prints a table of ratios.
#
#   benches/peers/run.sh [OPTIONS] [ROW...]     --help and --list tell which
#   BEFORE=COMMIT benches/peers/run.sh          this tree beside another commit, built in a folder of its own
#
# LOCO names a built command `loco`; else it is built. Peers come from Debian's packages libopenmpi-dev, openmpi-bin, ucx-utils,
# liblmdb-dev, libfabric-dev, redis-server and libhiredis-dev, which are installed when this runs as root there. Run it on an otherwise idle machine. CI does not run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(libopenmpi-dev openmpi-bin ucx-utils liblmdb-dev libfabric-dev redis-server libhiredis-dev)
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -qqy "${packages[@]}" >/dev/null
fi

[ -n "${LOCO:-}" ] || cargo build --release --quiet --package loco-rdma-cli
options=(--loco "${LOCO:-${CARGO_TARGET_DIR:-target}/release/loco}")
if [ -n "${BEFORE:-}" ]; then
    tree=$(mktemp -d)
    trap 'git worktree remove --force "$tree"' EXIT
    git worktree add --quiet --detach "$tree" "$BEFORE"
    (cd "$tree" && CARGO_TARGET_DIR="$tree/target" cargo build --release --quiet --bin loco)
    options+=(--before "$tree/target/release/loco")
fi
cargo build --release --quiet --manifest-path benches/peers/Cargo.toml
"${CARGO_TARGET_DIR:-benches/peers/target}/release/peers" "${options[@]}" "$@"
