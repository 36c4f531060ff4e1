#!/bin/sh
# Builds the program and starts it as three nodes on this host, or as many as it is told: ./run.sh 5
set -e
cd "$(dirname "$0")"
make -s {{name}}
exec loco run -n "${1:-3}" ./{{name}}
