//! The rows over TCP's loopback: loco over libfabric's provider `tcp`, beside libfabric itself, UCX, OpenMPI and Redis.

use super::Unit::{Nanoseconds, Rate};
use super::{MEDIAN, Peer, RATE, Row, Side, Unit, mpi, peer, row};

/// What an operation may cost over the one of libfabric that it is made of: time, and rate.
const COST: (f64, f64) = (1.1, 0.9);

/// OpenMPI by TCP alone.
const LAYERS: &str = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo --mca osc pt2pt";

/// `ofi.c` with the operations that loco posts, and with those that may tear words.
fn libfabric<const N: usize>(goal: f64, modes: [&'static str; N]) -> Vec<Peer> {
    let names = ["libfabric, the same", "libfabric, words may tear"];
    let goals = [Some(goal), None];
    let hows = [&[][..], &["rma"]];
    let sides = modes.into_iter().zip(hows);
    let peers = sides.zip(names).zip(goals);
    peers
        .map(|(((mode, how), name), goal)| {
            let arguments = [&[mode], how].concat();
            peer(name, Side::Libfabric { arguments }, goal)
        })
        .collect()
}

/// A latency of `ucx_perftest` over TCP: the median, in microseconds.
fn ucx(test: &'static str, size: &'static str) -> Side {
    Side::Ucx {
        test,
        size,
        transports: "tcp,self",
        column: 6,
        scale: 1e3,
    }
}

fn over_tcp<const N: usize>(
    name: &'static str,
    unit: Unit,
    arguments: [&'static str; N],
    figure: (&'static str, &'static str),
    peers: Vec<Peer>,
) -> Row {
    let mut made = row(name, unit, arguments, figure, []);
    made.bench.fabric = "ofi:tcp";
    made.peers = peers;
    made
}

fn with<const N: usize>(mut peers: Vec<Peer>, more: [Peer; N]) -> Vec<Peer> {
    peers.extend(more);
    peers
}

fn ping_pong(name: &'static str, size: &'static str) -> Row {
    let peers = vec![peer("ucp_am_lat over tcp", ucx("ucp_am_lat", size), None)];
    let arguments = ["ping-pong", "--size", size];
    over_tcp(name, Nanoseconds, arguments, ("ping-pong", MEDIAN), peers)
}

/// The store with a tenth of the usual keys: each is inserted by messages between the nodes.
fn store(name: &'static str, window: &'static str, mix: &'static str) -> Row {
    let redis = Side::Redis { window, mix };
    let peers = vec![peer("Redis over TCP", redis, 1.0)];
    let arguments = ["kv", "--key-space-mb", "1", "--window", window, "--mix", mix];
    over_tcp(name, Rate, arguments, ("kv", RATE), peers)
}

/// Every row.
pub(super) fn all() -> Vec<Row> {
    vec![
        over_tcp(
            "put 8 B over tcp, one way",
            Nanoseconds,
            ["put"],
            ("put", MEDIAN),
            with(
                libfabric(COST.0, ["put", "put"]),
                [peer("ucp_put_lat over tcp", ucx("ucp_put_lat", "8"), None)],
            ),
        ),
        over_tcp(
            "get 8 B over tcp, time",
            Nanoseconds,
            ["get"],
            ("get", MEDIAN),
            with(
                libfabric(COST.0, ["get", "get"]),
                [
                    peer("ucp_get over tcp", ucx("ucp_get", "8"), None),
                    peer("MPI_Get and flush over tcp", mpi(LAYERS, ["get-time", "8"]), None),
                ],
            ),
        ),
        over_tcp(
            "fetch-add over tcp, time",
            Nanoseconds,
            ["atomic"],
            ("atomic", MEDIAN),
            with(
                libfabric(COST.0, ["add"]),
                [
                    peer("ucp_fadd over tcp", ucx("ucp_fadd", "8"), None),
                    peer("MPI_Fetch_and_op over tcp", mpi(LAYERS, ["add-time", "8"]), None),
                ],
            ),
        ),
        over_tcp(
            "put 8 B over tcp, rate",
            Rate,
            ["put"],
            ("put", RATE),
            libfabric(COST.1, ["put-rate", "put-rate"]),
        ),
        over_tcp(
            "get 8 B over tcp, rate",
            Rate,
            ["get"],
            ("get", RATE),
            libfabric(COST.1, ["get-rate", "get-rate"]),
        ),
        over_tcp(
            "fetch-add over tcp, rate",
            Rate,
            ["atomic"],
            ("atomic", RATE),
            libfabric(COST.1, ["add-rate"]),
        ),
        ping_pong("ring over tcp 64 B", "64"),
        ping_pong("ring over tcp 4 KiB", "4096"),
        store("lookups over tcp, window 3", "3", "read-only"),
        store("lookups over tcp, window 128", "128", "read-only"),
        store("mixed over tcp, window 3", "3", "mixed"),
        store("mixed over tcp, window 128", "128", "mixed"),
    ]
}
