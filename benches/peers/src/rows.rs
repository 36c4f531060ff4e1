//! What is compared with what, and the goals: of each piece of work the library's figure, and its peers'.

/// The unit of a figure, which says what is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds: fewer are better.
    Nanoseconds,
    /// Operations a second: more are better.
    Rate,
}

impl Unit {
    /// The unit's name in tables.
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

    /// A figure as tables show it.
    pub fn shown(self, figure: f64) -> f64 {
        match self {
            Unit::Nanoseconds => figure,
            Unit::Rate => figure / 1e6,
        }
    }
}

/// A figure in the JSON of `loco bench`.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name of the result.
    pub result: &'static str,
    /// Name of the number.
    pub name: &'static str,
    /// The case runs for a time, and not for a number of operations.
    pub timed: bool,
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    /// `loco bench`.
    Loco {
        /// The case and its options.
        arguments: &'static [&'static str],
        /// The figure.
        field: Field,
    },
    /// `loco bench` of the build given with --before.
    Before {
        /// The case and its options.
        arguments: &'static [&'static str],
        /// The figure.
        field: Field,
    },
    /// `memory.c`: its mode, and what follows the number of iterations.
    Memory {
        /// The mode and the size.
        arguments: &'static [&'static str],
    },
    /// A program under `mpirun`.
    Mpi {
        /// Its name.
        program: &'static str,
        /// Layers of OpenMPI that are chosen.
        layers: &'static str,
        /// What is before the number of iterations, and what follows.
        arguments: &'static [&'static str],
        /// The program runs for a time, and not for a number of operations.
        timed: bool,
    },
    /// `lmdb.c`, with so many lookups in a transaction.
    Lmdb {
        /// Lookups in a transaction.
        window: &'static str,
    },
    /// A concurrent map in one process.
    Map {
        /// Its name and options.
        arguments: &'static [&'static str],
    },
    /// A test of `ucx_perftest` over shared memory.
    Ucx {
        /// Name of the test.
        test: &'static str,
        /// Bytes of a message.
        size: &'static str,
        /// Column of the figure, counted from the last.
        column: usize,
        /// What a figure is multiplied with to have the row's unit.
        scale: f64,
    },
}

impl Side {
    /// Returns true if it runs for a time.
    pub fn is_timed(&self) -> bool {
        match self {
            Side::Loco { field, .. } | Side::Before { field, .. } => field.timed,
            Side::Mpi { timed, .. } => *timed,
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
    arguments: &'static [&'static str],
    field: Field,
    /// Its peers.
    pub peers: Vec<Peer>,
}

impl Row {
    /// The library's side.
    pub fn loco(&self) -> Side {
        Side::Loco {
            arguments: self.arguments,
            field: self.field,
        }
    }

    /// Another build of the library as a peer.
    pub fn before(&self) -> Peer {
        let side = Side::Before {
            arguments: self.arguments,
            field: self.field,
        };
        Peer {
            name: "loco before",
            side,
            goal: None,
        }
    }
}

const SHARED: &str = "--mca pml ob1 --mca btl self,vader --mca osc sm,rdma";
const UCX: &str =
    "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc ucx -x UCX_TLS=posix,cma,self";

fn peer(name: &'static str, side: Side, goal: impl Into<Option<f64>>) -> Peer {
    Peer {
        name,
        side,
        goal: goal.into(),
    }
}

fn memory(arguments: &'static [&'static str]) -> Side {
    Side::Memory { arguments }
}

fn mpi(arguments: &'static [&'static str]) -> Side {
    Side::Mpi {
        program: "mpi",
        layers: SHARED,
        arguments,
        timed: false,
    }
}

fn mpi_over_ucx(arguments: &'static [&'static str]) -> Side {
    Side::Mpi {
        program: "mpi",
        layers: UCX,
        arguments,
        timed: false,
    }
}

/// A latency of `ucx_perftest`: the median, in microseconds.
fn ucx_latency(test: &'static str, size: &'static str) -> Side {
    Side::Ucx {
        test,
        size,
        column: 6,
        scale: 1e3,
    }
}

/// Messages a second of `ucx_perftest`: the last column.
fn ucx_rate(test: &'static str, size: &'static str) -> Side {
    Side::Ucx {
        test,
        size,
        column: 0,
        scale: 1.0,
    }
}

fn row(
    name: &'static str,
    unit: Unit,
    arguments: &'static [&'static str],
    (result, field): (&'static str, &'static str),
    peers: Vec<Peer>,
) -> Row {
    let timed = matches!(arguments[0], "kv" | "lock" | "transfer" | "queue");
    Row {
        name,
        unit,
        arguments,
        field: Field {
            result,
            name: field,
            timed,
        },
        peers,
    }
}

const RATE: &str = "operations_per_second";
const MEDIAN: &str = "latency_ns_p50";

/// Every row.
pub fn all() -> Vec<Row> {
    use Unit::{Nanoseconds, Rate};
    vec![
        row(
            "put 8 B, one way",
            Nanoseconds,
            &["put", "--size", "8"],
            ("put", MEDIAN),
            vec![
                peer("store and observe", memory(&["observe"]), 1.1),
                peer("ucp_put_lat", ucx_latency("ucp_put_lat", "8"), 1.2),
            ],
        ),
        row(
            "get 8 B",
            Rate,
            &["get", "--size", "8"],
            ("get", RATE),
            vec![
                peer("ucp_get", ucx_rate("ucp_get", "8"), 0.8),
                peer("MPI_Get and flush", mpi(&["get", "8"]), 1.5),
            ],
        ),
        row(
            "put 4 KiB",
            Rate,
            &["put", "--size", "4096"],
            ("put", RATE),
            vec![
                peer("MPI_Put and flush", mpi(&["put", "4096"]), 0.95),
                peer("memcpy", memory(&["copy", "4096"]), None),
            ],
        ),
        row(
            "put 64 KiB",
            Rate,
            &["put", "--size", "65536"],
            ("put", RATE),
            vec![
                peer("MPI_Put and flush", mpi(&["put", "65536"]), 0.95),
                peer("memcpy", memory(&["copy", "65536"]), None),
            ],
        ),
        row(
            "put 1 MiB",
            Rate,
            &["put", "--size", "1048576"],
            ("put", RATE),
            vec![
                peer("MPI_Put and flush", mpi(&["put", "1048576"]), 0.95),
                peer("memcpy", memory(&["copy", "1048576"]), None),
            ],
        ),
        row(
            "ring 64 B, one by one",
            Rate,
            &["broadcast", "--size", "64"],
            ("broadcast-single", RATE),
            vec![
                peer("MPI_Bcast", mpi(&["bcast", "64"]), 2.0),
                peer("MPI_Send over UCX", mpi_over_ucx(&["send", "64"]), 1.2),
                peer("ring by memcpy", memory(&["ring", "64"]), 0.6),
            ],
        ),
        row(
            "ring 64 B, batched",
            Rate,
            &["broadcast", "--size", "64"],
            ("broadcast", RATE),
            vec![
                peer(
                    "MPI_Bcast over UCX, 16 packed",
                    mpi_over_ucx(&["bcast", "64", "16"]),
                    1.2,
                ),
                peer(
                    "MPI_Bcast over UCX, 64 packed",
                    mpi_over_ucx(&["bcast", "64", "64"]),
                    1.0,
                ),
                peer("ring by memcpy", memory(&["ring", "64"]), 0.8),
            ],
        ),
        row(
            "ring 4 KiB",
            Rate,
            &["broadcast", "--size", "4096"],
            ("broadcast-single", RATE),
            vec![peer("ring by memcpy", memory(&["ring", "4096"]), 0.8)],
        ),
        row(
            "ring 64 KiB",
            Rate,
            &["broadcast", "--size", "65536"],
            ("broadcast-single", RATE),
            vec![peer("ring by memcpy", memory(&["ring", "65536"]), 0.8)],
        ),
        row(
            "ring 1 MiB",
            Rate,
            &["broadcast", "--size", "1048576", "--window", "8"],
            ("broadcast-single", RATE),
            vec![peer("ring by memcpy", memory(&["ring", "1048576"]), 0.8)],
        ),
        row(
            "ring ping-pong 64 B",
            Nanoseconds,
            &["ping-pong", "--size", "64"],
            ("ping-pong", MEDIAN),
            vec![
                peer("plain copies and flags", memory(&["pingpong", "64"]), 1.4),
                peer("ucp_am_lat", ucx_latency("ucp_am_lat", "64"), None),
            ],
        ),
        row(
            "ring ping-pong 4 KiB",
            Nanoseconds,
            &["ping-pong", "--size", "4096"],
            ("ping-pong", MEDIAN),
            vec![
                peer("plain copies and flags", memory(&["pingpong", "4096"]), 1.4),
                peer("ucp_am_lat", ucx_latency("ucp_am_lat", "4096"), None),
            ],
        ),
        row(
            "lookups, window 1",
            Rate,
            &["kv", "--window", "1"],
            ("kv", RATE),
            vec![
                peer("LMDB, 1 a transaction", Side::Lmdb { window: "1" }, 2.0),
                peer(
                    "papaya in one process",
                    Side::Map {
                        arguments: &["papaya"],
                    },
                    0.6,
                ),
            ],
        ),
        row(
            "lookups, window 3",
            Rate,
            &["kv", "--window", "3"],
            ("kv", RATE),
            vec![peer("LMDB, 3 a transaction", Side::Lmdb { window: "3" }, 4.0)],
        ),
        row(
            "lookups, window 128",
            Rate,
            &["kv", "--window", "128"],
            ("kv", RATE),
            vec![
                peer("LMDB, 128 a transaction", Side::Lmdb { window: "128" }, 10.0),
                peer(
                    "papaya in one process",
                    Side::Map {
                        arguments: &["papaya"],
                    },
                    0.6,
                ),
            ],
        ),
        row(
            "store mixed, window 128",
            Rate,
            &["kv", "--mix", "mixed", "--window", "128"],
            ("kv", RATE),
            vec![peer(
                "dashmap in one process",
                Side::Map {
                    arguments: &["dashmap", "--mixed"],
                },
                0.6,
            )],
        ),
        row(
            "contended lock",
            Rate,
            &["lock"],
            ("lock", RATE),
            vec![
                peer("plain ticket lock", memory(&["ticket"]), 0.6),
                peer(
                    "MPI_Win_lock",
                    Side::Mpi {
                        program: "lock",
                        layers: SHARED,
                        arguments: &[],
                        timed: true,
                    },
                    None,
                ),
            ],
        ),
        row(
            "barrier",
            Nanoseconds,
            &["barrier"],
            ("barrier", MEDIAN),
            vec![peer(
                "MPI_Barrier",
                Side::Mpi {
                    program: "barrier",
                    layers: SHARED,
                    arguments: &[],
                    timed: false,
                },
                0.54,
            )],
        ),
    ]
}
