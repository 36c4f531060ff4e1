//! Values of several words: owned variables against a simple model, and reads that are whole or fail.

#![allow(clippy::unwrap_used)]

use crate::common::net::{Barrier, Manager, Msw, OwnedVar, Thread, WideOwnedVar};
use crate::common::{ALL, Cluster, Net};
use loco::fabric::NodeId;
use loco::{Error, Result};
use proptest::prelude::*;

const OWNER: NodeId = NodeId(0);

#[derive(Clone, Copy, Debug)]
enum Call {
    Store(u64),
    Push,
    /// The copy of this node.
    Load(usize),
    /// The owner's value, from this node.
    Pull(usize),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        any::<u64>().prop_map(Call::Store),
        Just(Call::Push),
        (0usize..3).prop_map(Call::Load),
        (0usize..3).prop_map(Call::Pull),
    ];
    proptest::collection::vec(call, 1..60)
}

/// The model: the owner's value, and what each node was sent, oldest first. A node has the last value that it
/// saw or any that was sent since; where operations are done when posted, the last.
struct Model {
    owners: u64,
    sent: Vec<Vec<u64>>,
}

impl Model {
    fn new() -> Model {
        Model {
            owners: 0,
            sent: vec![vec![0]; 3],
        }
    }

    fn push(&mut self) {
        for sent in &mut self.sent[1..] {
            sent.push(self.owners);
        }
    }

    fn loaded(&mut self, node: usize, value: u64, exact: bool) {
        if node == 0 {
            assert_eq!(value, self.owners);
            return;
        }
        let sent = &mut self.sent[node];
        let seen = if exact { sent.len() - 1 } else { 0 };
        let at = seen
            + sent[seen..]
                .iter()
                .position(|&one| one == value)
                .expect("never sent, or older than seen");
        sent.drain(..at);
    }
}

fn follow_wide(cluster: Cluster, calls: &[Call]) {
    type Node = (Manager<Net>, Thread<Net>, WideOwnedVar<[u64; 11]>);
    let nodes: Vec<Node> = cluster.run(3, |manager| {
        let var = WideOwnedVar::new(&manager, "var", OWNER)?;
        manager.wait_for_ready()?;
        Ok((manager.clone(), manager.thread()?, var))
    });
    let exact = matches!(cluster, Cluster::Synchronous);
    let one = |words: [u64; 11]| {
        assert!(words.iter().all(|&word| word == words[0]), "torn: {words:?}");
        words[0]
    };
    let mut model = Model::new();
    for &call in calls {
        match call {
            Call::Store(value) => {
                nodes[0].2.store(&nodes[0].1, [value; 11]).unwrap();
                model.owners = value;
            }
            Call::Push => {
                nodes[0].2.push(&nodes[0].1).unwrap().forget();
                model.push();
            }
            Call::Load(node) => {
                let value = nodes[node].2.load(&nodes[node].1).unwrap();
                model.loaded(node, one(value), exact);
            }
            Call::Pull(node) => {
                let value = nodes[node].2.pull(&nodes[node].1).unwrap();
                assert_eq!(one(value), model.owners);
            }
        }
    }
}

fn follow_word(cluster: Cluster, calls: &[Call]) {
    type Node = (Manager<Net>, Thread<Net>, OwnedVar<u64>);
    let nodes: Vec<Node> = cluster.run(3, |manager| {
        let var = OwnedVar::new(&manager, "var", OWNER)?;
        manager.wait_for_ready()?;
        Ok((manager.clone(), manager.thread()?, var))
    });
    let exact = matches!(cluster, Cluster::Synchronous);
    let mut model = Model::new();
    for &call in calls {
        match call {
            Call::Store(value) => {
                nodes[0].2.store(value).unwrap();
                model.owners = value;
            }
            Call::Push => {
                nodes[0].2.push(&nodes[0].1).unwrap().forget();
                model.push();
            }
            Call::Load(node) => model.loaded(node, nodes[node].2.load(), exact),
            // The copy stays as it is.
            Call::Pull(node) => {
                let value = nodes[node].2.pull(&nodes[node].1).unwrap();
                assert_eq!(value, model.owners);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn owned_variables_behave_like_a_register(calls in calls(), seed: u64) {
        follow_wide(Cluster::Synchronous, &calls);
        follow_word(Cluster::Synchronous, &calls);
        follow_wide(Cluster::Deferred(seed), &calls);
        follow_word(Cluster::Deferred(seed), &calls);
    }
}

/// The owner stores and pushes as fast as it can; what the others load and pull is whole and never goes back.
#[test]
fn readers_see_whole_values_in_order() {
    const LAST: u64 = 3000;
    for cluster in ALL {
        cluster.run(3, |manager| {
            let var = WideOwnedVar::<[u64; 16], _>::new(&manager, "var", OWNER)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == OWNER {
                for i in 1..=LAST {
                    var.store(&thread, [i; 16])?;
                    var.push(&thread)?.forget();
                }
            } else {
                let (mut loaded, mut pulled) = (0, 0);
                while loaded < LAST {
                    for (last, value) in [
                        (&mut loaded, var.load(&thread)?),
                        (&mut pulled, var.pull(&thread)?),
                    ] {
                        assert!(value.iter().all(|&word| word == value[0]), "torn: {value:?}");
                        assert!(value[0] >= *last, "{} after {last}", value[0]);
                        *last = value[0];
                    }
                }
            }
            end.wait(&thread)
        });
    }
}

/// Two nodes put to one location: a read that succeeds is one of the two values, a mixture is never read.
#[test]
fn msw_reads_are_whole_or_fail() {
    for cluster in ALL {
        let failures: u32 = cluster
            .run(3, |manager| {
                let msw = Msw::new(&manager, "msw", &[100, 4, 100])?;
                let end = Barrier::new(&manager, "end")?;
                manager.wait_for_ready()?;
                let thread = manager.thread()?;
                let me = manager.node().0;
                let mut failures = 0;
                if me == 0 {
                    let mut value = [0; 100];
                    for _ in 0..2000 {
                        if msw.try_read(0, &mut value)? {
                            assert!(value.iter().all(|&byte| byte == value[0]), "torn: {value:?}");
                        } else {
                            failures += 1;
                        }
                    }
                } else {
                    for i in 0..500_u32 {
                        msw.write(2, &[(2 * i + u32::from(me)) as u8; 100])?;
                        msw.put(&thread, 2, NodeId(0), 0)?.wait(&thread)?;
                    }
                }
                end.wait(&thread)?;
                if me == 0 {
                    // Whatever was left is mended by the next write.
                    msw.write(0, &[9; 100])?;
                    let mut value = [0; 100];
                    msw.read(&thread, 0, &mut value)?;
                    assert_eq!(value, [9; 100]);
                }
                end.wait(&thread)?;
                msw.get(&thread, 0, NodeId(0), 0)?.wait(&thread)?;
                let mut value = [0; 100];
                assert!(msw.try_read(0, &mut value)?);
                assert_eq!(value, [9; 100]);
                end.wait(&thread)?;
                Ok(failures)
            })
            .into_iter()
            .sum();
        println!("{cluster:?}: {failures} failed reads");
    }
}

#[test]
fn msw_checks_locations_and_sizes() {
    Cluster::Synchronous.run(2, |manager| {
        let msw = Msw::new(&manager, "msw", &[100, 4])?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        assert_eq!((msw.len(), msw.size(1)?), (2, 4));
        let no_location = [msw.write(2, &[0; 4]), msw.try_read(2, &mut [0; 4]).map(drop)];
        assert!(
            no_location
                .iter()
                .all(|outcome| matches!(outcome, Err(Error::Config(_))))
        );
        let wrong_size = [
            msw.write(1, &[0; 5]),
            msw.try_read(0, &mut [0; 4]).map(drop),
            msw.put(&thread, 0, OWNER, 1).map(drop),
        ];
        assert!(
            wrong_size
                .iter()
                .all(|outcome| matches!(outcome, Err(Error::TooLarge { .. })))
        );
        let mut fresh = [1; 4];
        assert!(msw.try_read(1, &mut fresh)?);
        assert_eq!(fresh, [0; 4]);
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        end.wait(&thread)
    });
}

#[test]
fn only_the_owner_stores_and_pushes() {
    Cluster::Synchronous.run(2, |manager| -> Result<()> {
        let var = WideOwnedVar::<[u64; 2], _>::new(&manager, "var", OWNER)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() != OWNER {
            assert!(matches!(var.store(&thread, [1; 2]), Err(Error::NotOwner { .. })));
            assert!(matches!(var.push(&thread), Err(Error::NotOwner { .. })));
        }
        end.wait(&thread)
    });
}
