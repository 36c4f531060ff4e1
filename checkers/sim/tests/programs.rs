//! Programs from their beginning to their end: set-up and end are part of what is explored.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loco::fabric::{Fabric, Memory, NodeId, Peers, Target, WordCell};
use loco::raw::Flags;
use loco::{Barrier, Channel, Manager, Result};
use loco_sim::{
    Blame, Completeness, Config, FabricKind, FailureKind, Faults, ModelFabric, Strategy, World, explore,
    replay, rounds,
};

const NUMBER: usize = 0;
const NEWS: usize = 8;

/// Node 0 puts a number, and then the news of it, into the memory of node 1, and ends. Node 1 waits for the news.
fn news(fabric: impl Fabric, order: Flags) -> Result<()> {
    let manager = Manager::new(fabric)?;
    let channel = Channel::builder(&manager, "news").region("words", 16).join()?;
    manager.wait_for_ready()?;
    let (thread, words) = (manager.thread()?, channel.region("words")?);
    if manager.node() == NodeId(0) {
        let remote = words.remote(NodeId(1))?;
        let at = |offset| Target { remote, offset };
        thread.put_inline(&42_u64.to_le_bytes(), at(NUMBER))?.forget();
        thread
            .put_inline_with(&1_u64.to_le_bytes(), at(NEWS), order)?
            .forget();
        return Ok(());
    }
    let (number, news) = (
        words.local()?.cell::<u64>(NUMBER)?,
        words.local()?.cell::<u64>(NEWS)?,
    );
    thread.wait_until("news", Peers::One(NodeId(0)), || (news.load() == 1).then_some(()))?;
    assert_eq!(number.load(), 42, "the number is there");
    Ok(())
}

fn program(order: Flags) -> impl Fn(&mut World) + Sync {
    move |world| world.program(2, move |fabric: ModelFabric| news(fabric, order))
}

/// Node 0 may end as soon as it is ready. Its set-up service once left the last answer unsent then, and node 1 was never ready: the
/// eleventh of these executions was a deadlock.
#[test]
fn a_node_that_ends_keeps_nobody_from_becoming_ready() {
    for (fabric, executions) in [(FabricKind::Model, 3_000), (FabricKind::Shm, 1_000)] {
        for strategy in [
            Strategy::Random { executions, seed: 1 },
            Strategy::Pct {
                executions,
                seed: 1,
                depth: 3,
            },
        ] {
            let config = Config::default().strategy(strategy).fabric(fabric);
            let report = explore(&config, program(Flags::STRONG)).unwrap();
            if let Some(failure) = report.failure {
                panic!("{failure}");
            }
            assert_eq!(report.completeness, Completeness::Random(executions));
        }
    }
}

#[test]
fn rounds_find_a_flag_that_overtakes_and_the_schedule_repeats_it() {
    let config = Config::default();
    // Far more than it takes, for a loaded host.
    let time = Duration::from_secs(100);
    let fabrics = [FabricKind::Model, FabricKind::Shm];
    let report = rounds(&config, &fabrics, time, 1, program(Flags::default())).unwrap();
    let failure = report.failure.unwrap();
    assert!(matches!(failure.kind, FailureKind::Assertion { .. }), "{failure}");
    assert_eq!(report.completeness, Completeness::Stopped);
    let again = replay(&config, &failure.schedule, program(Flags::default())).unwrap();
    assert_eq!(again.failure.unwrap().kind, failure.kind);
}

#[test]
fn rounds_end_when_they_are_cancelled_and_count_all_of_their_executions() {
    let cancel = Arc::new(AtomicBool::new(false));
    let builds = AtomicU64::new(0);
    // Each execution builds the world anew.
    let world = |world: &mut World| {
        if builds.fetch_add(1, Ordering::Relaxed) == 100 {
            cancel.store(true, Ordering::Relaxed);
        }
        program(Flags::STRONG)(world);
    };
    let config = Config::default().cancel(Some(cancel.clone()));
    let report = rounds(&config, &[FabricKind::Shm], Duration::from_secs(1_000), 1, world).unwrap();
    assert!(report.failure.is_none());
    assert_eq!(report.fabric, FabricKind::Shm);
    assert_eq!(report.completeness, Completeness::Random(report.stats.executions));
    assert!(report.stats.executions > 10, "{:?}", report.stats);
}

#[test]
fn an_error_of_a_node_is_a_failure() {
    let world = |world: &mut World| world.program(2, |_: ModelFabric| Err::<(), _>("no money left"));
    let report = explore(&Config::default(), world).unwrap();
    let failure = report.failure.unwrap().to_string();
    assert!(failure.contains("the program failed: no money left"), "{failure}");
}

/// Faults of which one execution has one at most.
fn one(faults: Faults) -> Config {
    Config {
        faults: Faults {
            idle_expiries: true,
            ..faults
        },
        longer_fails: true,
        ..Config::default()
    }
}

fn crash() -> Config {
    one(Faults {
        crashes: 1,
        ..Faults::default()
    })
}

fn expiry() -> Config {
    one(Faults {
        expiries: 1,
        ..Faults::default()
    })
}

fn random(config: Config) -> Config {
    config.strategy(Strategy::Random {
        executions: 3_000,
        seed: 1,
    })
}

fn blames(error: &loco::Error) -> Option<Blame> {
    match error.lost_peer() {
        Some(peer) => Some(Blame::Loss(peer)),
        None => error.is_timeout().then_some(Blame::Deadline),
    }
}

#[test]
fn the_error_of_a_loss_is_a_failure_unless_the_program_says_that_it_is_one_of_a_fault() {
    let report = explore(&random(crash()), program(Flags::STRONG)).unwrap();
    let failure = report.failure.unwrap().to_string();
    assert!(failure.contains("the program failed"), "{failure}");
    let with_faults = |world: &mut World| {
        world.program_with_faults(2, |fabric: ModelFabric| news(fabric, Flags::STRONG), blames);
    };
    for fabric in [FabricKind::Model, FabricKind::Shm] {
        for config in [crash(), expiry()] {
            let report = explore(&random(config.fabric(fabric)), with_faults).unwrap();
            if let Some(failure) = report.failure {
                panic!("{failure}");
            }
            assert_eq!(report.completeness, Completeness::Random(3_000));
        }
    }
}

#[test]
fn a_wrong_result_is_a_failure_also_where_a_node_may_be_lost() {
    let world = |world: &mut World| {
        world.program_with_faults(2, |fabric: ModelFabric| news(fabric, Flags::default()), blames);
    };
    let failure = explore(&random(crash()), world).unwrap().failure.unwrap();
    assert!(failure.to_string().contains("the number is there"), "{failure}");
}

/// Where no fault happens, an error that reports one comes from the program.
#[test]
fn the_error_of_a_fault_that_has_not_happened_is_a_failure() {
    let lost =
        |_: ModelFabric| Err::<(), _>(loco::Error::from(loco::fabric::FabricError::PeerLost(NodeId(0))));
    let world = move |world: &mut World| world.program_with_faults(1, lost, blames);
    let failure = explore(&expiry(), world).unwrap().failure.unwrap();
    assert!(failure.to_string().contains("the program failed"), "{failure}");
}

/// A node whose wait at a barrier is late ends, and the other one hears that it is gone.
#[test]
fn a_node_that_ends_after_a_fault_is_lost_to_the_others() {
    let ends = Arc::new([const { AtomicU64::new(0) }; 3]);
    let counted = ends.clone();
    let meets = move |fabric: ModelFabric| -> Result<()> {
        let manager = Manager::new(fabric)?;
        let barrier = Barrier::new(&manager, "barrier")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let met = barrier.wait(&thread).and_then(|()| barrier.wait(&thread));
        let end = match &met {
            Ok(()) => 0,
            Err(error) if error.is_timeout() => 1,
            Err(_) => 2,
        };
        counted[end].fetch_add(1, Ordering::Relaxed);
        met
    };
    let world = |world: &mut World| world.program_with_faults(2, meets.clone(), blames);
    for fabric in [FabricKind::Model, FabricKind::Shm] {
        let report = explore(&random(expiry().fabric(fabric)), world).unwrap();
        if let Some(failure) = report.failure {
            panic!("{failure}");
        }
    }
    let [met, late, lost] = [0, 1, 2].map(|end| ends[end].load(Ordering::Relaxed));
    assert!(
        met > 0 && late > 0 && lost > 0,
        "{met} have met, {late} were late, {lost} have heard of a loss"
    );
}

/// Waits for a word that node 2 puts into the memory of node 0. Node 0 returns `of_loss` for the error of that wait.
fn waits_for_node_2(fabric: impl Fabric, of_loss: fn(loco::Error) -> loco::Error) -> Result<()> {
    let manager = Manager::new(fabric)?;
    let channel = Channel::builder(&manager, "news").region("words", 16).join()?;
    manager.wait_for_ready()?;
    let (thread, words) = (manager.thread()?, channel.region("words")?);
    match manager.node() {
        NodeId(0) => {
            let news = words.local()?.cell::<u64>(NEWS)?;
            let there = || (news.load() == 1).then_some(());
            let waited = thread.wait_until("news", Peers::One(NodeId(2)), there);
            waited.map_err(of_loss)
        }
        NodeId(2) => {
            let remote = words.remote(NodeId(0))?;
            let target = Target { remote, offset: NEWS };
            thread.put_inline(&1_u64.to_le_bytes(), target)?.wait(&thread)
        }
        _ => Ok(()),
    }
}

/// Explores random executions of three nodes of which node 0 returns `of_loss` for its error, on both fabrics.
fn of_three(config: &Config, of_loss: fn(loco::Error) -> loco::Error) -> Option<String> {
    let world = |world: &mut World| {
        world.program_with_faults(
            3,
            move |fabric: ModelFabric| waits_for_node_2(fabric, of_loss),
            blames,
        );
    };
    [FabricKind::Model, FabricKind::Shm]
        .into_iter()
        .find_map(|fabric| {
            let report = explore(&random(config.clone().fabric(fabric)), world).unwrap();
            report.failure.map(|failure| failure.to_string())
        })
}

fn blames_node_1(_: loco::Error) -> loco::Error {
    loco::Error::from(loco::fabric::FabricError::PeerLost(NodeId(1)))
}

#[test]
fn an_error_that_names_a_node_that_is_not_lost_is_a_failure() {
    // The deadlines of nodes pass, and nobody is lost but those that end by them.
    for config in [crash(), expiry()] {
        assert_eq!(of_three(&config, |error| error), None);
        let failure = of_three(&config, blames_node_1).expect("node 1 is there");
        assert!(failure.contains("what it blames has not happened"), "{failure}");
        assert!(failure.contains("node 1"), "{failure}");
    }
}

/// A program that calls the loss of another node a timeout may not: no deadline of its own has passed.
#[test]
fn a_timeout_without_a_deadline_that_passes_is_a_failure() {
    let late = |_| {
        loco::Error::from(loco::fabric::FabricError::Timeout {
            what: "news".to_owned(),
            after: Duration::from_secs(1),
        })
    };
    let failure = of_three(&crash(), late).expect("no deadline has passed");
    assert!(failure.contains("what it blames has not happened"), "{failure}");
}
