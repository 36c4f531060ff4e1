#!/usr/bin/env bash
# Builds loco (in release mode; the first time takes a minute or two) and runs its demonstration: three node processes
# that meet, wait at a barrier, broadcast through a ring buffer and read each other's state. Installs Rust where there
# is none. Arguments go to `loco demo` (try --nodes 5).
set -euo pipefail
cd "$(dirname "$0")"

. ci/install-rust
exec cargo run --release --quiet --package loco-rdma-cli -- demo "$@"
