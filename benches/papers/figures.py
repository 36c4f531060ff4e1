"""The figures: panels, their axes, and the series with what measures a point. Used by measure.py.

LOCO'26 Fig. 15 (barrier, broadcast), Fig. 17 (key-value stores; LOCO'25 Fig. 5), Fig. 19 (locks and transactions; LOCO'25
Fig. 4), and the cost of the store's fence (LOCO'26 6.2).
"""

from dataclasses import dataclass, field

# Other names of a figure: the same one in LOCO'25.
SAME = {"5": "17", "4": "19"}
# Transactions and single locks: the most windows of OpenMPI, and as many locks of loco (LOCO'26 B.1).
LOCKS = 341
# A key and a value of 8 bytes each; 80 % of the key space is filled.
PAIR_BYTES, FILLED = 16, 0.8
# Systems of the paper that need hardware that nobody here has.
ELSEWHERE = {
    "Sherman": "needs ConnectX-5 cards with on-chip memory, for its locks, and MLNX_OFED 4.7 (its README)",
    "Scythe": "needs a Mellanox RoCE card in each of two machines (its README)",
}


@dataclass
class Axes:
    """What is varied, and how much is measured."""

    nodes: list
    threads: list
    loads: list
    key_space_mb: int
    accounts: int


@dataclass
class Series:
    """A line of a panel: a name, and a function from the place on the x axis to a figure of one run."""

    name: str
    measure: object
    # Why there is no such line, where the peer cannot run at all.
    left_out: str = ""


@dataclass
class Panel:
    """A diagram: its title, the axes, and its series."""

    title: str
    x_name: str
    y_name: str
    x: list
    series: list
    labels: dict = field(default_factory=dict)


def of(name, axes, sides):
    """Returns the panels of a figure."""
    return {"15": barrier_and_broadcast, "17": stores, "19": locks, "fence": fence}[name](axes, sides)


def of_threads(threads):
    """Returns a number of threads in words."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def shape(nodes, threads):
    """Returns the options of loco for a number of nodes and threads."""
    return ["--nodes", str(nodes), "--threads", str(threads)]


def barrier_and_broadcast(axes, sides):
    """Returns the panels of Fig. 15: barriers by nodes, for each number of threads; broadcasts by load, for each number of nodes."""
    panels = []
    for threads in axes.threads:
        def loco(result, threads=threads):
            return lambda nodes: sides.loco("barrier", shape(nodes, threads), result)

        def mpi(nodes, threads=threads):
            return sides.mpi_barrier(nodes * threads)

        panels.append(Panel(
            f"barrier, {of_threads(threads)} a node", "nodes", "barriers a second", axes.nodes,
            [
                Series("LOCO, without fence", loco("barrier")),
                Series("LOCO, with fence", loco("barrier-fenced")),
                Series("OpenMPI, MPI_Barrier", mpi),
            ],
        ))
    for nodes in axes.nodes:
        def ring(result, nodes=nodes):
            return lambda load: sides.loco("broadcast", ["--nodes", str(nodes), "--size", "64", "--window", str(load)], result)

        def ibcast(load, nodes=nodes):
            return sides.mpi_ibcast(nodes, load)

        panels.append(Panel(
            f"broadcast of 64 B, {nodes} nodes", "broadcasts outstanding", "messages a second", axes.loads,
            [
                Series("LOCO, one by one", ring("broadcast-single")),
                Series("LOCO, submitted together", ring("broadcast")),
                Series("OpenMPI, MPI_Ibcast", ibcast),
            ],
        ))
    return panels


def stores(axes, sides):
    """Returns the panels of Fig. 17: a mix and a distribution each, by nodes and threads."""
    keys = int(axes.key_space_mb * 1e6 * FILLED / PAIR_BYTES)
    x = [(nodes, threads) for nodes in axes.nodes for threads in axes.threads]
    panels = []
    for distribution in ("uniform", "zipf"):
        for mix in ("read-only", "mixed", "write-only"):
            def loco(window, mix=mix, distribution=distribution):
                return lambda at: store(sides, at, window, mix, distribution, axes.key_space_mb)

            def redis(at, mix=mix, distribution=distribution):
                return sides.redis(*at, mix, distribution, keys)

            panels.append(Panel(
                f"{mix}, {distribution}", "nodes x threads", "operations a second", x,
                [
                    Series("LOCO, window 3", loco(3)),
                    Series("LOCO, window 128", loco(128)),
                    Series("Redis cluster, memtier_benchmark, 128 clients", redis),
                    *(Series(system, None, why) for system, why in ELSEWHERE.items()),
                ],
                {at: f"{at[0]}x{at[1]}" for at in x},
            ))
    return panels


def store(sides, at, window, mix, distribution, key_space_mb, program=None):
    """Returns the rate of loco's store."""
    options = ["--window", str(window), "--mix", mix, "--distribution", distribution, "--key-space-mb", str(key_space_mb)]
    return sides.loco("kv", [*shape(*at), *options], "kv", program)


def locks(axes, sides):
    """Returns the panels of Fig. 19: one lock by nodes, with its hand-overs, and transactions by nodes for each number of threads."""
    def lock(result):
        return lambda nodes: sides.loco("lock", shape(nodes, 1), result)

    def window_lock(column):
        return lambda nodes: sides.mpi("lock", nodes, [sides.seconds], column)

    panels = [
        Panel(
            "one lock, a thread a node", "nodes", "acquisitions a second", axes.nodes,
            [Series("LOCO", lock("lock")), Series("OpenMPI, MPI_Win_lock", window_lock(0))],
        ),
        Panel(
            "one lock: hand-overs between nodes", "nodes", "hand-overs a second", axes.nodes,
            [Series("LOCO", lock("lock-hand-overs")), Series("OpenMPI, MPI_Win_lock", window_lock(1))],
        ),
    ]
    for threads in axes.threads:
        def transfer(nodes, threads=threads):
            options = ["--accounts", str(axes.accounts), "--locks", str(LOCKS)]
            return sides.loco("transfer", [*shape(nodes, threads), *options], "transfer")

        def one_sided(nodes, threads=threads):
            return sides.mpi("transfer", nodes * threads, [sides.seconds, axes.accounts, LOCKS])

        panels.append(Panel(
            f"transactions, {of_threads(threads)} a node", "nodes", "transactions a second", axes.nodes,
            [Series("LOCO", transfer), Series("OpenMPI, a rank a thread", one_sided)],
        ))
    return panels


def fence(axes, sides):
    """Returns the panels of the store with and without the fence between write and release, by window."""
    at = (axes.nodes[0], axes.threads[0])
    panels = []
    for mix in ("write-only", "mixed"):
        def fenced(window, mix=mix):
            return store(sides, at, window, mix, "uniform", axes.key_space_mb)

        def unfenced(window, mix=mix):
            return store(sides, at, window, mix, "uniform", axes.key_space_mb, sides.unfenced_loco())

        panels.append(Panel(
            f"{mix}, uniform, {at[0]} nodes of {of_threads(at[1])}", "window", "operations a second", axes.loads,
            [Series("LOCO", fenced), Series("LOCO without the fence, which is wrong", unfenced)],
        ))
    return panels
