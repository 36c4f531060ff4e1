//! Asks of worlds whether every call ends in every fair execution: livelocks are found, loops that only an unfair schedule keeps going are
//! accepted.

#![allow(clippy::unwrap_used)]

mod support;

use loco::fabric::{Fabric, Lock, NodeId, Platform, Target};
use loco::{Channel, Manager, Thread};
use loco_sim::{
    Completeness, Config, FabricKind, FailureKind, Fate, Liveness, ModelFabric, Schedule, SimError, World,
    explore, liveness, note, replay,
};
use support::{Site, site};

/// The words of the world. All of them are on node 0.
struct Words(Channel<ModelFabric>);

impl Words {
    fn of(manager: &Manager<ModelFabric>) -> Words {
        let channel = Channel::builder(manager, "words")
            .kind("words")
            .region("words", 64);
        Words(channel.join().unwrap())
    }

    fn at(&self, word: usize) -> Target<'_, <ModelFabric as Fabric>::Remote> {
        let remote = self.0.region("words").unwrap().remote(NodeId(0)).unwrap();
        Target {
            remote,
            offset: 8 * word,
        }
    }

    fn read(&self, thread: &Thread<ModelFabric>, word: usize) -> u64 {
        thread.read_word(self.at(word)).unwrap()
    }

    fn swap(&self, thread: &Thread<ModelFabric>, word: usize, expected: u64, new: u64) -> u64 {
        thread.compare_swap_word(self.at(word), expected, new).unwrap()
    }
}

/// A world of one thread on each of two nodes, on the fabric with the capabilities of shared memory.
fn asks(body: fn(&Words, &Thread<ModelFabric>, usize)) -> Liveness {
    liveness(&config(), world(body)).unwrap()
}

fn config() -> Config {
    Config::default()
        .fabric(FabricKind::Shm)
        .states_max(Some(200_000))
}

fn world(body: fn(&Words, &Thread<ModelFabric>, usize)) -> impl Fn(&mut World) + Sync {
    move |world| {
        for me in 0..2 {
            let node = world.node(site(Words::of));
            world.thread(&node, &format!("node {me}"), move |site: &Site<Words>| {
                body(&site.objects, &site.thread(), me);
            });
        }
    }
}

fn livelock(asked: &Liveness) -> &loco_sim::Failure {
    let failure = asked.fate.failure().unwrap_or_else(|| panic!("{}", asked.fate));
    assert!(matches!(failure.kind, FailureKind::Livelock { .. }), "{failure}");
    failure
}

/// Each takes its own flag, and gives it back if the other's is taken too.
fn polite(words: &Words, thread: &Thread<ModelFabric>, me: usize) {
    loop {
        words.swap(thread, me, 0, 1);
        if words.read(thread, 1 - me) == 0 {
            break;
        }
        words.swap(thread, me, 1, 0);
    }
    words.swap(thread, me, 1, 0);
}

#[test]
fn two_threads_that_give_way_to_one_another_for_ever_are_a_livelock() {
    let asked = asks(polite);
    let failure = livelock(&asked);
    // Both go on in the round, and the report says with what.
    let text = failure.to_string();
    assert_eq!(failure.waiting.len(), 2, "{text}");
    for part in [
        "livelock: a round of ",
        "goes on with: ",
        "then, again and again:",
        "n0:words.words[0]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_schedule_of_a_livelock_repeats_it() {
    let asked = asks(polite);
    let text = livelock(&asked).schedule.to_string();
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.to_string(), text);
    let report = replay(&config(), &schedule, world(polite)).unwrap();
    let failure = report.failure.expect("the same livelock");
    assert!(matches!(failure.kind, FailureKind::Livelock { .. }), "{failure}");
    // In a world without the mistake the round does not come back to where it began.
    let mended = replay(&config(), &schedule, world(spin_lock));
    assert!(matches!(mended, Err(SimError::Replay { .. })), "{mended:?}");
}

/// Takes turns at the flag: the first to have it gets through.
fn spin_lock(words: &Words, thread: &Thread<ModelFabric>, _: usize) {
    for _ in 0..2 {
        while words.swap(thread, 0, 0, 1) != 0 {}
        note("in");
        words.swap(thread, 0, 1, 0);
    }
}

/// The spinning thread goes on for ever only while the holder, who could move, does not.
#[test]
fn a_spin_lock_is_no_livelock() {
    let asked = asks(spin_lock);
    assert!(matches!(asked.fate, Fate::Ends), "{}", asked.fate);
}

/// Explores the world with both threads' loops as they are, within this many steps. Returns what is said of a longer execution:
/// without and with [`Config::longer_fails`].
fn explored(body: fn(&Words, &Thread<ModelFabric>, usize)) -> (Completeness, FailureKind) {
    let short = config().steps_max(STEPS);
    let said = explore(&short, world(body)).unwrap();
    assert!(said.failure.is_none(), "{:?}", said.failure);
    let fails = Config {
        longer_fails: true,
        ..short
    };
    let failure = explore(&fails, world(body))
        .unwrap()
        .failure
        .expect("it is too long");
    (said.completeness, failure.kind)
}

/// The most steps of an execution that is explored: ten times as many as either world needs to end.
const STEPS: usize = 300;

/// Two threads that give way to one another in step go on for ever, and everybody moves. Two that spin for a lock go on only while its
/// holder stands still. Both have executions of any length, and an exploration says the same of both, whatever its limit: only the
/// question after fair executions tells one from the other.
#[test]
fn only_liveness_tells_a_livelock_from_a_long_run() {
    for body in [polite, spin_lock] {
        let (open, endless) = explored(body);
        assert!(matches!(open, Completeness::Incomplete(_)), "{open:?}");
        let FailureKind::Endless { steps, .. } = endless else {
            panic!("{endless:?}")
        };
        assert_eq!(steps, STEPS);
    }
    livelock(&asks(polite));
    assert!(matches!(asks(spin_lock).fate, Fate::Ends));
}

/// A round of reads before each attempt, as of a lock that first looks.
fn looks_first(words: &Words, thread: &Thread<ModelFabric>, _: usize) {
    loop {
        while words.read(thread, 0) != 0 {}
        if words.swap(thread, 0, 0, 1) == 0 {
            break;
        }
    }
    words.swap(thread, 0, 1, 0);
}

#[test]
fn a_lock_that_looks_first_is_no_livelock() {
    let asked = asks(looks_first);
    assert!(matches!(asked.fate, Fate::Ends), "{}", asked.fate);
}

/// Node 1 polls a word that nobody writes. A lock that is never given back is the same.
fn forgotten(words: &Words, thread: &Thread<ModelFabric>, me: usize) {
    if me == 1 {
        while words.read(thread, 0) == 0 {}
    }
}

#[test]
fn a_thread_that_polls_a_word_that_nobody_will_write_is_a_livelock() {
    let asked = asks(forgotten);
    let failure = livelock(&asked);
    assert_eq!(failure.waiting.len(), 1, "{failure}");
}

/// The two hand a word to and fro for ever, and no third waits in vain: what they do has no end.
fn to_and_fro(words: &Words, thread: &Thread<ModelFabric>, me: usize) {
    loop {
        words.swap(thread, 0, me as u64, 1 - me as u64);
    }
}

#[test]
fn two_threads_that_undo_one_anothers_changes_are_a_livelock() {
    assert_eq!(livelock(&asks(to_and_fro)).waiting.len(), 2);
}

/// Makes the same requests and gets the same replies several times, and then stops.
fn counts(words: &Words, thread: &Thread<ModelFabric>, me: usize) {
    if me == 0 {
        for _ in 0..7 {
            words.read(thread, 0);
        }
        note("counted");
    }
}

/// A thread that counts its rounds is not taken for one that goes on for ever.
#[test]
fn a_loop_that_counts_its_rounds_is_no_livelock() {
    let asked = asks(counts);
    assert!(matches!(asked.fate, Fate::Ends), "{}", asked.fate);
    assert_eq!(asked.rounds, 8, "seven equal rounds are no loop");
}

/// Waits for what another thread leaves under a lock, and keeps looking. What the lock protects decides what the thread does.
#[test]
fn a_loop_that_looks_under_a_lock_until_something_is_there_is_no_livelock() {
    type Shared = <<ModelFabric as Fabric>::Platform as Platform>::Mutex<u64>;
    let few = config().states_max(Some(1_000));
    let asked = liveness(&few, |world| {
        let node = world.node(|_| -> Shared { Lock::new(0) });
        world.thread(&node, "leaves", |shared: &Shared| *shared.lock() = 1);
        world.thread(&node, "looks", |shared: &Shared| while *shared.lock() == 0 {});
    });
    let asked = asked.unwrap();
    // Each look is a new value to the model, so that the answer may stay open at the limit. It is not that of a livelock.
    assert!(asked.fate.failure().is_none(), "{}", asked.fate);
}

/// What is left under a lock decides what a thread does next.
#[test]
fn what_a_lock_protects_is_not_taken_to_be_always_the_same() {
    type Shared = <<ModelFabric as Fabric>::Platform as Platform>::Mutex<u64>;
    let asked = liveness(&config(), |world| {
        let node = world.node(|_| -> Shared { Lock::new(0) });
        world.thread(&node, "leaves", |shared: &Shared| *shared.lock() = 1);
        world.thread(&node, "looks", |shared: &Shared| {
            let found = *shared.lock();
            note(found);
        });
    });
    assert!(matches!(asked.as_ref().unwrap().fate, Fate::Ends), "{asked:?}");
}

/// A bound on the attempts makes a livelock an end.
fn polite_for_a_while(words: &Words, thread: &Thread<ModelFabric>, me: usize) {
    for _ in 0..3 {
        words.swap(thread, me, 0, 1);
        if words.read(thread, 1 - me) == 0 {
            break;
        }
        words.swap(thread, me, 1, 0);
    }
    words.swap(thread, me, 1, 0);
}

#[test]
fn attempts_that_are_counted_come_to_an_end() {
    let asked = asks(polite_for_a_while);
    assert!(matches!(asked.fate, Fate::Ends), "{}", asked.fate);
}

/// Each waits for the other by the primitive: nobody goes on.
fn deadlocked(words: &Words, thread: &Thread<ModelFabric>, me: usize) {
    if me == 0 {
        let word = words.0.region("words").unwrap().local().unwrap();
        let cell: loco_sim::ModelCell = loco::fabric::Memory::cell::<u64>(word, 0).unwrap();
        let there = || (loco::fabric::WordCell::<u64>::load(&cell) == 1).then_some(());
        thread
            .wait_until("word", loco::fabric::Peers::None, there)
            .unwrap();
    }
}

#[test]
fn a_wait_that_nobody_ends_is_a_deadlock() {
    let asked = asks(deadlocked);
    let failure = asked.fate.failure().expect("nobody writes");
    assert_eq!(failure.kind, FailureKind::Deadlock, "{failure}");
}

/// The answer of a graph that is not complete says so.
#[test]
fn a_limit_leaves_the_answer_open() {
    let few = config().states_max(Some(1));
    let asked = liveness(&few, world(spin_lock)).unwrap();
    assert!(
        matches!(&asked.fate, Fate::Unknown(why) if why.contains("limit")),
        "{}",
        asked.fate
    );
}
