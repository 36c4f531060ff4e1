//! Tests the TCP fabric between nodes of one process: the conformance suite over plain and over encrypted connections.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loco_conformance::{Poster, World, allocate, local, share, target, word};
use loco_fabric::{Fabric, FabricError, Memory, Peers, Platform, QueuePair, Std, Wait, Work};
use loco_host::HugePages;
use loco_tcp::{TcpConfig, TcpFabric};

fn config() -> TcpConfig {
    TcpConfig::default()
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(16)
}

fn bring_up(n: usize, config: impl Fn(usize) -> TcpConfig + Sync) -> Vec<Result<TcpFabric, FabricError>> {
    loco_conformance::bring_up(n, |mesh| {
        let index = usize::from(mesh.node().0);
        TcpFabric::new(mesh, config(index))
    })
}

/// Returns the nodes of a job, each with these settings.
fn nodes(n: usize, config: TcpConfig) -> Vec<TcpFabric> {
    let nodes = bring_up(n, |_| config.clone());
    nodes.into_iter().map(Result::unwrap).collect()
}

macro_rules! worlds {
    ($($(#[$meta:meta])* $world:ident = $module:ident: $config:expr;)*) => {$(
        $(#[$meta])*
        struct $world;

        impl World for $world {
            type Fabric = TcpFabric;
            fn nodes(n: usize) -> Vec<TcpFabric> {
                nodes(n, $config)
            }
            fn kill(node: &TcpFabric) {
                node.mesh().fail();
            }
        }

        mod $module {
            use super::$world;
            loco_conformance::suite!($world);
        }
    )*};
}

worlds! {
    /// Plain connections.
    Plain = plain: config();
    /// Encrypted connections.
    Encrypted = encrypted: config().encrypt(true);
}

/// Nodes that disagree on encryption say so, all of them.
#[test]
fn nodes_that_disagree_on_encryption_are_refused() {
    for up in bring_up(3, |index| config().encrypt(index == 1)) {
        let error = up.unwrap_err().to_string();
        assert!(
            error.contains("node 1 encrypts") && error.contains("LOCO_TCP_ENCRYPT"),
            "{error}"
        );
    }
}

/// Transfers that are longer than all buffers, both ways at once, and more operations than fit in between: nobody waits for
/// somebody who waits for him.
#[test]
fn long_transfers_cross() {
    const LEN: usize = 6 << 20;
    for encrypt in [false, true] {
        let config = config().memory_limit_bytes(64 << 20).encrypt(encrypt);
        let nodes = nodes(2, config.clone());
        let memories: Vec<_> = nodes.iter().map(|node| allocate(node, 4 * LEN)).collect();
        let cross = |own: usize| {
            let (node, peer) = (&nodes[own], &nodes[1 - own]);
            let here = &memories[own];
            let remote = node
                .import(peer.node(), &peer.export(&memories[1 - own]))
                .unwrap();
            let bytes: Vec<u8> = (0..LEN).map(|at| (at * 7 + own) as u8).collect();
            // The first and the second quarter are this node's, the third is the peer's, the fourth is for what is read.
            here.write(3, &bytes[3..]).unwrap();
            let mut poster = Poster::new(node, peer.node());
            for _ in 0..2 {
                poster
                    .complete(|qp, work| qp.put(local(here, 3, LEN - 3), target(&remote, 2 * LEN + 3), work));
                poster.complete(|qp, work| {
                    qp.get(
                        local(here, 3 * LEN + 3, LEN - 3),
                        target(&remote, 2 * LEN + 3),
                        work.strong(),
                    )
                });
                let mut seen = vec![0; LEN - 3];
                here.read(3 * LEN + 3, &mut seen).unwrap();
                assert!(seen == bytes[3..], "encrypted: {encrypt}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| cross(0));
            cross(1);
        });
    }
}

/// What a node puts before it leaves takes effect, even if the others hear of its goodbye first.
#[test]
fn the_last_puts_of_a_node_that_leaves_take_effect() {
    for _ in 0..20 {
        let mut nodes = nodes(2, config());
        let leaving = nodes.pop().unwrap();
        let (here, remote) = share(&nodes[0], &leaving, 64);
        let mut qp = leaving.queue_pair(nodes[0].node()).unwrap();
        let _pending = qp
            .put_inline(&[7; 8], target(&remote, 0), Work::unsignaled())
            .unwrap();
        drop((qp, remote, leaving));
        let wait = Wait {
            what: "the last put",
            peers: Peers::All,
            deadline: None,
        };
        let seen = nodes[0].wait(wait, || Some(word(&here, 0)).filter(|&word| word != 0));
        assert_eq!(seen, Ok(u64::from_ne_bytes([7; 8])));
    }
}

/// A node whose threads do not wait serves its peers all the same.
#[test]
fn a_node_that_never_waits_serves() {
    let nodes = nodes(2, config());
    let [a, b] = &nodes[..] else { unreachable!() };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    for round in 0..200 {
        poster.complete(|qp, work| qp.fetch_add(target(&remote, 0), 1, local(&here, 0, 8), work));
        assert_eq!(word(&here, 0), round);
    }
    assert_eq!(word(&there, 0), 200);
}

/// What the other threads of a node do while one of them posts.
#[derive(Clone, Copy, Debug)]
enum Others {
    Absent,
    /// One waits for something that a peer puts.
    WaitForArrival,
    /// One waits for something that may come without a ring.
    Wait,
}

/// Ends what others do when it is dropped, also by a panic.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `body` beside another thread of `node`, which waits as `others` says until `body` has returned.
fn beside(node: &TcpFabric, others: Others, body: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let wait = Wait {
        what: "the end of the test",
        peers: Peers::None,
        deadline: None,
    };
    let ready = || over.load(Ordering::SeqCst).then_some(());
    std::thread::scope(|scope| {
        match others {
            Others::Absent => {}
            Others::WaitForArrival => {
                scope.spawn(move || node.wait_for_arrival(wait, ready).unwrap());
            }
            Others::Wait => {
                scope.spawn(move || node.wait(wait, ready).unwrap());
            }
        }
        let _until = Until(&over);
        body();
    });
}

/// What is posted lazily is sent although its thread makes no other call, whatever other threads do.
#[test]
fn what_is_posted_lazily_is_sent() {
    for others in [Others::Absent, Others::WaitForArrival, Others::Wait] {
        let nodes = nodes(2, config());
        let [a, b] = &nodes[..] else { unreachable!() };
        let (here, remote) = share(b, a, 64);
        let mut lazy = a.queue_pair(b.node()).unwrap();
        let mut poster = Poster::new(a, b.node());
        beside(a, others, || {
            for round in 1..=100_u64 {
                if round % 3 == 0 {
                    // The node has just waited.
                    poster.complete(|qp, work| qp.flush(work));
                }
                let put = Work::unsignaled().lazy();
                let _pending = lazy
                    .put_inline(&round.to_ne_bytes(), target(&remote, 0), put)
                    .unwrap();
                let wait = Wait {
                    what: "what was posted lazily",
                    peers: Peers::All,
                    deadline: Some(Std.now().after(Duration::from_secs(60))),
                };
                let seen = b.wait_for_arrival(wait, || (word(&here, 0) == round).then_some(()));
                assert_eq!(seen, Ok(()), "round {round}, {others:?}");
            }
        });
    }
}

/// A thread that waits in the background gets what comes for it while another one keeps looking.
#[test]
fn a_wait_in_the_background_ends_beside_a_thread_that_polls() {
    let nodes = nodes(2, config());
    let [a, b] = &nodes[..] else { unreachable!() };
    let (here, remote) = share(b, a, 64);
    let (rounds, over) = (100_u64, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut completions = Vec::new();
            while !over.load(Ordering::SeqCst) {
                b.poll(&mut completions).unwrap();
            }
        });
        let _until = Until(&over);
        let mut poster = Poster::new(a, b.node());
        for round in 1..=rounds {
            poster.complete(|qp, work| qp.put_inline(&round.to_ne_bytes(), target(&remote, 0), work));
            let wait = Wait {
                what: "a put",
                peers: Peers::All,
                deadline: Some(Std.now().after(Duration::from_secs(60))),
            };
            let seen = b.wait(wait, || (word(&here, 0) == round).then_some(()));
            assert_eq!(seen, Ok(()), "round {round}");
        }
    });
}
