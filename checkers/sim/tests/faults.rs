//! Checks time and loss by themselves: deadlines that pass, nodes that stop, and nodes that are declared lost
//! and live on.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco_fabric::{
    CompletionStatus, Control, Fabric, FabricError, Local, Memory, MemoryKind, NodeId, PeerState, Peers,
    Platform, QueuePair, RegionKey, RemoteMemory, Target, Time, Wait, Work, WorkRequestId,
};
use loco_sim::{
    Completeness, Config, FailureKind, Faults, ModelFabric, ModelMemory, Report, Schedule, Strategy, World,
    explore, note, reaches, replay,
};
use mowgli::event::Kind;

/// A node with a region of eight words.
struct Node {
    fabric: ModelFabric,
    memory: ModelMemory,
}

fn node(fabric: ModelFabric) -> Node {
    let memory = fabric.allocate(64, MemoryKind::Host).unwrap();
    Node { fabric, memory }
}

impl Node {
    fn load(&self, word: usize) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read(8 * word, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn store(&self, word: usize, value: u64) {
        self.memory.write(8 * word, &value.to_le_bytes()).unwrap();
    }

    /// Waits until the word is not zero.
    fn wait(&self, word: usize, peers: Peers<'_>, within: Option<u64>) -> Result<u64, FabricError> {
        let wait = Wait {
            what: "a word",
            peers,
            deadline: within.map(|ns| Time(self.fabric.platform().now().0 + ns)),
        };
        self.fabric
            .wait(wait, || Some(self.load(word)).filter(|&v| v != 0))
    }

    /// Posts puts of 1 into words of `peer`, on one queue pair. Fails if one could not be posted.
    fn put(&self, peer: u16, words: &[usize]) -> Result<(), FabricError> {
        let mut queue = self.fabric.queue_pair(NodeId(peer))?;
        let remote = self.fabric.import(NodeId(peer), &key(peer))?;
        for &word in words {
            let target = Target {
                remote: &remote,
                offset: 8 * word,
            };
            let _ = queue.put_inline(&1u64.to_le_bytes(), target, Work::unsignaled())?;
        }
        Ok(())
    }
}

/// Set-up threads have the numbers of their nodes, and the region is the first thing that each allocates.
fn key(peer: u16) -> RegionKey {
    RegionKey {
        arena: 0,
        address: u64::from(peer) << 43,
        len: 64,
        rkey: 0,
    }
}

fn config(faults: Faults) -> Config {
    Config {
        faults,
        time_max: Some(Duration::from_secs(600)),
        ..Config::default()
    }
}

fn expiries(expiries: u32) -> Faults {
    Faults {
        expiries,
        ..Faults::default()
    }
}

fn crash() -> Faults {
    Faults {
        crashes: 1,
        ..Faults::default()
    }
}

fn suspicion(unenforced: bool) -> Faults {
    Faults {
        suspicions: 1,
        unenforced,
        // A suspected node that is not told waits until its deadline.
        idle_expiries: unenforced,
        ..Faults::default()
    }
}

/// Returns the sets of notes of all complete executions.
fn outcomes(faults: Faults, build: impl Fn(&mut World) + Sync) -> BTreeSet<Vec<String>> {
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let report = explore(&config(faults), |world| {
        build(world);
        let found = found.clone();
        world.finally(move |end| {
            found.lock().unwrap().insert(end.notes());
        });
    })
    .unwrap();
    assert_eq!(
        report.completeness,
        Completeness::Complete,
        "{:?}",
        report.failure
    );
    println!("{} in {:?}", report.seen(), report.stats);
    Arc::try_unwrap(found).map_or_else(
        |shared| shared.lock().unwrap().clone(),
        |m| m.into_inner().unwrap(),
    )
}

fn set(lines: &[&[&str]]) -> BTreeSet<Vec<String>> {
    lines
        .iter()
        .map(|l| l.iter().map(|s| (*s).to_owned()).collect())
        .collect()
}

fn told(result: Result<u64, FabricError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(FabricError::Timeout { .. }) => "late".into(),
        Err(FabricError::PeerLost(node)) => format!("lost {}", node.0),
        Err(FabricError::DeclaredLost) => "cut off".into(),
        Err(other) => other.to_string(),
    }
}

/// Adds a thread that waits for the other thread's store.
fn store_and_wait(world: &mut World) {
    let n = world.node(node);
    world.thread(&n, "waits", |n| note(told(n.wait(0, Peers::None, Some(10)))));
    world.thread(&n, "stores", |n| n.store(0, 7));
}

#[test]
fn a_wait_with_a_deadline_may_end_by_it() {
    assert_eq!(outcomes(expiries(0), store_and_wait), set(&[&["7"]]));
    assert_eq!(outcomes(expiries(1), store_and_wait), set(&[&["7"], &["late"]]));
}

#[test]
fn only_so_many_deadlines_pass() {
    let world = |world: &mut World| {
        let n = world.node(node);
        world.thread(&n, "waits", |n| {
            let first = n.wait(0, Peers::None, Some(10)).is_err();
            let second = n.wait(0, Peers::None, Some(10)).is_err();
            note(format!("{first} {second}"));
        });
        world.thread(&n, "stores", |n| n.store(0, 7));
    };
    let one = set(&[&["false false"], &["true false"]]);
    assert_eq!(outcomes(expiries(1), world), one);
    let mut two = one;
    two.insert(vec!["true true".into()]);
    assert_eq!(outcomes(expiries(2), world), two);
}

#[test]
fn a_wait_that_only_its_deadline_ends_is_a_deadlock_unless_time_passes() {
    let world = |world: &mut World| {
        let n = world.node(node);
        world.thread(&n, "waits", |n| note(told(n.wait(0, Peers::None, Some(10)))));
    };
    let report = explore(&config(expiries(1)), world).unwrap();
    let failure = report.failure.expect("nobody stores");
    assert_eq!(failure.kind, FailureKind::Deadlock);
    let idle = Faults {
        idle_expiries: true,
        ..Faults::default()
    };
    assert_eq!(outcomes(idle, world), set(&[&["late"]]));
}

#[test]
fn who_goes_on_without_waiting_is_found_if_executions_are_to_end() {
    let world = |world: &mut World| {
        let n = world.node(node);
        world.thread(&n, "spins", |n| while n.load(0) == 0 {});
        world.thread(&n, "stores", |n| n.store(0, 7));
    };
    let pct = |longer_fails| Config {
        strategy: Strategy::Pct {
            executions: 20,
            seed: 1,
            depth: 1,
        },
        steps_max: 500,
        longer_fails,
        ..config(Faults::default())
    };
    let report = explore(&pct(false), world).unwrap();
    assert!(report.failure.is_none());
    assert!(
        matches!(report.completeness, Completeness::Incomplete(_)),
        "{report:?}"
    );
    let failure = explore(&pct(true), world).unwrap().failure.expect("no end");
    let FailureKind::Endless {
        steps: 500,
        polls: Some(polls),
    } = &failure.kind
    else {
        panic!("{:?}", failure.kind);
    };
    // The place follows where the build has symbols for it.
    assert!(polls.starts_with("P1 (spins) polls without `pause`"), "{polls}");
    assert!(failure.to_string().contains(polls), "{failure}");
    assert!(
        failure.to_string().contains("spins on node 0 goes on with"),
        "{failure}"
    );
    let again = replay(&pct(true), &failure.schedule, world).unwrap();
    assert_eq!(again.failure.map(|failure| failure.kind), Some(failure.kind));
}

#[test]
fn clocks_promise_order() {
    // A thread that sees the later deadline passed finds that the earlier one has passed too, on the same
    // node.
    let seen = outcomes(expiries(1), |world| {
        let n = world.node(node);
        world.thread(&n, "late", |n| {
            let result = n.wait(0, Peers::None, Some(100));
            note(format!("{} at {}", told(result), n.fabric.platform().now().0));
        });
        world.thread(&n, "early", |n| {
            let result = n.wait(1, Peers::None, Some(5));
            note(told(result));
        });
        world.thread(&n, "stores", |n| {
            n.store(1, 1);
            n.store(0, 1);
        });
    });
    // One expiry is enough for both waits: if the later deadline passed first, the other one has passed too.
    assert!(seen.contains(&vec!["late at 100".to_owned(), "late".to_owned()]));
    assert!(seen.contains(&vec!["1 at 5".to_owned(), "late".to_owned()]));
    assert!(seen.contains(&vec!["1 at 0".to_owned(), "1".to_owned()]));
    assert!(!seen.contains(&vec!["late at 5".to_owned(), "late".to_owned()]));
}

/// Makes node 0 put into two words of node 1, which waits for the first of them.
fn two_puts(world: &mut World) {
    let nodes = [world.node(node), world.node(node)];
    world.thread(&nodes[0], "puts", |n| {
        // The result does not matter: the other node says what has arrived.
        let _ = n.put(1, &[0, 1]);
    });
    world.thread(&nodes[1], "waits", |n| {
        let first = told(n.wait(0, Peers::One(NodeId(0)), None));
        let second = told(n.wait(1, Peers::One(NodeId(0)), None));
        note(format!("{first}, {second}"));
    });
}

#[test]
fn what_a_stopped_node_has_posted_arrives_or_does_not() {
    let seen = outcomes(crash(), two_puts);
    // Nothing is noted where the waiter is the node that stops.
    // The puts ask for no order.
    let ends: [&[&str]; 5] = [
        &[],
        &["1, 1"],
        &["1, lost 0"],
        &["lost 0, 1"],
        &["lost 0, lost 0"],
    ];
    assert_eq!(seen, set(&ends));
    assert_eq!(outcomes(Faults::default(), two_puts), set(&[&["1, 1"]]));
}

#[test]
fn nothing_of_a_lost_node_arrives_after_its_loss_is_known() {
    let late = |faults: Faults| {
        let wanted = reaches(
            &config(faults),
            |world| {
                let nodes = [world.node(node), world.node(node)];
                world.thread(&nodes[0], "puts", |n| drop(n.put(1, &[0])));
                world.thread(&nodes[1], "waits", |n| {
                    let lost = Err(FabricError::PeerLost(NodeId(0)));
                    if n.wait(0, Peers::One(NodeId(0)), Some(10)) == lost {
                        note(n.load(0));
                        note(n.load(0));
                    }
                });
            },
            |end| end.notes() == ["0", "1"],
        )
        .unwrap();
        assert!(wanted.report.failure.is_none());
        wanted.witness.is_some()
    };
    assert!(!late(crash()));
    assert!(!late(suspicion(false)));
    assert!(late(Faults {
        unenforced: true,
        ..crash()
    }));
    assert!(late(suspicion(true)));
}

/// Makes node 0 put twice and note what it was told.
fn told_or_not(world: &mut World) {
    let nodes = [world.node(node), world.node(node)];
    world.thread(&nodes[0], "puts", |n| {
        note(told(n.put(1, &[0]).map(|()| 0)));
        let second = told(n.put(1, &[1]).map(|()| 0));
        assert!(second != "cut off" || n.fabric.control().declared_lost());
        note(second);
    });
    world.thread(&nodes[1], "waits", |n| {
        note(told(n.wait(1, Peers::One(NodeId(0)), Some(10))));
    });
}

#[test]
fn a_node_that_is_declared_lost_is_told_by_its_next_call() {
    let seen = outcomes(suspicion(false), told_or_not);
    let expected = set(&[
        &["0", "0", "1"],
        &["0", "0", "lost 0"],
        &["0", "cut off", "lost 0"],
        &["cut off", "cut off", "lost 0"],
        // The other node is declared lost.
        &["0", "0", "cut off"],
        &["0", "lost 1", "cut off"],
        &["lost 1", "lost 1", "cut off"],
    ]);
    assert_eq!(seen, expected);
    // Without enforcement it is never told.
    let seen = outcomes(suspicion(true), told_or_not);
    assert!(!seen.iter().flatten().any(|note| note == "cut off"), "{seen:?}");
    assert!(seen.contains(&vec!["0".to_owned(), "0".to_owned(), "lost 0".to_owned()]));
}

#[test]
fn operations_towards_a_lost_node_fail() {
    let seen = outcomes(crash(), |world| {
        let nodes = [world.node(node), world.node(node)];
        world.thread(&nodes[0], "gets", |n| {
            let mut queue = n.fabric.queue_pair(NodeId(1)).ok();
            let remote = n.fabric.import(NodeId(1), &key(1));
            let (Some(queue), Ok(remote)) = (queue.as_mut(), remote) else {
                return note("not reached");
            };
            assert_eq!(remote.node(), NodeId(1));
            let local = Local {
                memory: &n.memory,
                offset: 0,
                len: 8,
            };
            let target = Target {
                remote: &remote,
                offset: 0,
            };
            if let Err(error) = queue.get(local, target, Work::signaled(WorkRequestId(5))) {
                assert_eq!(error, FabricError::PeerLost(NodeId(1)));
                assert_eq!(n.fabric.control().peer_state(NodeId(1)), PeerState::Lost);
                assert_eq!(n.fabric.control().departures(), 1);
                return note("not posted");
            }
            let mut ended = Vec::new();
            let wait = Wait {
                what: "completion",
                peers: Peers::None,
                deadline: None,
            };
            n.fabric
                .wait(wait, || {
                    n.fabric.poll(&mut ended).unwrap();
                    (!ended.is_empty()).then_some(())
                })
                .unwrap();
            let lost = Box::new(FabricError::PeerLost(NodeId(1)));
            match &ended[0].status {
                CompletionStatus::Success => note(n.load(0)),
                failed => {
                    assert_eq!(*failed, CompletionStatus::Failed(lost));
                    note("failed");
                }
            }
        });
        world.thread(&nodes[1], "stores", |n| n.store(0, 3));
    });
    let of = |text: &str| seen.iter().any(|notes| notes == &[text]);
    assert!(of("0") && of("3") && of("failed") && of("not posted") && of("not reached"));
    // The first node may stop, too, and then says nothing.
    assert!(seen.contains(&Vec::new()));
    assert_eq!(seen.len(), 6);
}

impl Node {
    /// Adds 1 to the first word of `peer` and returns what was there, unless a node is lost first.
    fn count(&self, peer: u16) -> Option<u64> {
        let mut queue = self.fabric.queue_pair(NodeId(peer)).ok()?;
        let remote = self.fabric.import(NodeId(peer), &key(peer)).ok()?;
        let target = Target {
            remote: &remote,
            offset: 0,
        };
        let result = Local {
            memory: &self.memory,
            offset: 8,
            len: 8,
        };
        let posted = queue.fetch_add(target, 1, result, Work::signaled(WorkRequestId(1)));
        let _ = posted.ok()?;
        let wait = Wait {
            what: "completion",
            peers: Peers::None,
            deadline: None,
        };
        let mut ended = Vec::new();
        let polled = self.fabric.wait(wait, || match self.fabric.poll(&mut ended) {
            Ok(0) => None,
            ended => Some(ended),
        });
        polled.ok()?.ok()?;
        (ended[0].status == CompletionStatus::Success).then(|| self.load(1))
    }
}

#[test]
fn what_an_atomic_operation_has_returned_is_not_undone_by_a_loss() {
    // Nodes 1 and 2 count at node 0. One of the three is lost.
    for faults in [crash(), suspicion(false)] {
        let seen = outcomes(faults, |world| {
            let nodes = [world.node(node), world.node(node), world.node(node)];
            for counter in &nodes[1..] {
                world.thread(counter, "counts", |n| {
                    if let Some(count) = n.count(0) {
                        note(count);
                    }
                });
            }
        });
        assert!(!seen.contains(&vec!["0".to_owned(); 2]), "{seen:?}");
        // The one that is lost may have counted.
        assert!(seen.contains(&vec!["1".to_owned()]) && seen.contains(&vec!["0".to_owned(), "1".to_owned()]));
    }
}

#[test]
fn faults_can_be_repeated_by_their_schedule() {
    for (faults, world) in [
        (expiries(1), store_and_wait as fn(&mut World)),
        (crash(), two_puts),
        (suspicion(false), told_or_not),
        (suspicion(true), told_or_not),
    ] {
        let bad = |notes: &[String]| notes.iter().any(|n| n.contains("lost") || n.contains("late"));
        for strategy in [
            Strategy::Exhaustive,
            Strategy::Bounded(loco_sim::Bounds {
                preemptions: None,
                delays: Some(0),
            }),
            Strategy::Random {
                executions: 1_000,
                seed: 1,
            },
            Strategy::Pct {
                executions: 1_000,
                seed: 1,
                depth: 2,
            },
        ] {
            let config = Config {
                strategy,
                ..config(faults)
            };
            let reach = reaches(&config, world, move |end| bad(&end.notes())).unwrap();
            let witness = reach
                .witness
                .unwrap_or_else(|| panic!("{strategy:?} of {faults}"));
            let text = witness.schedule.to_string();
            let schedule: Schedule = text.parse().unwrap();
            assert_eq!(schedule.to_string(), text);
            let again: Report = replay(&config, &schedule, |w: &mut World| {
                world(w);
                w.finally(move |end| assert!(!bad(&end.notes()), "again"));
            })
            .unwrap();
            let failure = again.failure.expect("the same end");
            assert!(matches!(failure.kind, FailureKind::End { .. }), "{failure}");
            assert!(
                failure
                    .trace
                    .iter()
                    .any(|step| step.what.contains("deadline passes")
                        || step.what.contains("stops")
                        || step.what.contains("thought lost")),
                "{failure}"
            );
            assert!(
                loco_sim::execution_graph(&config, &schedule, world)
                    .unwrap()
                    .is_consistent()
            );
        }
    }
}

/// Schedules of [`two_puts`] in which node 0 is thought lost, and what has become of its puts by then.
const LOSSES: [(&str, &str); 4] = [
    ("t2*3 s0", "in the store buffer; the second is not posted"),
    ("t2*4 d2*2 s0", "at the card"),
    ("t2*4 d2*2 n2.1w s0", "the first is on its way to memory"),
    ("t2*4 d2*2 n2.1w n2.1p s0", "the first is in memory"),
];

#[test]
fn a_graph_has_the_writes_that_a_loss_did_not_discard() {
    let config = config(suspicion(false));
    for (schedule, stage) in LOSSES {
        let graph = loco_sim::execution_graph(&config, &schedule.parse().unwrap(), two_puts).unwrap();
        let execution = graph.execution();
        let of_kind = |wanted| {
            execution
                .events
                .iter()
                .filter(move |event| event.kind == wanted)
                .count()
        };
        assert_eq!(
            of_kind(Kind::NicRemoteWrite),
            usize::from(schedule.contains('p')),
            "{stage}"
        );
        assert_eq!(
            of_kind(Kind::NicLocalRead),
            usize::from(schedule.contains('w')),
            "{stage}"
        );
        assert!(graph.is_consistent(), "{stage}:\n{}", graph.text());
    }
}

#[test]
fn a_trace_names_the_puts_that_a_loss_leaves_under_way() {
    let world = |world: &mut World| {
        two_puts(world);
        world.finally(|_| panic!("the end"));
    };
    for (schedule, stage) in LOSSES {
        let seen_late = |unenforced: bool| {
            let config = config(suspicion(unenforced));
            // Node 1 learns of the loss and looks at its words.
            let schedule = format!("{schedule} l1.0 t3*4").parse().unwrap();
            let failure = replay(&config, &schedule, world).unwrap().failure.unwrap();
            let loss = failure
                .trace
                .iter()
                .position(|step| step.what.contains("thought lost"))
                .unwrap();
            let late = failure.trace[loss..]
                .iter()
                .filter_map(|step| step.weak.as_deref());
            late.filter(|late| late.contains("put")).count() > 0
        };
        assert!(!seen_late(false), "{stage}");
        assert!(seen_late(true), "{stage}");
    }
}

#[test]
fn reports_name_their_faults() {
    let report = explore(&config(crash()), two_puts).unwrap();
    assert_eq!(report.seen(), "complete for at most 1 crash, on tier unordered");
    let report = explore(&config(Faults::default()), two_puts).unwrap();
    assert_eq!(report.seen(), "complete, on tier unordered");
}
