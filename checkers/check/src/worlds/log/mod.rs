//! The log: all participants read the same records in the same order, each once and without a gap. A record whose append has
//! returned is never lost, whoever is lost; what a node has read is never taken back; and a record whose append has not returned
//! is read by all who go on or by none. An append that begins after another has returned comes after it.

mod faulty;

use loco::fabric::NodeId;
use loco::{Log, LogConfig, Manager, Parent as _, Participants, Result, SharedVar, Thread};
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must};

/// A record is as many words.
type Record<const N: usize> = [u64; N];

struct Objects {
    log: Option<Log<Fabric>>,
    baton: SharedVar<u64, Fabric>,
}

impl Objects {
    fn log(&self) -> &Log<Fabric> {
        match &self.log {
            Some(log) => log,
            None => panic!("the node is no participant"),
        }
    }
}

/// Returns the settings of a log of records of up to `words` words, in which nodes lead only during their calls.
fn config(capacity: usize, words: usize) -> LogConfig {
    LogConfig::new(capacity, 8 * words).service(false)
}

/// Returns a maker of the log among these nodes.
fn make(
    nodes: &'static [u16],
    config: LogConfig,
) -> impl Fn(&Manager<Fabric>) -> Result<Objects> + Clone + Send + 'static {
    move |manager| {
        let inside = Participants::of(nodes.iter().map(|&node| NodeId(node)));
        let participates = inside.contains(manager.node());
        let log = || Log::new(&manager.among(&inside), "log", config.clone());
        Ok(Objects {
            log: participates.then(log).transpose()?,
            baton: SharedVar::new(manager, "baton")?,
        })
    }
}

/// Returns the bytes of the record that stands for `value`.
fn bytes<const N: usize>(value: u64) -> Vec<u8> {
    let record: Record<N> = [value; N];
    record.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the value that a record stands for, which must be whole.
fn value<const N: usize>(record: &[u8]) -> u64 {
    let words: Vec<u64> = record
        .chunks(8)
        .map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
        .collect();
    assert_eq!(words.len(), N, "the record has its length");
    assert!(
        words.iter().all(|&word| word == words[0]),
        "the record is whole: {words:?}"
    );
    words[0]
}

/// Appends a value, as a call of the history.
fn append<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>, value: u64) {
    did("Log::append");
    let record = bytes::<N>(value);
    call(
        format!("append {value}"),
        || must(log.append(thread, &record)),
        u64::to_string,
    );
}

/// Reads a record, as a call of the history.
fn read<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>) {
    did("Log::read_into");
    let mut record = Vec::new();
    let read = || {
        let position = must(log.read_into(thread, &mut record));
        (position, value::<N>(&record))
    };
    call("read", read, |(position, value)| format!("{position} {value}"));
}

/// A step of a node.
#[derive(Clone, Copy)]
enum Step {
    Append(u64),
    /// Reads so many records.
    Read(u64),
}

use Step::{Append, Read};

fn take<const N: usize>(log: &Log<Fabric>, thread: &Thread<Fabric>, step: Step) {
    match step {
        Append(value) => append::<N>(log, thread, value),
        Read(count) => (0..count).for_each(|_| read::<N>(log, thread)),
    }
}

/// The steps of the threads of a world, each with its node. A node leads only during its calls, so each node reads all records
/// of its world before its last step ends.
type Steps = &'static [(u16, &'static [Step])];

/// Makes a world in which threads take their steps on a log with these settings.
fn steps<const N: usize>(nodes: &'static [u16], config: LogConfig, steps: Steps) -> impl Fn(&mut World) {
    move |world| {
        let last = nodes.iter().max().map_or(1, |&last| last.max(1));
        let mut stage = Stage::new(world, last + 1, steps.len(), make(nodes, config.clone()));
        for (number, &(node, steps)) in steps.iter().enumerate() {
            stage.run(
                node,
                number,
                &format!("thread {number}"),
                move |objects, thread| {
                    for &step in steps {
                        take::<N>(objects.log(), thread, step);
                    }
                },
            );
        }
        stage.promise(spec::log);
    }
}

/// Makes a world in which two threads of each node take the steps of their node in turn.
fn in_turn(config: LogConfig, steps: &'static [&'static [Step]]) -> impl Fn(&mut World) {
    move |world| {
        const BOTH: &[u16] = &[0, 1];
        let mut stage = Stage::new(world, 2, 2, make(BOTH, config.clone()));
        for (node, &steps) in (0..).zip(steps) {
            stage.in_turn(
                node,
                0..2,
                &format!("node {node}"),
                |objects| &objects.baton,
                steps.len() as u64,
                move |objects, thread, number| take::<1>(objects.log(), thread, steps[number as usize - 1]),
            );
        }
        stage.promise(spec::log);
    }
}

/// Builds a world in which the leader's work is done by calls of `lead`, and records are read without waiting.
fn by_hand(world: &mut World) {
    const BOTH: &[u16] = &[0, 1];
    let mut stage = Stage::new(world, 2, 1, make(BOTH, config(2, 1)));
    stage.run(0, 0, "leads", |objects, thread| {
        did("Log::lead");
        let log = objects.log();
        assert!(must(log.lead(thread)), "the lowest participant leads");
        did("Log::read");
        assert_eq!(
            must(log.read(thread)),
            bytes::<1>(7),
            "the record that the other appends"
        );
        did("Log::unread");
        assert_eq!(must(log.unread(thread)), 0, "everything is read");
    });
    stage.run(1, 0, "appends", |objects, thread| {
        let log = objects.log();
        assert!(!must(log.lead(thread)), "another node leads");
        let mut record = Vec::new();
        did("Log::try_read");
        assert_eq!(
            must(log.try_read(thread, &mut record)),
            None,
            "nothing is appended"
        );
        assert_eq!(must(log.append(thread, &bytes::<1>(7))), 0);
        assert_eq!(must(log.unread(thread)), 1, "what was appended is there");
        assert_eq!(must(log.try_read(thread, &mut record)), Some(0));
        assert_eq!(record, bytes::<1>(7));
    });
}

/// Makes a world in which node 0 makes no calls: its service thread leads.
fn served(capacity: usize, appends: &'static [u64]) -> impl Fn(&mut World) {
    move |world| {
        const BOTH: &[u16] = &[0, 1];
        let config = LogConfig::new(capacity, 8);
        let mut stage = Stage::new(world, 2, 1, make(BOTH, config));
        stage.run(1, 0, "appends", move |objects, thread| {
            for &value in appends {
                append::<1>(objects.log(), thread, value);
                read::<1>(objects.log(), thread);
            }
        });
        stage.promise(spec::log);
    }
}

/// Builds a world in which node 1 appends to a full ring of which it has read less than it tells others at a time. The leader does not
/// know that there is room.
fn told_late(world: &mut World) {
    // The others are told of every second record.
    const CAPACITY: u64 = 8;
    let make = make(&[0, 1], config(CAPACITY as usize, 1));
    let mut stage = Stage::prepared(world, 2, 1, make, |objects, thread| {
        let log = objects.log();
        if log.leader() == thread.node_id() {
            for position in 0..CAPACITY {
                assert_eq!(must(log.append(thread, &bytes::<1>(position))), position);
                assert_eq!(must(log.read(thread)), bytes::<1>(position));
            }
        }
    });
    stage.run(0, 0, "leads", |objects, thread| {
        assert_eq!(must(objects.log().read(thread)), bytes::<1>(CAPACITY));
    });
    stage.run(1, 0, "appends", |objects, thread| {
        let log = objects.log();
        assert_eq!(must(log.read(thread)), bytes::<1>(0));
        assert_eq!(must(log.append(thread, &bytes::<1>(CAPACITY))), CAPACITY);
        for position in 1..=CAPACITY {
            assert_eq!(must(log.read(thread)), bytes::<1>(position));
        }
    });
}

/// Returns the world in which both nodes append and show the positions.
pub(super) fn shown() -> NamedWorld {
    NamedWorld::new("append-and-append", |world| {
        const BOTH: &[u16] = &[0, 1];
        let mut stage = Stage::new(world, 2, 1, make(BOTH, config(2, 1)));
        stage.each("node", 0..2, |objects, thread, me| {
            append::<1>(objects.log(), thread, u64::from(me) + 1);
            // Node 0 leads until both records are there.
            for _ in 0..2 {
                must(objects.log().read(thread));
            }
        });
    })
}

/// Returns the worlds of the log.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    const TWO: &[u16] = &[0, 1];
    const THREE: &[u16] = &[0, 1, 2];
    const LAST: &[u16] = &[1, 2];
    const LEADER: Steps = &[(0, &[Append(1)]), (1, &[Read(1)])];
    const OTHER: Steps = &[(0, &[Read(1)]), (1, &[Append(1)])];
    const OTHER_TWICE: Steps = &[(0, &[Read(2)]), (1, &[Append(1), Append(2), Read(2)])];
    const BOTH: Steps = &[(0, &[Append(1), Read(2)]), (1, &[Append(2), Read(2)])];
    const ROUND: Steps = &[
        (0, &[Append(1), Read(1), Append(2), Read(1), Append(3), Read(1)]),
        (1, &[Read(3)]),
    ];
    // The leader must not use a slot again that the other has not read.
    const BEHIND: Steps = &[
        (0, &[Read(3)]),
        (1, &[Append(1), Read(1), Append(2), Append(3), Read(2)]),
    ];
    // Node 1 tells twice in a row how far it has read, and the leader has room for the last record only if the second stays.
    const TOLD: Steps = &[
        (0, &[Append(1), Append(2), Read(2), Append(3), Read(1), Append(4)]),
        (1, &[Read(2)]),
    ];
    // A node that appends sets aside what it has not read.
    const ASIDE: Steps = &[(0, &[Append(1), Append(2), Read(2)]), (1, &[Read(2)])];
    const ASIDE_OTHER: Steps = &[
        (0, &[Read(3)]),
        (1, &[Append(1), Append(2), Read(1), Append(3), Read(2)]),
    ];
    const OF_LAST: Steps = &[(1, &[Append(1), Read(2)]), (2, &[Append(2), Read(2)])];
    const OF_THREE: Steps = &[(0, &[Append(1)]), (1, &[Read(1)]), (2, &[Read(1)])];
    const APPENDERS: Steps = &[
        (0, &[Read(2)]),
        (1, &[Append(1), Read(2)]),
        (2, &[Append(2), Read(2)]),
    ];
    // Threads of one node share its place in the log and its appends.
    const THREADS: Steps = &[(0, &[Append(1)]), (0, &[Read(2)]), (1, &[Append(2), Read(2)])];
    // A thread that only appends must not keep the reader of its node from its own append.
    const READER_APPENDS: Steps = &[
        (0, &[Read(4)]),
        (1, &[Append(1), Read(4)]),
        (1, &[Append(2), Append(3), Append(4)]),
    ];
    const TURNS: &[&[Step]] = &[
        &[Append(1), Append(2), Read(1), Read(1), Append(3), Read(1)],
        &[Read(1), Read(2)],
    ];
    let mut worlds = vec![
        NamedWorld::new("leader-appends", steps::<1>(TWO, config(1, 1), LEADER)).small(),
        NamedWorld::new("told-twice", steps::<1>(TWO, config(2, 1), TOLD)).small(),
        NamedWorld::new("other-appends", steps::<1>(TWO, config(1, 1), OTHER)).small(),
        NamedWorld::new("by-hand", by_hand),
        NamedWorld::new("both", steps::<1>(TWO, config(2, 1), BOTH)),
        NamedWorld::new("other-twice", steps::<1>(TWO, config(2, 1), OTHER_TWICE)),
        NamedWorld::new("one-slot", steps::<1>(TWO, config(1, 1), ROUND)),
        NamedWorld::new("behind", steps::<1>(TWO, config(2, 1), BEHIND)),
        NamedWorld::new("aside", steps::<1>(TWO, config(1, 1), ASIDE)),
        NamedWorld::new("told-late", told_late),
        NamedWorld::new("aside-other", steps::<1>(TWO, config(1, 1), ASIDE_OTHER)),
        NamedWorld::new("memory", steps::<9>(TWO, config(2, 9), OTHER_TWICE)),
        NamedWorld::new("last-nodes", steps::<1>(LAST, config(2, 1), OF_LAST)),
    ];
    worlds.extend(faulty::worlds());
    worlds.extend([
        NamedWorld::new("served", served(2, &[1, 2])),
        NamedWorld::new("reader-appends", steps::<1>(TWO, config(1, 1), READER_APPENDS)),
        NamedWorld::new("two-threads", steps::<1>(TWO, config(2, 1), THREADS)),
        NamedWorld::new("threads-in-turn", in_turn(config(2, 1), TURNS)),
        NamedWorld::new("three-nodes", steps::<1>(THREE, config(1, 1), OF_THREE)),
        NamedWorld::new("three-nodes-both", steps::<1>(THREE, config(2, 1), APPENDERS)),
    ]);
    worlds
}
