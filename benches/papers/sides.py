"""The sides of the figures: runs loco and its peers, and returns their rates.

A side that is not there raises Missing, one that fails raises Failed; both say why. Used by figures.py.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from redis_cluster import Cluster

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / "peers"
# Seconds after which a run has gone wrong, besides the time that it measures.
PATIENCE = 120
# Operations of the first run of a case that counts operations; it tells how many fit the wanted time.
FIRST = 2000
# What UCX may use, by loco's name of the network.
UCX = {
    "shm": ["-x", "UCX_TLS=posix,sysv,cma,self"],
    "tcp": ["-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=lo"],
    "verbs": ["-x", "UCX_TLS=rc,ud,self"],
}


class Missing(Exception):
    """A peer is not installed."""


class Failed(Exception):
    """A side did not give a figure."""


def output(command, patience, env=None):
    """Runs a command to its end and returns what it printed."""
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=patience, env={**os.environ, **(env or {})}, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no end after {patience:.0f} s: {' '.join(map(str, command))}") from error
    if ended.returncode != 0:
        lines = [line for line in (ended.stderr + ended.stdout).splitlines() if line.strip()]
        raise Failed(f"{Path(command[0]).name}: exit {ended.returncode}: {lines[-1] if lines else 'no message'}")
    return ended.stdout


class Sides:
    """What can be run: the command loco, and the programs of the peers, compiled into a folder of this run."""

    def __init__(self, loco, unfenced, fabric, seconds):
        self.loco_path, self.unfenced, self.fabric, self.seconds = loco, unfenced, fabric, seconds
        self.folder = tempfile.TemporaryDirectory(prefix="papers-")
        self.cluster = None
        # Operations a second of the cases that count operations.
        self.rates = {}

    def close(self):
        """Ends the servers and removes the folder."""
        if self.cluster:
            self.cluster.close()
        self.folder.cleanup()

    # loco

    def loco(self, what, arguments, result, program=None):
        """Returns the rate of a result of `loco bench`, operations a second."""

        def rates(*amount):
            command = [program or self.loco_path, "bench", what, *arguments, "--fabric", self.fabric, "--json", *amount]
            records = map(json.loads, output(command, PATIENCE + 4 * self.seconds).splitlines())
            found = {record["name"]: record["results"]["operations_per_second"] for record in records}
            if result not in found:
                raise Failed(f"`loco bench {what}` gave no `{result}`")
            return min(found.values()), found[result]

        if what in ("kv", "lock", "transfer"):
            return rates("--duration", f"{self.seconds}s")[1]
        return self._measured(("loco", what, *arguments), lambda count: rates("--iters", str(count)))

    def _measured(self, key, measure):
        """Measures with as many operations as take about the wanted time. The first run of a case only learns how many these are.

        `measure` takes their number, and returns the rate of the slowest and the rate that counts.
        """
        if key not in self.rates:
            self.rates[key], _ = measure(FIRST)
        self.rates[key], rate = measure(max(FIRST, int(self.rates[key] * self.seconds)))
        return rate

    def unfenced_loco(self):
        """Returns the build of loco whose store does not fence."""
        if not self.unfenced:
            raise Missing("no loco without the fence: give --unfenced PATH, or --build-unfenced")
        return self.unfenced

    # OpenMPI

    def mpi(self, program, ranks, arguments, column=0):
        """Runs a program of benches/peers under mpirun, over UCX; returns a number that it prints."""
        if not shutil.which("mpicc") or not shutil.which("mpirun"):
            raise Missing("OpenMPI is not installed: libopenmpi-dev, openmpi-bin")
        built = Path(self.folder.name) / program
        if not built.exists():
            output(["mpicc", "-O2", "-o", built, PEERS / f"{program}.c"], PATIENCE)
        layers = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *layers, *UCX[self.fabric], built]
        words = output([*command, *map(str, arguments)], PATIENCE + 4 * self.seconds).split()
        try:
            return float(words[column])
        except (IndexError, ValueError) as error:
            raise Failed(f"{program} printed no number at place {column}: {' '.join(words)}") from error

    def mpi_barrier(self, ranks):
        """Returns barriers a second of MPI_Barrier."""

        def measure(count):
            rate = 1e9 / self.mpi("barrier", ranks, [count])
            return rate, rate

        return self._measured(("mpi", "barrier", ranks), measure)

    def mpi_ibcast(self, ranks, load):
        """Returns messages of 64 B a second of MPI_Ibcast with so many outstanding."""

        def measure(count):
            rate = self.mpi("ibcast", ranks, [count, 64, load])
            return rate, rate

        return self._measured(("mpi", "ibcast", ranks, load), measure)

    # Redis

    def redis(self, nodes, threads, mix, distribution, keys):
        """Returns operations a second of a Redis cluster, under one memtier_benchmark for each node."""
        if self.fabric != "tcp":
            raise Missing("Redis speaks TCP: measured with --fabric tcp")
        for program in ("redis-server", "redis-cli"):
            if not shutil.which(program):
                raise Missing(f"{program} is not installed: redis-server, redis-tools")
        memtier = os.environ.get("MEMTIER") or shutil.which("memtier_benchmark")
        if not memtier:
            raise Missing("memtier_benchmark is not installed, and Debian has no package: benches/papers/README.md")
        servers = nodes * -(-threads // 4)
        if self.cluster and (self.cluster.servers, self.cluster.keys) != (servers, keys):
            self.cluster.close()
            self.cluster = None
        try:
            if not self.cluster:
                self.cluster = Cluster(servers, keys, memtier)
            return self.cluster.rate(nodes, threads, mix, distribution, self.seconds)
        except (subprocess.SubprocessError, OSError, RuntimeError, ValueError, KeyError) as error:
            raise Failed(f"Redis: {error}") from error
