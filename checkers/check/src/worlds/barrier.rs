//! The barrier (LOCO'26 Def. 4.1, the transitive one of 4.3). Nobody leaves a round before everybody has arrived in
//! it, whichever thread calls. In the fenced form, the puts of a participant before the barrier, to whichever node,
//! are placed after it.

use loco::fabric::NodeId;
use loco::{Barrier, Manager, Parent as _, Participants, Result, SharedRegion, SharedVar, Thread, fence};
use loco_sim::spec::{Operation, Violation};
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{
    Fabric, Stage, UNKNOWN, get_word, here, known, must, outcome, put_word, put_words, unless_excused,
    unless_lost, until_in_time,
};

struct Objects {
    flags: Vec<SharedVar<u64, Fabric>>,
    data: SharedRegion<Fabric>,
    barrier: Barrier<Fabric>,
    baton: SharedVar<u64, Fabric>,
}

/// Returns a maker of barriers of `threads` threads on each of the first `participants` nodes, with a flag for each of
/// them.
fn make(participants: u16, threads: usize) -> impl Fn(&Manager<Fabric>) -> Result<Objects> + Clone + Send {
    make_with(usize::from(participants) * threads, participants, threads)
}

fn make_with(
    flags: usize,
    participants: u16,
    threads: usize,
) -> impl Fn(&Manager<Fabric>) -> Result<Objects> + Clone + Send {
    move |manager| {
        let inside = Participants::of((0..participants).map(NodeId));
        let barrier = match inside.contains(manager.node()) {
            true => Barrier::with_local_threads(&manager.among(&inside), "bar", threads)?,
            // A node outside needs none. It makes one of its own so that every node has one.
            false => Barrier::new(&manager.among([manager.node()]), "alone")?,
        };
        Ok(Objects {
            flags: (0..flags)
                .map(|i| SharedVar::new(manager, &format!("flag{i}")))
                .collect::<Result<_>>()?,
            data: SharedRegion::new(manager, "data", 64)?,
            barrier,
            baton: SharedVar::new(manager, "baton")?,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Fenced,
    Unfenced,
}

fn wait(objects: &Objects, thread: &Thread<Fabric>, form: Form) {
    let waits = || match form {
        Form::Fenced => {
            did("Barrier::wait");
            must(until_in_time(|| objects.barrier.wait(thread)));
        }
        Form::Unfenced => {
            did("Barrier::wait_unfenced");
            must(until_in_time(|| objects.barrier.wait_unfenced(thread)));
        }
    };
    call("wait", waits, |()| "");
}

/// A size of world: nodes, threads on each, rounds.
#[derive(Clone, Copy)]
struct Size(u16, usize, u64);

/// Makes a world in which all threads meet `rounds` times. With `puts` each broadcasts its flag before each round and
/// looks at all flags after.
fn rounds(Size(count, threads, rounds): Size, form: Form, puts: bool) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, count, threads, make(count, threads));
        stage.everywhere(threads, move |objects, thread, (node, own)| {
            let mine = &objects.flags[usize::from(node) * threads + own];
            for round in 1..=rounds {
                if puts {
                    mine.write(round);
                    must(mine.broadcast(thread)).forget();
                }
                wait(objects, thread, form);
                for flag in objects.flags.iter().filter(|_| puts) {
                    assert!(flag.read() >= round, "put before the barrier, seen after it");
                }
            }
        });
        stage.promise(spec::barrier);
    }
}

/// Makes a world with a barrier of one thread on each node, called through two threads in turn.
fn turns(rounds: u64, form: Form, puts: bool) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 2, make(2, 1));
        for node in 0..2 {
            stage.in_turn(
                node,
                0..2,
                &format!("node {node}"),
                |o| &o.baton,
                rounds,
                move |objects, thread, round| {
                    if puts {
                        let mine = &objects.flags[usize::from(node)];
                        mine.write(round);
                        must(mine.broadcast(thread)).forget();
                    }
                    wait(objects, thread, form);
                    for flag in objects.flags.iter().filter(|_| puts) {
                        assert!(flag.read() >= round, "put before the barrier, seen after it");
                    }
                },
            );
        }
        stage.promise(in_turn_rounds);
    }
}

/// Checks the calls of the two threads of a node as the calls of one, for the barrier's specification.
fn in_turn_rounds(calls: &[Operation]) -> std::result::Result<(), Violation> {
    let calls: Vec<Operation> = calls
        .iter()
        .map(|call| Operation {
            number: call.node,
            ..call.clone()
        })
        .collect();
    spec::barrier(&calls)
}

/// Makes a world in which node 0 puts at node 2; nodes 0 and 1 (and 2, if it takes part) meet; and node 1 gets the
/// data from node 2.
fn third(participants: u16, words: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make(participants, 1));
        stage.each("node", 0..participants, move |objects, thread, me| {
            if me == 0 {
                match words {
                    1 => put_word(thread, &objects.data, 2, 0, 1),
                    _ => put_words(thread, &objects.data, 2, 0, &vec![1; words]),
                }
            }
            wait(objects, thread, Form::Fenced);
            if me == 1 {
                let last = 8 * (words - 1);
                assert_eq!(
                    get_word(thread, &objects.data, 2, last),
                    1,
                    "put before the barrier, read after it"
                );
            }
        });
        stage.promise(spec::barrier);
    }
}

/// Builds a world in which node 0 puts at node 2, which does not take part. Nodes 0 and 1 meet. Then node 1 tells
/// node 2 by a flag.
fn transitive(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make(2, 1));
    stage.each("node", 0..2, move |objects, thread, me| {
        if me == 0 {
            put_word(thread, &objects.data, 2, 0, 1);
        }
        wait(objects, thread, Form::Fenced);
        if me == 1 {
            objects.flags[1].write(1);
            must(objects.flags[1].broadcast_to(thread, &[NodeId(2)])).forget();
        }
    });
    stage.run(2, 0, "node 2", |objects, thread| {
        must(objects.flags[1].wait_until(thread, |flag| flag == 1));
        assert_eq!(
            here(&objects.data, 0),
            1,
            "put before the barrier, seen by who hears of it"
        );
    });
}

/// Builds a world in which a thread of node 0 puts at node 2 and tells another thread of its node, which takes part in the
/// barrier. Node 1 gets the data after the barrier.
fn of_another_thread(world: &mut World) {
    let mut stage = Stage::new(world, 3, 2, make(2, 1));
    stage.run(0, 0, "node 0 writer", |objects, thread| {
        put_word(thread, &objects.data, 2, 0, 1);
        objects.baton.write(1);
    });
    for me in 0..2_u16 {
        stage.run(me, 1, &format!("node {me} caller"), move |objects, thread| {
            if me == 0 {
                must(objects.baton.wait_until(thread, |baton| baton == 1));
            }
            did("Barrier::wait_fencing_all_threads");
            must(objects.barrier.wait_fencing_all_threads(thread));
            if me == 1 {
                assert_eq!(
                    get_word(thread, &objects.data, 2, 0),
                    1,
                    "put by any thread before the barrier, read after it"
                );
            }
        });
    }
}

/// Builds a world in which a get after the barrier reads what other CPUs wrote before it.
fn read_back(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make(2, 1));
    stage.each("node", 0..2, move |objects, thread, me| {
        must(objects.data.write(0, &1_u64.to_ne_bytes()));
        wait(objects, thread, Form::Fenced);
        assert_eq!(
            get_word(thread, &objects.data, 1 - me, 0),
            1,
            "written before the barrier"
        );
    });
}

/// Makes a world in which two nodes meet `rounds` times, each with puts. A wait that times out is repeated, which
/// resumes the round. A node that hears of a loss stops.
fn faulty(threads: usize, rounds: u64, form: Form) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, threads, make(2, threads));
        stage.everywhere(threads, move |objects, thread, (node, own)| {
            let mine = &objects.flags[usize::from(node) * threads + own];
            for round in 1..=rounds {
                mine.write(round);
                if form == Form::Fenced {
                    unless_lost(mine.broadcast(thread))?.forget();
                }
                let wait = || match form {
                    Form::Fenced => objects.barrier.wait(thread),
                    Form::Unfenced => objects.barrier.wait_unfenced(thread),
                };
                unless_lost(call("wait", || until_in_time(wait), outcome(UNKNOWN, |()| "")))?;
                for flag in objects.flags.iter().filter(|_| form == Form::Fenced) {
                    assert!(flag.read() >= round, "put before the barrier, seen after it");
                }
            }
            Some(())
        });
        stage.promise(|calls| spec::barrier(&known(calls)));
    }
}

/// Makes a world with a barrier of one thread on each node. Node 0's first thread waits once. If it is late, the
/// second thread continues the round. Then the second thread waits for another round. Each thread has a flag of its
/// own, because puts of two threads to one word are in no order.
fn handed_over(form: Form) -> impl Fn(&mut World) {
    const FIRST: usize = 0;
    const OTHER: usize = 1;
    const SECOND: usize = 2;
    move |world| {
        let mut stage = Stage::new(world, 2, 2, make_with(3, 2, 1));
        let arrive =
            move |objects: &Objects, thread: &Thread<Fabric>, own: usize, round: u64| -> Result<()> {
                objects.flags[own].write(round);
                must(objects.flags[own].broadcast(thread)).forget();
                match form {
                    Form::Fenced => objects.barrier.wait(thread),
                    Form::Unfenced => objects.barrier.wait_unfenced(thread),
                }
            };
        // The thread of node 0 that arrives in a round puts its flag before.
        let met = |objects: &Objects, round: u64| {
            for own in [if round == 1 { FIRST } else { SECOND }, OTHER] {
                let seen = objects.flags[own].read();
                assert!(seen >= round, "put before the barrier, seen after it");
            }
        };
        stage.run(0, 0, "node 0 first", move |objects, thread| {
            let late = match arrive(objects, thread, FIRST, 1) {
                // Completes this thread's puts: the thread that continues the round completes only its own.
                Err(error) if error.is_timeout() => {
                    must(until_in_time(|| fence::thread(thread)));
                    true
                }
                waited => {
                    must(waited);
                    met(objects, 1);
                    false
                }
            };
            objects.baton.write(if late { 2 } else { 1 });
        });
        stage.run(0, 1, "node 0 second", move |objects, thread| {
            let said = must(until_in_time(|| {
                objects.baton.wait_until(thread, |baton| baton > 0)
            }));
            for round in (if said == 2 { 1 } else { 2 })..=2 {
                must(until_in_time(|| arrive(objects, thread, SECOND, round)));
                met(objects, round);
            }
        });
        stage.run(1, 0, "node 1", move |objects, thread| {
            for round in 1..=2 {
                must(until_in_time(|| arrive(objects, thread, OTHER, round)));
                met(objects, round);
            }
        });
    }
}

/// Builds a world in which node 1 gives up waiting, says so, and may then be lost. As it has arrived, its loss does
/// not fail node 0's wait.
fn arrived_and_lost(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make(2, 1));
    stage.run(0, 0, "node 0", |objects, thread| {
        unless_excused(until_in_time(|| objects.barrier.wait_unfenced(thread)), |_| {
            assert_eq!(
                objects.flags[1].read(),
                0,
                "it has arrived, so its loss is no matter"
            );
        })
    });
    stage.run(1, 0, "node 1", |objects, thread| {
        let waited = objects.barrier.wait_unfenced(thread);
        if waited.as_ref().is_err_and(loco::Error::is_timeout) {
            objects.flags[1].write(1);
            if let Some(key) = unless_lost(objects.flags[1].broadcast(thread)) {
                key.forget();
            }
        } else {
            unless_lost(waited);
        }
    });
}

/// Returns the worlds of the barrier.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    use Form::{Fenced, Unfenced};
    vec![
        NamedWorld::new("fenced", rounds(Size(2, 1, 2), Fenced, true)),
        NamedWorld::new("unfenced", rounds(Size(2, 1, 2), Unfenced, true)),
        NamedWorld::new("read-back", read_back),
        NamedWorld::new("turns-fenced", turns(2, Fenced, false)),
        NamedWorld::new("turns-unfenced", turns(2, Unfenced, false)),
        NamedWorld::new("turns-unfenced-thrice", turns(3, Unfenced, false)),
        NamedWorld::new("turns-puts", turns(2, Fenced, true)),
        NamedWorld::new("participants", third(2, 1)),
        super::last_nodes::barrier(),
        NamedWorld::new("third-node", third(3, 1)),
        NamedWorld::new("third-node-memory", third(3, 2)),
        NamedWorld::new("transitive", transitive),
        NamedWorld::new("another-thread", of_another_thread),
        NamedWorld::new("expiry", faulty(1, 2, Fenced)).expiries(1),
        NamedWorld::new("participants-expiry", third(2, 1)).expiries(1),
        NamedWorld::new("expiry-unfenced", faulty(1, 2, Unfenced)).expiries(1),
        NamedWorld::new("handed-over-late", handed_over(Fenced)).expiries(1),
        NamedWorld::new("handed-over-late-unfenced", handed_over(Unfenced)).expiries(1),
        NamedWorld::new("arrived-and-lost", arrived_and_lost)
            .crash()
            .expiries(1),
        NamedWorld::new("crash", faulty(1, 2, Fenced)).crash(),
        NamedWorld::new("suspicion", faulty(1, 2, Fenced)).suspicion(),
        NamedWorld::new("two-threads-expiry", faulty(2, 2, Unfenced)).expiries(1),
        NamedWorld::new("two-threads", rounds(Size(2, 2, 1), Fenced, true)),
        NamedWorld::new("two-threads-fenced-twice", rounds(Size(2, 2, 2), Fenced, false)),
        NamedWorld::new(
            "two-threads-unfenced-twice",
            rounds(Size(2, 2, 2), Unfenced, false),
        ),
        NamedWorld::new("two-threads-puts-twice", rounds(Size(2, 2, 2), Fenced, true)),
        NamedWorld::new("three-nodes", rounds(Size(3, 1, 1), Fenced, true)),
        NamedWorld::new(
            "three-nodes-unfenced-twice",
            rounds(Size(3, 1, 2), Unfenced, false),
        ),
        NamedWorld::new("fenced-thrice", rounds(Size(2, 1, 3), Fenced, true)),
    ]
}
