#!/usr/bin/env bash
# Compares loom, shuttle and loco-sim on small algorithms for one node. Arguments go to the program (--help tells which).
set -euo pipefail
cd "$(dirname "$0")"
exec cargo run --release --quiet -- "$@"
