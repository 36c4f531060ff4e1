//! Channels that rely on an order of the words of one transfer, which the contract does not promise, and channels that do not.

#![allow(clippy::unwrap_used)]

mod support;

use loco::fabric::{Fabric, Memory, NodeId, Peers, Target, WordCell};
use loco::raw::Flags;
use loco::{Channel, Manager, Parent, Result, Thread};
use loco_sim::{
    Completeness, Config, FailureKind, ModelFabric, Schedule, Tier, World, execution_graph, explore, note,
    replay,
};
use support::{complete, site};

/// A record of data and a flag.
struct Pair<F: Fabric>(Channel<F>);

/// The order of the two words in memory, and whether one transfer moves both.
#[derive(Clone, Copy)]
struct Form {
    data: usize,
    flag: usize,
    transfers: usize,
    flags: Flags,
}

impl<F: Fabric> Pair<F> {
    fn new(parent: &impl Parent<F>) -> Result<Self> {
        Ok(Pair(
            Channel::builder(parent, "pair")
                .kind("pair")
                .region("words", 16)
                .join()?,
        ))
    }

    fn send(&self, thread: &Thread<F>, round: u64, form: Form) -> Result<()> {
        let remote = self.0.region("words")?.remote(NodeId(1))?;
        let word = round.to_le_bytes();
        match form.transfers {
            1 => thread
                .put_inline_with(&[word, word].concat(), Target { remote, offset: 0 }, form.flags)?
                .forget(),
            _ => {
                for offset in [form.data, form.flag] {
                    thread
                        .put_inline_with(&word, Target { remote, offset }, form.flags)?
                        .forget();
                }
            }
        }
        Ok(())
    }

    /// Waits for the flag, then reads the data.
    fn receive(&self, thread: &Thread<F>, round: u64, form: Form) -> Result<u64> {
        let local = self.0.region("words")?.local()?.clone();
        let (data, flag) = (local.cell::<u64>(form.data)?, local.cell::<u64>(form.flag)?);
        thread.wait_until("flag", Peers::None, || (flag.load() >= round).then_some(()))?;
        Ok(data.load())
    }
}

fn world(form: Form) -> impl Fn(&mut World) + Sync {
    move |world| {
        for me in 0..2 {
            let node = world.node(site(|manager: &Manager<ModelFabric>| Pair::new(manager).unwrap()));
            world.thread(&node, &format!("node {me}"), move |site| {
                let thread = site.thread();
                for round in 1..=2 {
                    match me {
                        0 => site.objects.send(&thread, round, form).unwrap(),
                        _ => assert!(
                            site.objects.receive(&thread, round, form).unwrap() >= round,
                            "stale"
                        ),
                    }
                }
            });
        }
    }
}

#[test]
fn a_flag_in_the_transfer_of_its_data_may_come_first_wherever_it_is() {
    for (data, flag) in [(0, 8), (8, 0)] {
        let world = world(Form {
            data,
            flag,
            transfers: 1,
            flags: Flags::STRONG,
        });
        let config = Config::default();
        let failure = explore(&config, &world)
            .unwrap()
            .failure
            .expect("it relies on an order");
        assert!(matches!(&failure.kind, FailureKind::Assertion { message, .. } if message.contains("stale")));
        // The schedule that is printed leads there, and the declarative model allows it.
        let schedule: Schedule = failure.schedule.to_string().parse().unwrap();
        let again = replay(&config, &schedule, &world).unwrap();
        assert!(again.failure.is_some(), "{schedule}");
        assert!(
            execution_graph(&config, &schedule, &world)
                .unwrap()
                .is_consistent()
        );
    }
}

#[test]
fn a_flag_in_a_transfer_after_that_of_its_data_comes_second() {
    complete(
        "two puts",
        world(Form {
            data: 0,
            flag: 8,
            transfers: 2,
            flags: Flags::STRONG,
        }),
    );
}

/// A channel that forgot to ask is found, and the trace says what would have helped. On a network that orders puts by itself it
/// is right.
#[test]
fn a_flag_that_does_not_ask_may_come_first_and_is_told_of_strong_order() {
    let world = world(Form {
        data: 0,
        flag: 8,
        transfers: 2,
        flags: Flags::default(),
    });
    let failure = explore(&Config::default(), &world)
        .unwrap()
        .failure
        .expect("it relies on an order");
    assert_eq!(failure.schedule.tier(), Some(Tier::Unordered));
    let said = failure.to_string();
    assert!(said.contains("strong order on it would keep it behind"), "{said}");
    let strict = explore(&Config::default().tier(Tier::Ibta), &world).unwrap();
    assert!(strict.failure.is_none() && strict.completeness == Completeness::Complete);
    // A schedule says on which network it was found.
    let config = Config::default().tier(Tier::Ibta);
    let again = replay(&config, &failure.schedule, &world).unwrap();
    assert_eq!((again.tier, again.failure.is_some()), (Tier::Unordered, true));
}

/// Two transfers of two words to the same place keep their order where they ask, though their words have none.
#[test]
fn transfers_keep_their_order() {
    let world = |world: &mut World| {
        let form = Form {
            data: 0,
            flag: 8,
            transfers: 1,
            flags: Flags::STRONG,
        };
        for me in 0..2 {
            let node = world.node(site(|manager: &Manager<ModelFabric>| Pair::new(manager).unwrap()));
            world.thread(&node, &format!("node {me}"), move |site| {
                let thread = site.thread();
                if me == 0 {
                    (1..=3).for_each(|round| site.objects.send(&thread, round, form).unwrap());
                    return;
                }
                let local = site.objects.0.region("words").unwrap().local().unwrap().clone();
                let words = [0, 8].map(|at| local.cell::<u64>(at).unwrap());
                let load = |at: usize| WordCell::<u64>::load(&words[at]);
                let (first, second, again) = (load(0), load(1), load(0));
                note(format!("{first} {second} {again}"));
                assert!(again >= first, "went back");
                assert!(
                    second + 1 >= first,
                    "a transfer overtook another: {first} {second}"
                );
            });
        }
    };
    let report = complete("three puts of two words", world);
    assert_eq!(report.completeness, Completeness::Complete);
}
