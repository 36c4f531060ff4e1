//! Worlds in which waits are late and nodes are lost.
//!
//! Holders increment two words, one after the other. A holder that is lost in between leaves them apart. No later
//! holder finds them apart unless its guard says that a former holder was lost.

use loco::fabric::{Control, Fabric as _, NodeId, PeerState, Peers};
use loco::fence::Scope;
use loco::{Error, LockConfig, LockGuard, OnLoss, Result, TasLock, Thread};
use loco_sim::{World, note};

use super::holders::{PLAIN, Shape, increment};
use super::lock::{Lock, Objects, distinct, make};
use crate::stage::{Fabric, Stage, is_loss, must, unless_lost, until_in_time, wait_here};

/// The way in which a thread takes the lock if waits may be late.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The thread asks again until it gets the lock.
    Patient,
    /// The thread gives up each attempt that is late. At the end it asks once more, as [`Patience::Patient`] does.
    GivesUp,
    /// As [`Patience::GivesUp`], with deadlines that have passed when it asks. Node 0 asks only at the end.
    None,
}

/// Makes a world of holders in which waits may be late and no node is lost.
pub(super) fn late<L: Lock>(shape: Shape, patience: Patience) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig::default()
            .on_loss(OnLoss::Poison)
            .local_hand_overs_max(shape.hand_overs);
        let mut stage = Stage::new(world, shape.nodes, shape.threads, make::<L>(shape.home, config));
        stage.everywhere(shape.threads, move |objects, thread, (node, _)| {
            let lock = &objects.lock;
            for _ in 0..shape.acquisitions {
                let asked = match patience {
                    Patience::Patient => until_in_time(|| lock.lock(thread, Scope::Thread)),
                    Patience::GivesUp => lock.lock(thread, Scope::Thread),
                    // Node 0 holds nobody up for long.
                    Patience::None if node == 0 => continue,
                    Patience::None => lock.lock_until(thread, Scope::Thread, thread.now()),
                };
                match asked {
                    Err(error) if error.is_timeout() => {}
                    asked => hold(objects, thread, shape, must(asked)),
                }
            }
            if patience != Patience::Patient {
                let asked = until_in_time(|| lock.lock(thread, Scope::Thread));
                hold(objects, thread, shape, must(asked));
            }
        });
        stage.notes(|lines| distinct(lines, "released", None));
    }
}

fn hold<L: Lock>(
    objects: &Objects<L>,
    thread: &Thread<Fabric>,
    shape: Shape,
    guard: LockGuard<'_, L, Fabric>,
) {
    assert!(!guard.recovered(), "nobody was lost");
    let Some(count) = count_on(objects, thread, shape, false) else {
        panic!("nobody was lost");
    };
    must(guard.release());
    note(format!("released {count}"));
}

/// Makes a world of holders in which one node is lost.
pub(super) fn lost<L: Lock>(shape: Shape, on_loss: OnLoss) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig::default()
            .on_loss(on_loss)
            .local_hand_overs_max(shape.hand_overs);
        let mut stage = Stage::new(world, shape.nodes, shape.threads, make::<L>(shape.home, config));
        stage.everywhere(shape.threads, move |objects, thread, _| {
            for _ in 0..shape.acquisitions {
                // A waiter may be late if the one before it waits for a message of the lost node.
                let asked = until_in_time(|| objects.lock.lock(thread, Scope::Thread));
                hold_until_lost(objects, thread, shape, on_loss, asked)?;
            }
            Some(())
        });
        survivors(&mut stage);
    }
}

/// Builds a world in which one thread of node 1 tries, another locks after it, and node 0 locks as well. One of the
/// nodes is lost.
pub(super) fn lost_after_try<L: Lock>(world: &mut World) {
    let config = LockConfig::default().on_loss(OnLoss::Recover);
    let mut stage = Stage::new(world, 2, 2, make::<L>(0, config));
    stage.run(1, 0, "tries", |objects, thread| {
        let tried = objects.lock.try_lock(thread, Scope::Thread).transpose();
        if let Some(asked) = tried {
            // The other thread of the node has its turn even after a loss.
            hold_until_lost(objects, thread, PLAIN, OnLoss::Recover, asked);
        }
        objects.flag.write(1);
    });
    for (node, own, waits) in [(1, 1, true), (0, 0, false)] {
        stage.run(
            node,
            own,
            &format!("node {node} locks"),
            move |objects, thread| {
                if waits {
                    wait_here(thread, &objects.flag, 1)?;
                }
                let asked = until_in_time(|| objects.lock.lock(thread, Scope::Thread));
                hold_until_lost(objects, thread, PLAIN, OnLoss::Recover, asked)
            },
        );
    }
    survivors(&mut stage);
}

/// Builds a world in which two threads of one node lock once each. The second may give up while the first releases,
/// and then locks again.
pub(super) fn late_alone<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 1, 2, make::<L>(0, LockConfig::default()));
    for own in 0..2 {
        stage.run(0, own, &format!("thread {own}"), move |objects, thread| {
            must(must(until_in_time(|| objects.lock.lock(thread, Scope::Thread))).release());
        });
    }
}

/// Builds a world in which node 1, the lock's home, holds the lock twice and puts to node 0, which may be lost. A release whose fence fails
/// for that gives the lock back all the same.
pub(super) fn lost_beside<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<L>(1, LockConfig::default()));
    stage.run(1, 0, "holder", |objects, thread| {
        for count in 1..=2_u64 {
            // Nobody else wants the lock, so it does not depend on node 0.
            let guard = must(until_in_time(|| objects.lock.lock(thread, Scope::Thread)));
            let place = must(objects.data.target(NodeId(0), 0));
            if let Some(put) = unless_lost(thread.put_inline(&count.to_ne_bytes(), place)) {
                put.forget();
            }
            unless_lost(guard.release());
        }
    });
}

/// Builds a world in which two threads of node 1 lock, and node 1 may be declared lost. From then on neither thread
/// gets the lock, not even from the other thread, and a release reports the loss. The releases fence nothing, so no
/// fence fails in their place.
pub(super) fn lost_alone<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 2, make::<L>(1, LockConfig::default()));
    for own in 0..2 {
        stage.run(1, own, &format!("thread {own}"), |objects, thread| {
            let is_lost = || thread.fabric().control().declared_lost();
            let was_lost = is_lost();
            let guard = unless_lost(objects.lock.lock(thread, Scope::Nothing))?;
            assert!(!was_lost, "a lost node asks for a lock and gets it");
            assert_eq!(objects.flag.read(), 0, "a lost node passes a lock on to itself");
            if is_lost() {
                objects.flag.write(1);
                assert!(guard.release().is_err(), "a lost node releases and is not told");
            } else {
                unless_lost(guard.release())?;
            }
            Some(())
        });
    }
}

/// Makes a world in which node `first` takes the lock before the others want it. One node is lost while it holds,
/// while it waits or in between.
pub(super) fn lost_while_held<L: Lock>(shape: Shape, first: NodeId) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig::default().on_loss(OnLoss::Recover);
        let mut stage = Stage::new(world, shape.nodes, 1, make::<L>(shape.home, config));
        stage.each("node", 0..shape.nodes, move |objects, thread, _| {
            let needs = [NodeId(shape.home), first];
            let taken = || (objects.flag.read() == 1).then_some(());
            let told = || thread.wait_until("the first holder", Peers::These(&needs), taken);
            if thread.node_id() != first {
                unless_lost(until_in_time(told))?;
            }
            // A waiter may be late if the one before it waits for a message of the lost node.
            let asked = until_in_time(|| objects.lock.lock(thread, Scope::Thread));
            if thread.node_id() == first {
                objects.flag.write(1);
                unless_lost(objects.flag.broadcast(thread))?.forget();
            }
            hold_until_lost(objects, thread, shape, OnLoss::Recover, asked)
        });
        survivors(&mut stage);
    }
}

/// Builds a world in which node 2 keeps the lock and is lost, while the others wait for it, one of them perhaps only for a while. Whoever gets
/// it first is told of the loss, also if its wait ends just when another passes it the lock.
pub(super) fn lost_keeper<L: Lock>(world: &mut World) {
    let config = LockConfig::default().on_loss(OnLoss::Recover);
    let mut stage = Stage::new(world, 3, 1, make::<L>(0, config));
    stage.run(2, 0, "keeper", |objects, thread| {
        std::mem::forget(unless_lost(objects.lock.lock(thread, Scope::Nothing))?);
        objects.flag.write(1);
        unless_lost(objects.flag.broadcast(thread))?.forget();
        Some(())
    });
    stage.each("waiter", 0..2, |objects, thread, _| {
        let kept = || (objects.flag.read() == 1).then_some(());
        // The keeper may be lost before it has told.
        let told = thread.wait_until("the keeper", Peers::These(&[NodeId(2)]), kept);
        told.ok()?;
        // The keeper lives if it is late twice.
        let asked = [(); 2]
            .into_iter()
            .map(|()| objects.lock.lock(thread, Scope::Nothing));
        let guard = asked.flatten().next()?;
        note(if guard.recovered() { "told" } else { "got it" });
        unless_lost(guard.release())
    });
    stage.notes(|lines| {
        let told = lines.iter().filter(|line| *line == "told").count();
        assert_eq!(
            told,
            usize::from(!lines.is_empty()),
            "one holder is told of the loss: {lines:?}"
        );
    });
}

/// Makes a world in which node 1 takes the lock twice, and node 0 wants it when node 1 is done or lost. Node 1 may be lost
/// anywhere, and what it held is passed on. Its releases fence nothing, so what it told the home of itself is there only because
/// the lock asks for that.
pub(super) fn lost_before<L: Lock>(tries: bool) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig::default().on_loss(OnLoss::Recover);
        let mut stage = Stage::new(world, 2, 1, make::<L>(0, config));
        stage.run(1, 0, "node 1", move |objects, thread| {
            for _ in 0..2 {
                let asked = match tries {
                    true => objects.lock.try_lock(thread, Scope::Nothing).transpose(),
                    false => Some(objects.lock.lock(thread, Scope::Nothing)),
                };
                if let Some(asked) = asked {
                    unless_lost(unless_lost(asked)?.release())?;
                }
            }
            objects.flag.write(1);
            unless_lost(objects.flag.broadcast(thread))?.forget();
            Some(())
        });
        stage.run(0, 0, "node 0", |objects, thread| {
            let done = || (objects.flag.read() == 1).then_some(());
            let told = || thread.wait_until("node 1", Peers::These(&[NodeId(1)]), done);
            // It is lost if this fails.
            let _ = unless_lost(until_in_time(told));
            let guard = must(until_in_time(|| objects.lock.lock(thread, Scope::Nothing)));
            must(guard.release());
        });
    }
}

/// Makes a world in which threads of node 1 take the lock one after the other, without fences, and the last one keeps it. When all that
/// they posted is placed, the lock is late for node 0, and the error names node 1: the home shows the last of what a node told it.
/// Node 0 has held the lock before.
pub(super) fn late_keeper<L: Lock>(threads: usize, tries: bool) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig::default();
        let before = hold_before::<L>(NodeId(0));
        let mut stage = Stage::prepared(world, 2, threads, make::<L>(0, config), before);
        let last = threads as u64;
        stage.in_turn(
            1,
            0..threads,
            "keeper",
            |objects| &objects.flag,
            last,
            move |objects, thread, number| {
                let guard = match tries {
                    true => must(objects.lock.try_lock(thread, Scope::Nothing)),
                    false => Some(must(until_in_time(|| objects.lock.lock(thread, Scope::Nothing)))),
                };
                let Some(guard) = guard else {
                    panic!("nobody else wants the lock");
                };
                if number < last {
                    return must(guard.release());
                }
                std::mem::forget(guard);
                must(loco::fence::all_threads(thread));
                objects.flag.write(number);
                must(objects.flag.broadcast(thread)).forget();
            },
        );
        finds_keeper(&mut stage, last);
    }
}

/// Makes a world in which two threads of node 1 take the lock, without fences, so that one may hand it to the other. The second keeps it when it
/// has it for the first time, while the first releases it, or for the second time (`again`), when the first is done. The error of node 0
/// names node 1, as in a world of [`late_keeper`]. Node 1 has held the lock before, so its first draw finds the lock free at its first look,
/// and no claim places the announcement.
pub(super) fn late_keeper_beside<L: Lock>(again: bool) -> impl Fn(&mut World) {
    move |world| {
        let before = hold_before::<L>(NodeId(1));
        let mut stage = Stage::prepared(world, 2, 2, make::<L>(0, LockConfig::default()), before);
        stage.run(1, 0, "holds once", move |objects, thread| {
            let guard = must(until_in_time(|| objects.lock.lock(thread, Scope::Nothing)));
            if !again {
                objects.flag.write(1);
            }
            must(guard.release());
            if again {
                objects.flag.write(1);
            }
        });
        stage.run(1, 1, "keeper", move |objects, thread| {
            let asked = || objects.lock.lock(thread, Scope::Nothing);
            if again {
                must(must(until_in_time(asked)).release());
            }
            wait_here(thread, &objects.flag, 1)?;
            std::mem::forget(must(until_in_time(asked)));
            must(loco::fence::all_threads(thread));
            objects.flag.write(2);
            must(objects.flag.broadcast(thread)).forget();
            Some(())
        });
        finds_keeper(&mut stage, 2);
    }
}

/// Adds the thread of node 0 that is late for the lock when the flag is `kept`, and finds who holds it.
fn finds_keeper<L: Lock>(stage: &mut Stage<'_, Objects<L>>, kept: u64) {
    stage.run(0, 0, "node 0", move |objects, thread| {
        must(until_in_time(|| {
            objects.flag.wait_until(thread, |flag| flag == kept)
        }));
        match objects.lock.lock_until(thread, Scope::Nothing, thread.now()) {
            Ok(_) => panic!("node 1 keeps the lock"),
            Err(error) => assert!(
                error.to_string().contains("node 1 holds"),
                "the home shows who holds the lock: {error}"
            ),
        }
    });
}

/// Returns a preparation by which this node holds the lock once.
fn hold_before<L: Lock>(node: NodeId) -> impl Fn(&Objects<L>, &Thread<Fabric>) + Clone {
    move |objects, thread| {
        if thread.node_id() == node {
            must(must(objects.lock.lock(thread, Scope::Thread)).release());
        }
    }
}

/// Checks the notes of the surviving holders: each found another number, and one of them was told of the loss.
fn survivors<L: Lock>(stage: &mut Stage<'_, Objects<L>>) {
    stage.notes(|lines| {
        let mut released: Vec<&String> = lines.iter().filter(|line| line.starts_with("released")).collect();
        let all = released.len();
        released.sort_unstable();
        released.dedup();
        assert_eq!(
            released.len(),
            all,
            "what a holder counted is not lost: {lines:?}"
        );
        let told = lines.iter().filter(|line| *line == "recovered").count();
        assert!(told <= 1, "one holder is told of a loss, and nobody after it");
    });
}

/// Holds the lock, if it was got. Returns `None` if the thread's part is over.
fn hold_until_lost<L: Lock>(
    objects: &Objects<L>,
    thread: &Thread<Fabric>,
    shape: Shape,
    on_loss: OnLoss,
    asked: Result<LockGuard<'_, L, Fabric>>,
) -> Option<()> {
    let guard = match asked {
        Ok(guard) => guard,
        Err(error) => {
            let gone = |node| thread.fabric().control().peer_state(node) != PeerState::Alive;
            let excused = match &error {
                Error::HolderLost { node, .. } => on_loss == OnLoss::Poison && gone(*node),
                _ => match error.lost_peer() {
                    Some(node) => node == NodeId(shape.home) && gone(node),
                    None => is_loss(&error),
                },
            };
            assert!(excused, "the lock does not depend on that: {error}");
            return None;
        }
    };
    let recovered = guard.recovered();
    if recovered {
        assert!(on_loss == OnLoss::Recover, "a lock that poisons is not passed on");
        note("recovered");
    }
    let count = count_on(objects, thread, shape, recovered)?;
    unless_lost(guard.release())?;
    note(format!("released {count}"));
    Some(())
}

/// Increments both words, and finds the first as it left it: nobody else holds the lock. Returns the number found, or
/// `None` if a node is lost.
fn count_on<L: Lock>(
    objects: &Objects<L>,
    thread: &Thread<Fabric>,
    shape: Shape,
    recovered: bool,
) -> Option<u64> {
    let place = |offset| objects.data.target(NodeId(shape.data), offset);
    // A node sees its own puts if it asks.
    let get = |offset| unless_lost(until_in_time(|| thread.read_word_strong(place(offset)?)));
    let put = |offset, value: u64| {
        let posted = place(offset).and_then(|place| thread.put_inline(&value.to_ne_bytes(), place));
        unless_lost(posted).map(|key| key.forget())
    };
    let count = get(0)?;
    let second = get(8)?;
    assert!(
        recovered || count == second,
        "a former holder was lost in the middle, and nobody says so: {count} and {second}"
    );
    put(0, count + 1)?;
    assert_eq!(get(0)?, count + 1, "nobody else counts while the lock is held");
    put(8, count + 1)?;
    Some(count)
}

/// Builds a world in which threads of two nodes run sections by `combine`, and waits may be late. A section runs,
/// once, exactly if its call succeeds.
pub(super) fn combined_late(world: &mut World) {
    let mut stage = Stage::new(world, 2, 2, make::<TasLock<Fabric>>(0, LockConfig::default()));
    for (node, own) in [(0, 0), (0, 1), (1, 0)] {
        let name = format!("node {node} thread {own}");
        let me = 10 * usize::from(node) + own;
        stage.run(node, own, &name, move |objects, thread| {
            let data = objects.data.clone();
            let ran = objects.lock.combine(thread, Scope::Thread, move |runner| {
                note(format!("ran {me}"));
                increment(&data, runner)
            });
            match ran {
                Err(error) if error.is_timeout() => {}
                ran => note(format!("count {} of {me}", must(ran))),
            }
        });
    }
    stage.notes(|lines| {
        let mut ran: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("ran "))
            .collect();
        let mut said: Vec<&str> = lines
            .iter()
            .filter(|line| line.starts_with("count"))
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        ran.sort_unstable();
        said.sort_unstable();
        assert_eq!(ran, said, "a section runs once, exactly if its call succeeds");
        let mut counts: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("count ")?.split(' ').next())
            .collect();
        counts.sort_unstable();
        counts.dedup();
        assert_eq!(
            counts.len(),
            said.len(),
            "each section sees what the one before did"
        );
    });
}
