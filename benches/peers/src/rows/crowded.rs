//! The rows of more and more nodes on the same processors: the barrier, puts and broadcasts. Where there are more nodes than
//! processors, OpenMPI's ranks yield while they wait.

use super::Unit::{Nanoseconds, Rate};
use super::{MEDIAN, ONE_WAY, PAIR, Peer, RATE, Row, Side, mpi_program, peer, row};

/// Every row.
pub fn all() -> Vec<Row> {
    macro_rules! rows {
        ($($nodes:literal),*) => {
            [$(
                with_nodes(
                    $nodes,
                    [
                        concat!($nodes, " nodes: barrier"),
                        concat!($nodes, " nodes: put 8 B, one way"),
                        concat!($nodes, " nodes: broadcast 64 B"),
                    ],
                )
            ),*]
        };
    }
    rows!("2", "3", "4", "8", "16", "32")
        .into_iter()
        .flatten()
        .collect()
}

/// Makes the rows of so many nodes. A put goes between two of them while the others wait, so it is compared with itself.
fn with_nodes(nodes: &'static str, names: [&'static str; 3]) -> [Row; 3] {
    let [barrier, put, broadcast] = names;
    let mpi_barrier = peer("MPI_Barrier", ranks(nodes, "barrier"), None);
    let mpi_ibcast = peer("MPI_Ibcast, 64 under way", ranks(nodes, "ibcast"), None);
    let mut rows = [
        row(
            barrier,
            Nanoseconds,
            ["barrier"],
            ("barrier", MEDIAN),
            [mpi_barrier],
        ),
        row(put, Nanoseconds, ["put"], ("put", ONE_WAY), []),
        row(broadcast, Rate, ["broadcast"], ("broadcast", RATE), [mpi_ibcast]),
    ];
    rows[1].peers = vec![two_nodes(&rows[1])];
    for row in &mut rows {
        row.bench.nodes = nodes;
    }
    rows
}

/// Returns the work of `row`, done by two nodes, as a peer.
fn two_nodes(row: &Row) -> Peer {
    let mut bench = row.bench.clone();
    bench.nodes = PAIR;
    peer("the same, 2 nodes", Side::Loco(bench), None)
}

/// A program of so many ranks.
fn ranks(nodes: &'static str, program: &'static str) -> Side {
    let mut side = mpi_program(program, false);
    if let Side::Mpi { ranks, .. } = &mut side {
        *ranks = nodes;
    }
    side
}
