//! The rows of the table: each names a piece of work, the library's side of it, its peers, and the goals.

mod crowded;
mod tcp;

/// The unit of a figure, which says what is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds: fewer are better.
    Nanoseconds,
    /// Operations a second: more are better.
    Rate,
}

impl Unit {
    /// Returns the unit's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Rate => "million/s",
        }
    }

    /// Returns true if a ratio of loco to its peer is as good as a goal.
    pub fn is_met(self, ratio: f64, goal: f64) -> bool {
        match self {
            Unit::Nanoseconds => ratio <= goal,
            Unit::Rate => ratio >= goal,
        }
    }

    /// Operations a second at a figure.
    pub fn operations(self, figure: f64) -> f64 {
        match self {
            Unit::Nanoseconds => 1e9 / figure,
            Unit::Rate => figure,
        }
    }

    /// Converts a figure to the one that tables show.
    pub fn shown(self, figure: f64) -> f64 {
        match self {
            Unit::Nanoseconds => figure,
            Unit::Rate => figure / 1e6,
        }
    }
}

/// A case of `loco bench`, and a figure in its JSON.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The case and its options.
    pub arguments: Vec<&'static str>,
    /// The fabric.
    pub fabric: &'static str,
    /// The number of nodes.
    pub nodes: &'static str,
    /// Name of the result.
    pub result: &'static str,
    /// Name of the number.
    pub field: &'static str,
    /// The case runs for a time, and not for a number of operations.
    pub timed: bool,
    /// The part of the number that counts: the cases of puts and gets add up what all nodes do at the same time.
    pub part: f64,
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    /// `loco bench`.
    Loco(Bench),
    /// `loco bench` of the build given with --before.
    Before(Bench),
    /// `memory.c`: its mode, and what follows the number of iterations.
    Memory {
        /// The mode and the size.
        arguments: Vec<&'static str>,
    },
    /// A program under `mpirun`.
    Mpi {
        /// Its name.
        program: &'static str,
        /// Layers of OpenMPI that are chosen.
        layers: &'static str,
        /// The mode, which is before the number of iterations, and the sizes, which follow it.
        arguments: Vec<&'static str>,
        /// The number of ranks.
        ranks: &'static str,
        /// The program runs for a time, and not for a number of operations.
        timed: bool,
    },
    /// `lmdb.c`, with so many lookups in a transaction.
    Lmdb {
        /// Lookups in a transaction.
        window: &'static str,
    },
    /// A command of this program: a concurrent map in one process, or iceoryx2 in two.
    Own {
        /// The command, what it measures, and its options.
        arguments: Vec<&'static str>,
    },
    /// `ofi.c`, which posts to libfabric itself.
    Libfabric {
        /// The mode and how.
        arguments: Vec<&'static str>,
    },
    /// `sockets.c`: its mode, and what follows the number of iterations.
    Sockets {
        /// The mode and the size.
        arguments: Vec<&'static str>,
    },
    /// Two clients of a Redis server over TCP.
    Redis {
        /// Commands in a pipeline.
        window: &'static str,
        /// Lookups or updates.
        mix: &'static str,
    },
    /// A test of `ucx_perftest`.
    Ucx {
        /// Name of the test.
        test: &'static str,
        /// Bytes of a message.
        size: &'static str,
        /// Transports that UCX may use.
        transports: &'static str,
        /// Column of the figure, counted from the last.
        column: usize,
        /// The factor that turns the figure into the row's unit.
        scale: f64,
    },
}

impl Side {
    /// Returns true if it runs for a time.
    pub fn is_timed(&self) -> bool {
        match self {
            Side::Loco(bench) | Side::Before(bench) => bench.timed,
            Side::Mpi { timed, .. } => *timed,
            Side::Redis { .. } => true,
            _ => false,
        }
    }
}

/// A peer of a row.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name in the table.
    pub name: &'static str,
    /// How it is measured.
    pub side: Side,
    /// The ratio of loco to it that is wanted.
    pub goal: Option<f64>,
}

/// A piece of work.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name in the table.
    pub name: &'static str,
    /// The unit of its figures.
    pub unit: Unit,
    bench: Bench,
    /// Its peers.
    pub peers: Vec<Peer>,
}

impl Row {
    /// Returns the library's side.
    pub fn loco(&self) -> Side {
        Side::Loco(self.bench.clone())
    }

    /// Returns all uses of `loco bench`.
    fn benches(&mut self) -> impl Iterator<Item = &mut Bench> {
        let peers = self.peers.iter_mut().filter_map(|peer| match &mut peer.side {
            Side::Loco(bench) => Some(bench),
            _ => None,
        });
        std::iter::once(&mut self.bench).chain(peers)
    }

    /// Returns another build of the library as a peer.
    pub fn before(&self) -> Peer {
        peer("loco before", Side::Before(self.bench.clone()), None)
    }
}

/// The nodes or ranks of a row that does not say otherwise.
const PAIR: &str = "2";

const SHARED: &str = "--mca pml ob1 --mca btl self,vader --mca osc sm,rdma";
const UCX: &str =
    "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc ucx -x UCX_TLS=posix,cma,self";

/// Shared memory for data; TCP for setting connections up.
const POSIX: &str = "posix,cma,self,tcp";

fn peer(name: &'static str, side: Side, goal: impl Into<Option<f64>>) -> Peer {
    Peer {
        name,
        side,
        goal: goal.into(),
    }
}

fn memory<const N: usize>(arguments: [&'static str; N]) -> Side {
    Side::Memory {
        arguments: arguments.into(),
    }
}

fn mpi<const N: usize>(layers: &'static str, arguments: [&'static str; N]) -> Side {
    Side::Mpi {
        program: "mpi",
        layers,
        arguments: arguments.into(),
        ranks: PAIR,
        timed: false,
    }
}

/// Returns a program under `mpirun` that takes nothing but how much it has to do.
fn mpi_program(program: &'static str, timed: bool) -> Side {
    Side::Mpi {
        program,
        layers: SHARED,
        arguments: Vec::new(),
        ranks: PAIR,
        timed,
    }
}

fn own<const N: usize>(arguments: [&'static str; N]) -> Side {
    Side::Own {
        arguments: arguments.into(),
    }
}

/// Returns a latency of `ucx_perftest`: the median, in microseconds.
fn ucx_latency(transports: &'static str, test: &'static str, size: &'static str) -> Side {
    Side::Ucx {
        test,
        size,
        transports,
        column: 6,
        scale: 1e3,
    }
}

/// Returns a rate of `ucx_perftest`: the last column, in messages a second.
fn ucx_rate(test: &'static str, size: &'static str) -> Side {
    Side::Ucx {
        test,
        size,
        transports: POSIX,
        column: 0,
        scale: 1.0,
    }
}

fn row<const N: usize, const P: usize>(
    name: &'static str,
    unit: Unit,
    arguments: [&'static str; N],
    (result, field): (&'static str, &'static str),
    peers: [Peer; P],
) -> Row {
    let timed = matches!(arguments[0], "kv" | "lock" | "transfer" | "queue");
    Row {
        name,
        unit,
        bench: Bench {
            arguments: arguments.into(),
            fabric: "shm",
            nodes: PAIR,
            result,
            field,
            timed,
            part: 1.0,
        },
        peers: peers.into(),
    }
}

/// Makes a row for the rate of puts or gets of one node while the other does the same. The peers work in one direction only.
fn each<const N: usize, const P: usize>(
    name: &'static str,
    arguments: [&'static str; N],
    peers: [Peer; P],
) -> Row {
    let result = arguments[0];
    let mut made = row(name, Unit::Rate, arguments, (result, RATE), peers);
    made.bench.part = 0.5;
    made
}

const RATE: &str = "operations_per_second";
const MEDIAN: &str = "latency_ns_p50";
const ONE_WAY: &str = "one_way_ns";

/// Makes a row for a put of more than a few words.
fn long_put(name: &'static str, size: &'static str) -> Row {
    let peers = [
        peer("MPI_Put and flush", mpi(SHARED, ["put", size]), 0.95),
        peer("memcpy", memory(["copy", size]), None),
    ];
    each(name, ["put", "--size", size], peers)
}

/// Makes a row for a ring with messages of more than a few words.
fn long_ring(name: &'static str, size: &'static str, window: &'static str) -> Row {
    let arguments = ["broadcast", "--size", size, "--window", window];
    let peers = [peer("ring by memcpy", memory(["ring", size]), 0.8)];
    row(name, Unit::Rate, arguments, ("broadcast-single", RATE), peers)
}

fn ping_pong(name: &'static str, size: &'static str) -> Row {
    let peers = [
        peer("plain copies and flags", memory(["pingpong", size]), 1.4),
        peer("ucp_am_lat", ucx_latency(POSIX, "ucp_am_lat", size), None),
        peer("iceoryx2", own(["iceoryx2", size]), 1.0),
    ];
    let arguments = ["ping-pong", "--size", size];
    row(name, Unit::Nanoseconds, arguments, ("ping-pong", ONE_WAY), peers)
}

fn lookups<const P: usize>(name: &'static str, window: &'static str, peers: [Peer; P]) -> Row {
    row(name, Unit::Rate, ["kv", "--window", window], ("kv", RATE), peers)
}

fn lmdb(name: &'static str, window: &'static str, goal: f64) -> Peer {
    peer(name, Side::Lmdb { window }, goal)
}

/// Returns every row.
pub fn all() -> Vec<Row> {
    use Unit::{Nanoseconds, Rate};
    let in_one_process = || peer("papaya in one process", own(["map", "papaya"]), 0.6);
    let mut rows = vec![
        row(
            "put 8 B, one way",
            Nanoseconds,
            ["put", "--size", "8"],
            ("put", ONE_WAY),
            [
                peer("store and observe", memory(["observe"]), 1.1),
                peer("ucp_put_lat", ucx_latency(POSIX, "ucp_put_lat", "8"), 1.2),
            ],
        ),
        each(
            "get 8 B",
            ["get", "--size", "8"],
            [
                peer("ucp_get", ucx_rate("ucp_get", "8"), 0.8),
                peer("MPI_Get and flush", mpi(SHARED, ["get", "8"]), 1.5),
            ],
        ),
        long_put("put 4 KiB", "4096"),
        long_put("put 64 KiB", "65536"),
        long_put("put 1 MiB", "1048576"),
        row(
            "ring 64 B, one by one",
            Rate,
            ["broadcast", "--size", "64"],
            ("broadcast-single", RATE),
            [
                peer("MPI_Bcast", mpi(SHARED, ["bcast", "64"]), 2.0),
                peer("MPI_Send over UCX", mpi(UCX, ["send", "64"]), 1.2),
                peer("ring by memcpy", memory(["ring", "64"]), 0.6),
            ],
        ),
        row(
            "ring 64 B, batched",
            Rate,
            ["broadcast", "--size", "64"],
            ("broadcast", RATE),
            [
                peer(
                    "MPI_Bcast over UCX, 16 packed",
                    mpi(UCX, ["bcast", "64", "16"]),
                    1.2,
                ),
                peer("ring by memcpy", memory(["ring", "64"]), 0.8),
            ],
        ),
        row(
            "ring 64 B, batched by 64",
            Rate,
            ["broadcast", "--size", "64", "--window", "256"],
            ("broadcast", RATE),
            [peer(
                "MPI_Bcast over UCX, 64 packed",
                mpi(UCX, ["bcast", "64", "64"]),
                1.0,
            )],
        ),
        long_ring("ring 4 KiB", "4096", "64"),
        long_ring("ring 64 KiB", "65536", "64"),
        long_ring("ring 1 MiB", "1048576", "8"),
        ping_pong("ring ping-pong 64 B", "64"),
        ping_pong("ring ping-pong 4 KiB", "4096"),
        lookups(
            "lookups, window 1",
            "1",
            [lmdb("LMDB, 1 a transaction", "1", 2.0), in_one_process()],
        ),
        lookups(
            "lookups, window 3",
            "3",
            [lmdb("LMDB, 3 a transaction", "3", 4.0)],
        ),
        lookups(
            "lookups, window 128",
            "128",
            [lmdb("LMDB, 128 a transaction", "128", 10.0), in_one_process()],
        ),
        row(
            "store mixed, window 128",
            Rate,
            ["kv", "--mix", "mixed", "--window", "128"],
            ("kv", RATE),
            [peer(
                "dashmap in one process",
                own(["map", "dashmap", "--mixed"]),
                0.6,
            )],
        ),
        row(
            "contended lock",
            Rate,
            ["lock"],
            ("lock", RATE),
            [
                peer("plain ticket lock", memory(["ticket"]), 0.6),
                peer("MPI_Win_lock", mpi_program("lock", true), None),
            ],
        ),
        row(
            "lock's hand-overs",
            Rate,
            ["lock"],
            ("lock-hand-overs", RATE),
            [peer("plain ticket lock", memory(["hand-overs"]), None)],
        ),
        row(
            "barrier",
            Nanoseconds,
            ["barrier"],
            ("barrier", MEDIAN),
            [peer("MPI_Barrier", mpi_program("barrier", false), 0.54)],
        ),
    ];
    rows.extend(crowded::all());
    rows.extend(tcp::all());
    rows
}
