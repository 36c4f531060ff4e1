#!/usr/bin/env bash
# Measures a figure of LOCO'26 (or LOCO'25) on this machine, beside the peers of the paper, and draws it.
#
#   benches/papers/run.sh FIG [OPTIONS]      FIG: 15, 17 (LOCO'25: 5), 19 (LOCO'25: 4), or fence; --help tells the options
#
# LOCO names a built command `loco`; else it is built. As root on Debian this installs the peers that Debian has (OpenMPI with UCX,
# Redis). memtier_benchmark is taken from PATH, or from MEMTIER; README.md says how to build it. A peer that is missing is named in
# the output, in the CSV and in the drawing. CI does not run this.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(libopenmpi-dev openmpi-bin redis-server redis-tools)
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -qqy "${packages[@]}" >/dev/null ||
        echo "run.sh: some of ${packages[*]} cannot be installed" >&2
fi

[ -n "${LOCO:-}" ] || cargo build --release --quiet --package loco-rdma-cli
export PYTHONDONTWRITEBYTECODE=1
exec python3 benches/papers/measure.py --loco "${LOCO:-${CARGO_TARGET_DIR:-target}/release/loco}" "$@"
