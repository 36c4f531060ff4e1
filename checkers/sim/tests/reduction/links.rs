//! Links that are cut for a while: the reduction keeps what such links lead to, which is nothing that delays do not lead to.

use std::collections::BTreeSet;

use loco_fabric::{Fabric, FabricError, Memory, NodeId, Peers, QueuePair, Target, Wait, WordCell, Work};
use loco_sim::{Bounds, Config, FailureKind, Faults, Strategy, explore, note, replay};

use crate::losses::{histories_with, plans};
use crate::node::{Node, agree, node, outcomes, seeds};

const CUT: Faults = Faults {
    expiries: 0,
    crashes: 0,
    suspicions: 0,
    cuts: 1,
    unenforced: false,
    idle_expiries: false,
};

#[test]
fn the_reduction_keeps_every_history_of_links_that_are_cut() {
    agree(seeds(0, 60), plans, |config, plans| {
        histories_with(CUT, config, plans)
    });
}

/// Operations may take any time, so a link that is cut for a while leads to nothing new.
#[test]
fn links_that_are_cut_lead_to_what_delays_lead_to() {
    for seed in seeds(2_000_000, 60) {
        let plans = plans(seed);
        let found = |faults| histories_with(faults, &Config::default(), &plans);
        assert_eq!(found(CUT), found(Faults::default()), "seed {seed}: {plans:?}");
    }
}

impl Node {
    /// Puts 1 into a word of a peer.
    fn tell(&self, peer: u16, word: usize) {
        let mut queue = self.fabric.queue_pair(NodeId(peer)).unwrap();
        let remote = self
            .fabric
            .import(NodeId(peer), &Node::key(usize::from(peer)))
            .unwrap();
        let target = Target {
            remote: &remote,
            offset: 8 * word,
        };
        let put = queue.put_inline(&1_u64.to_le_bytes(), target, Work::unsignaled());
        let _ = put.unwrap();
    }

    fn wait_until_told(&self, word: usize) {
        self.wait(|| (self.load(word) == 1).then_some(()));
    }
}

/// Node 0 tells node 2 and then node 1, which tells node 2 in turn. Returns what node 2 finds of node 0's word.
fn relayed(faults: Faults, delays: Option<u32>) -> BTreeSet<Vec<String>> {
    let bounds = |delays| {
        Strategy::Bounded(Bounds {
            preemptions: None,
            delays: Some(delays),
        })
    };
    let config = Config {
        faults,
        strategy: delays.map_or(Strategy::Exhaustive, bounds),
        ..Config::default()
    };
    outcomes(
        &config,
        &delays,
        |end| end.notes(),
        |world| {
            for me in 0..3 {
                let of = world.node(node);
                world.thread(&of, &format!("node {me}"), move |node| match me {
                    0 => {
                        node.tell(2, 0);
                        node.tell(1, 0);
                    }
                    1 => {
                        node.wait_until_told(0);
                        node.tell(2, 1);
                    }
                    _ => {
                        node.wait_until_told(1);
                        note(node.load(0));
                    }
                });
            }
        },
    )
}

#[test]
fn a_cut_link_needs_no_delays_for_what_it_keeps_back() {
    let late = BTreeSet::from([vec!["0".to_owned()], vec!["1".to_owned()]]);
    let in_time = BTreeSet::from([vec!["1".to_owned()]]);
    assert_eq!(relayed(Faults::default(), None), late);
    assert_eq!(relayed(Faults::default(), Some(0)), in_time);
    assert_eq!(relayed(CUT, Some(0)), late);
}

/// Waits for a word until a deadline.
fn waits(node: &Node) {
    let wait = Wait {
        what: "the word",
        peers: Peers::None,
        deadline: None,
    };
    let there = || (node.load(0) == 1).then_some(());
    match node
        .fabric
        .wait_within(wait, std::time::Duration::from_secs(1), there)
    {
        Ok(()) => note("there"),
        Err(FabricError::Timeout { .. }) => note("late"),
        Err(error) => panic!("{error}"),
    }
}

/// While a link is cut a deadline passes that counts, and no other; and the link comes back, so that nobody waits for ever.
#[test]
fn waits_behind_a_cut_link_end() {
    let found = |faults| {
        let config = Config::default().faults(faults);
        outcomes(
            &config,
            &faults,
            |end| end.notes(),
            |world| {
                let nodes = [world.node(node), world.node(node)];
                world.thread(&nodes[0], "tells", |node| node.tell(1, 0));
                world.thread(&nodes[1], "waits", waits);
            },
        )
    };
    let notes = |notes: &[&str]| -> BTreeSet<Vec<String>> {
        notes.iter().map(|&note| vec![note.to_owned()]).collect()
    };
    let idle = Faults {
        idle_expiries: true,
        ..CUT
    };
    let late = Faults { expiries: 1, ..CUT };
    assert_eq!(found(CUT), notes(&["there"]));
    assert_eq!(found(idle), notes(&["there"]));
    assert_eq!(found(late), notes(&["late", "there"]));
}

/// A partition of three nodes is two cut links. The schedule says when, and repeats it.
#[test]
fn the_trace_and_the_schedule_tell_of_cut_links() {
    let config = Config {
        faults: Faults { cuts: 2, ..CUT },
        strategy: Strategy::Bounded(Bounds {
            preemptions: None,
            delays: Some(0),
        }),
        ..Config::default()
    };
    let world = |world: &mut loco_sim::World| {
        let nodes = [world.node(node), world.node(node), world.node(node)];
        world.thread(&nodes[0], "tells", |node| {
            node.tell(1, 0);
            node.tell(2, 0);
            node.memory.cell::<u64>(0).unwrap().store(1_u64);
        });
        world.thread(&nodes[0], "looks", |node| node.wait_until_told(0));
        world.finally(move |end| {
            let word = |of: &loco_sim::Node<Node>| of.get().map(|node| end.word(&node.memory, 0));
            assert_eq!([word(&nodes[1]), word(&nodes[2])], [Some(1), Some(1)]);
            panic!("over");
        });
    };
    // What was under way arrives in every execution: the check of the end gets as far as its last line.
    let report = explore(&config, world).unwrap();
    let failure = report.failure.expect("every execution fails");
    assert!(
        matches!(&failure.kind, FailureKind::End { message } if message.starts_with("over")),
        "{failure}"
    );
    let schedule = "@unordered t3 d3 k0.1 t3 d3 k0.2 t3 d3 h0.1 h0.2";
    let replayed = replay(&config, &schedule.parse().unwrap(), world).unwrap();
    let trace = replayed.failure.expect("fails").to_string();
    for part in [
        "the link between nodes 0 and 1 is cut",
        "the link between nodes 0 and 2 is there again",
    ] {
        assert!(trace.contains(part), "{part}: {trace}");
    }
}
