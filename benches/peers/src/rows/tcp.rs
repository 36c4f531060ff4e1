//! The rows over TCP's loopback: loco over `tcp`, beside itself over libfabric's provider, plain sockets, libfabric, UCX, OpenMPI
//! and Redis.

use super::Unit::{Nanoseconds, Rate};
use super::{MEDIAN, ONE_WAY, Peer, RATE, Row, Side, Unit, mpi, mpi_program, peer, row, ucx_latency};

/// The goals beside the operation of libfabric that does the same: the most times as long, and the least share of its rate.
const COST: (f64, f64) = (1.1, 0.9);

/// OpenMPI by TCP alone.
const LAYERS: &str = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo --mca osc pt2pt";

/// Returns `ofi.c` as the peers of a row: with the operations that loco posts; the same in a process that has, as loco's, a
/// descriptor to sleep on and more than one thread; and with operations that may tear words.
fn libfabric<const N: usize>(goal: f64, modes: [&'static str; N]) -> Vec<Peer> {
    let names = [
        "libfabric, the same",
        "libfabric, the same with a descriptor and a thread",
        "libfabric, words may tear",
    ];
    let goals = [Some(goal), None, None];
    let hows = [&[][..], &["fd", "thread"], &["rma"]];
    let sides = modes.into_iter().zip(hows);
    let peers = sides.zip(names).zip(goals);
    peers
        .map(|(((mode, how), name), goal)| {
            let arguments = [&[mode], how].concat();
            peer(name, Side::Libfabric { arguments }, goal)
        })
        .collect()
}

/// Makes a row from a case of `loco bench`, with the figure that the unit asks for.
fn over_tcp<const N: usize, const P: usize>(
    name: &'static str,
    unit: Unit,
    arguments: [&'static str; N],
    peers: [Vec<Peer>; P],
) -> Row {
    let field = match unit {
        Nanoseconds => MEDIAN,
        Rate => RATE,
    };
    let mut made = row(name, unit, arguments, (arguments[0], field), []);
    made.bench.fabric = "tcp";
    made.peers = peers.concat();
    let mut libfabric = made.bench.clone();
    libfabric.fabric = "ofi:tcp";
    made.peers
        .push(peer("loco over ofi:tcp", Side::Loco(libfabric), 1.0));
    made
}

/// Returns `sockets.c` as the peers of a row.
fn sockets<const N: usize>(goal: f64, arguments: [&'static str; N]) -> Vec<Peer> {
    let arguments = arguments.into();
    vec![peer("plain sockets, polled", Side::Sockets { arguments }, goal)]
}

/// Returns a test of `ucx_perftest` over TCP as the peers of a row.
fn ucx(name: &'static str, test: &'static str, size: &'static str) -> Vec<Peer> {
    vec![peer(name, ucx_latency("tcp,self", test, size), None)]
}

/// Returns a program under `mpirun` by TCP alone.
fn ranks(program: &'static str) -> Side {
    let mut side = mpi_program(program, false);
    if let Side::Mpi { layers, .. } = &mut side {
        *layers = LAYERS;
    }
    side
}

/// Returns the one-sided operations of OpenMPI as the peers of a row.
fn openmpi(name: &'static str, mode: &'static str) -> Vec<Peer> {
    vec![peer(name, mpi(LAYERS, [mode, "8"]), None)]
}

fn ping_pong(name: &'static str, size: &'static str) -> Row {
    let mut made = over_tcp(
        name,
        Nanoseconds,
        ["ping-pong", "--size", size],
        [
            sockets(1.6, ["ping-pong", size]),
            vec![peer("MPI_Send over tcp", mpi(LAYERS, ["pong-time", size]), 1.3)],
            ucx("ucp_am_lat over tcp", "ucp_am_lat", size),
        ],
    );
    for bench in made.benches() {
        bench.field = ONE_WAY;
    }
    made
}

/// Makes a row for messages from one node to the other.
fn broadcast(name: &'static str, result: &'static str, peers: Vec<Peer>) -> Row {
    let mut made = over_tcp(name, Rate, ["broadcast", "--size", "64"], [peers]);
    for bench in made.benches() {
        bench.result = result;
    }
    made
}

/// Makes a row for the store with a tenth of the usual keys, as each is inserted by messages between the nodes.
fn store(name: &'static str, window: &'static str, mix: &'static str) -> Row {
    let redis = Side::Redis { window, mix };
    let peers = vec![peer("Redis over TCP", redis, 1.0)];
    let arguments = ["kv", "--key-space-mb", "1", "--window", window, "--mix", mix];
    over_tcp(name, Rate, arguments, [peers])
}

/// Returns every row.
pub(super) fn all() -> Vec<Row> {
    vec![
        over_tcp(
            "put 8 B over tcp, one way",
            Nanoseconds,
            ["put"],
            [
                libfabric(COST.0, ["put"; 3]),
                ucx("ucp_put_lat over tcp", "ucp_put_lat", "8"),
            ],
        ),
        over_tcp(
            "get 8 B over tcp, time",
            Nanoseconds,
            ["get"],
            [
                libfabric(COST.0, ["get"; 3]),
                ucx("ucp_get over tcp", "ucp_get", "8"),
                openmpi("MPI_Get and flush over tcp", "get-time"),
            ],
        ),
        over_tcp(
            "fetch-add over tcp, time",
            Nanoseconds,
            ["atomic"],
            [
                libfabric(COST.0, ["add"; 2]),
                ucx("ucp_fadd over tcp", "ucp_fadd", "8"),
                openmpi("MPI_Fetch_and_op over tcp", "add-time"),
            ],
        ),
        over_tcp(
            "put 8 B over tcp, rate",
            Rate,
            ["put"],
            [libfabric(COST.1, ["put-rate"; 3])],
        ),
        over_tcp(
            "get 8 B over tcp, rate",
            Rate,
            ["get"],
            [libfabric(COST.1, ["get-rate"; 3])],
        ),
        over_tcp(
            "fetch-add over tcp, rate",
            Rate,
            ["atomic"],
            [libfabric(COST.1, ["add-rate"; 2])],
        ),
        over_tcp(
            "barrier over tcp",
            Nanoseconds,
            ["barrier"],
            [vec![peer("MPI_Barrier over tcp", ranks("barrier"), 1.3)]],
        ),
        broadcast(
            "broadcast 64 B over tcp, one by one",
            "broadcast-single",
            vec![peer("MPI_Bcast over tcp", mpi(LAYERS, ["bcast", "64"]), 1.0)],
        ),
        broadcast(
            "broadcast 64 B over tcp, batched",
            "broadcast",
            sockets(0.5, ["send", "64", "16"]),
        ),
        ping_pong("ring over tcp 64 B", "64"),
        ping_pong("ring over tcp 4 KiB", "4096"),
        store("lookups over tcp, window 3", "3", "read-only"),
        store("lookups over tcp, window 128", "128", "read-only"),
        store("mixed over tcp, window 3", "3", "mixed"),
        store("mixed over tcp, window 128", "128", "mixed"),
    ]
}
