"""A Redis cluster on the loopback, without replicas and without persistence, and memtier_benchmark as its clients.

As in LOCO'26 6.2: four threads a server, 128 clients a thread, one memtier_benchmark for each node. A server has fewer threads
where there are fewer than eight processors, as Redis advises: they spin. Used by sides.py.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

# Clients of a thread, LOCO'26 6.2.
CLIENTS = 128
SLOTS = 16384
THREADS = min(4, max(1, os.cpu_count() // 2))
# Sets and gets.
RATIOS = {"read-only": "0:1", "mixed": "1:1", "write-only": "1:0"}
# Seconds until the servers know one another.
PATIENCE = 30
# The port of the bus between servers, above that of the clients.
BUS = 10000


def free_port():
    """Returns a port that nobody listens at, and neither at the one of the bus above it."""
    for _ in range(100):
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            try:
                bus.bind(("127.0.0.1", port + BUS))
                return port
            except (OSError, OverflowError):
                continue
    raise RuntimeError("no free port")


class Cluster:
    """Servers that share the slots, filled with keys 1 to `keys`. They end with `close`."""

    def __init__(self, servers, keys, memtier):
        self.servers, self.keys, self.memtier = servers, keys, memtier
        self.folder = tempfile.mkdtemp(prefix="redis-")
        self.running, self.ports = [], []
        try:
            for number in range(servers):
                self._start(number)
            for port in self.ports[1:]:
                self._ask(self.ports[0], "cluster", "meet", "127.0.0.1", str(port))
            for port in self.ports:
                self._until(f"the cluster at {port}", lambda: "cluster_state:ok" in self._ask(port, "cluster", "info"))
            self._memtier(1, ["--ratio", "1:0", "--key-pattern", "P:P", "--requests", "allkeys", "--clients", "8"], 600)
        except BaseException:
            self.close()
            raise

    def _start(self, number):
        port = free_port()
        home = Path(self.folder) / str(port)
        home.mkdir()
        options = {
            "bind": "127.0.0.1", "port": port, "dir": home, "save": "", "appendonly": "no", "io-threads": THREADS,
            "cluster-enabled": "yes", "cluster-config-file": "nodes.conf",
        }
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        self.running.append(subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.ports.append(port)
        self._until(f"the server at {port}", lambda: self._ask(port, "ping") == "PONG")
        first, last = number * SLOTS // self.servers, (number + 1) * SLOTS // self.servers - 1
        self._ask(port, "cluster", "addslotsrange", str(first), str(last))

    def _ask(self, port, *words):
        asked = subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return asked.stdout.strip()

    def _until(self, what, is_so):
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > end:
                raise RuntimeError(f"{what} is not ready after {PATIENCE} s")
            time.sleep(0.05)

    def _memtier(self, number, options, patience):
        """Runs so many clients at a time; returns operations a second of all."""
        base = [
            self.memtier, "--cluster-mode", "--server", "127.0.0.1", "--port", str(self.ports[0]), "--hide-histogram",
            "--key-prefix", "", "--key-minimum", "1", "--key-maximum", str(self.keys), "--data-size", "8",
        ]
        results = [Path(self.folder) / f"client-{i}.json" for i in range(number)]
        clients = [
            subprocess.Popen([*base, *options, "--json-out-file", result], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for result in results
        ]
        try:
            for client in clients:
                _, told = client.communicate(timeout=patience)
                if client.returncode != 0:
                    raise RuntimeError(f"memtier_benchmark: exit {client.returncode}: {told.strip().splitlines()[-1:]}")
        finally:
            for client in clients:
                client.kill()
        return sum(json.loads(result.read_text())["ALL STATS"]["Totals"]["Ops/sec"] for result in results)

    def rate(self, nodes, threads, mix, distribution, seconds):
        """Returns operations a second of one client program for each node."""
        pattern = {"uniform": ["--key-pattern", "R:R"], "zipf": ["--key-pattern", "Z:Z", "--key-zipf-exp", "0.99"]}[distribution]
        time_options = ["--test-time", str(max(1, round(seconds)))]
        options = ["--threads", str(threads), "--clients", str(CLIENTS), "--ratio", RATIOS[mix], *pattern, *time_options]
        return self._memtier(nodes, options, 60 + 2 * seconds)

    def close(self):
        """Ends the servers and removes their files."""
        for server in self.running:
            server.kill()
            server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
