#!/usr/bin/env bash
# Builds loco and runs its demonstration: three node processes that meet, wait at a barrier, broadcast through a ring
# buffer and read each other's state. Arguments go to `loco demo` (try --nodes 5).
set -euo pipefail
cd "$(dirname "$0")"

command -v cargo >/dev/null || { echo "demo.sh: cargo is missing; install Rust 1.88 or newer (https://rustup.rs)" >&2; exit 1; }
exec cargo run --release --quiet --package loco-cli -- demo "$@"
