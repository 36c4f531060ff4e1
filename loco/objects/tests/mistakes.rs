//! Mistakes that beginners make. Each message names the object, the node, and what to do.
//!
//! Mistakes that end a process are in `apps/loco/tests/mistakes.rs`, and those of programs in C in `loco/c/tests/c/mistakes.c`.

use std::time::Duration;

use loco::fabric::{Fabric as _, Platform as _};
use loco::fence::Scope;
use loco::prelude::*;
use loco::testing;

/// For a node that makes no mistake.
const NONE: &[&str] = &[];
/// Enough for a call that waits for what does not come.
const SHORT: Duration = Duration::from_millis(100);

/// Checks that an error names all of these.
fn names(error: &Error, words: &[&str]) {
    let said = error.to_string();
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}

/// Returns the error of a call.
fn fails<T>(outcome: loco::Result<T>) -> Error {
    outcome.map(drop).expect_err("the call is a mistake")
}

/// Runs two nodes. Those for which there are words make a mistake, whose error `mistake` returns. Each node then waits for the
/// other, as a node that ends is lost.
fn on_two_nodes(
    words: [&[&str]; 2],
    mistake: impl Fn(&Manager, &Thread) -> loco::Result<Option<Error>> + Sync,
) {
    testing::run(2, |fabric| {
        let node = Manager::new(fabric)?;
        let thread = node.thread()?;
        let end = Barrier::new(&node, "end")?;
        end.channel().wait_for_ready()?;
        let words = words[usize::from(node.node().0)];
        let error = mistake(&node, &thread)?;
        assert_eq!(error.is_none(), words.is_empty(), "{error:?}");
        if let Some(error) = error {
            names(&error, words);
        }
        end.wait(&thread)
    });
}

/// Returns the error of a call that has a short time.
fn late<T>(thread: &Thread, call: impl FnOnce() -> loco::Result<T>) -> Error {
    thread.set_deadline(Some(thread.now().after(SHORT)));
    let error = fails(call());
    thread.set_deadline(None);
    error
}

fn home(node: &Manager) -> NodeId {
    node.nodes()[0]
}

fn is_first(node: &Manager) -> bool {
    node.node() == home(node)
}

#[test]
fn a_wrong_type() {
    let words: &[&str] = &["`x`", "node 0", "node 1", "u64", "i64", "the same type"];
    on_two_nodes([words; 2], |node, _| {
        let wrong: Box<dyn std::any::Any> = match is_first(node) {
            true => Box::new(AtomicVar::<u64>::new(node, "x", home(node))?),
            false => Box::new(AtomicVar::<i64>::new(node, "x", home(node))?),
        };
        let error = fails(node.wait_for_ready());
        drop(wrong);
        Ok(Some(error))
    });
}

#[test]
fn different_objects_of_one_name() {
    let words: &[&str] = &[
        "`x`",
        "node 0",
        "node 1",
        "barrier",
        "atomic_var",
        "the same type",
    ];
    on_two_nodes([words; 2], |node, _| {
        let wrong: Box<dyn std::any::Any> = match is_first(node) {
            true => Box::new(AtomicVar::<u64>::new(node, "x", home(node))?),
            false => Box::new(Barrier::new(node, "x")?),
        };
        let error = fails(node.wait_for_ready());
        drop(wrong);
        Ok(Some(error))
    });
}

#[test]
fn different_sizes() {
    let words: &[&str] = &["`x`", "node 0", "node 1", "64", "128", "sizes"];
    on_two_nodes([words; 2], |node, _| {
        let len = if is_first(node) { 64 } else { 128 };
        let _region = SharedRegion::new(node, "x", len)?;
        Ok(Some(fails(node.wait_for_ready())))
    });
}

#[test]
fn different_homes() {
    let words: &[&str] = &["`l`", "node 0", "node 1", "make both endpoints"];
    on_two_nodes([words; 2], |node, _| {
        let _lock = TicketLock::new(node, "l", node.node())?;
        Ok(Some(fails(node.wait_for_ready())))
    });
}

#[test]
fn wrong_participants() {
    let words: &[&str] = &["`b`", "node 0", "node 1", "participants"];
    testing::run(3, |fabric| {
        let node = Manager::new(fabric)?;
        let thread = node.thread()?;
        let end = Barrier::new(&node, "end")?;
        end.channel().wait_for_ready()?;
        // Node 1 forgets node 2, which makes none.
        match node.node().0 {
            0 => {
                let _b = Barrier::new(&node, "b")?;
                names(&fails(node.wait_for_ready()), words);
            }
            1 => {
                let _b = Barrier::new(&node.among([NodeId(0), NodeId(1)]), "b")?;
                names(&fails(node.wait_for_ready()), words);
            }
            _ => {}
        }
        end.wait(&thread)
    });
}

#[test]
fn a_node_that_does_not_take_part() {
    let words: &[&str] = &["`b`", "node 1", "not a participant", "among more nodes"];
    on_two_nodes([words; 2], |node, _| {
        // On node 0 the home does not take part, on node 1 the node itself.
        let among = node.among([NodeId(0)]);
        Ok(match is_first(node) {
            true => Some(fails(TicketLock::new(&among, "b", NodeId(1)))),
            false => Some(fails(Barrier::new(&among, "b"))),
        })
    });
}

#[test]
fn a_forgotten_wait_for_ready() {
    let words: &[&str] = &["`x.data`", "to node 0", "call `wait_for_ready` first"];
    on_two_nodes([NONE, words], |node, thread| {
        if is_first(node) {
            // This node makes none, so that the other is not ready by chance.
            return Ok(None);
        }
        let region = SharedRegion::new(node, "x", 64)?;
        Ok(Some(fails(
            region
                .target(home(node), 0)
                .and_then(|to| thread.put_inline(b"x", to)),
        )))
    });
}

#[test]
fn a_place_outside_of_a_region() {
    let words: &[&str] = &["`x.data`", "60..68", "64 bytes", "take an offset inside"];
    on_two_nodes([words; 2], |node, thread| {
        let region = SharedRegion::new(node, "x", 64)?;
        node.wait_for_ready()?;
        names(&fails(region.read(60, &mut [0; 8])), words);
        names(
            &fails(region.word(3)),
            &["`x.data`", "offset 3", "a multiple of its size"],
        );
        let put = thread.put_inline(&[0; 8], region.target(home(node), 60)?);
        Ok(Some(fails(region.placed(put))))
    });
}

#[test]
fn two_objects_of_one_name() {
    let first: &[&str] = &["`x`", "node 0 already", "take another name"];
    let second: &[&str] = &["`x`", "node 1 already", "take another name"];
    on_two_nodes([first, second], |node, _| {
        let _x = Barrier::new(node, "x")?;
        Ok(Some(fails(Barrier::new(node, "x"))))
    });
}

#[test]
fn an_object_that_one_node_does_not_make() {
    let words: &[&str] = &["`b`", "node 1", "every participant must make"];
    on_two_nodes([words, NONE], |node, _| {
        if !is_first(node) {
            return Ok(None);
        }
        let _b = Barrier::new(node, "b")?;
        let deadline = node.fabric().platform().now().after(SHORT);
        Ok(Some(fails(node.wait_for_ready_until(deadline))))
    });
}

#[test]
fn a_name_that_cannot_be() {
    let words: &[&str] = &["`a/b`", "take another name"];
    on_two_nodes([words; 2], |node, _| Ok(Some(fails(Barrier::new(node, "a/b")))));
}

#[test]
fn a_forgotten_barrier() {
    let words: &[&str] = &["node 1 has not arrived at b", "every participant must call"];
    on_two_nodes([words, NONE], |node, thread| {
        let barrier = Barrier::new(node, "b")?;
        node.wait_for_ready()?;
        Ok(match is_first(node) {
            true => Some(late(thread, || barrier.wait(thread))),
            false => None,
        })
    });
}

#[test]
fn a_guard_that_is_held() {
    testing::run(2, |fabric| {
        let node = Manager::new(fabric)?;
        let ticket = TicketLock::new(&node, "ticket", home(&node))?;
        let tas = TasLock::new(&node, "tas", home(&node))?;
        let barrier = Barrier::new(&node, "b")?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        if is_first(&node) {
            let held = ticket.lock(&thread, Scope::Thread)?;
            let held_too = tas.lock(&thread, Scope::Thread)?;
            barrier.wait(&thread)?;
            // The guards live for too long.
            barrier.wait(&thread)?;
            drop((held, held_too));
            return Ok(());
        }
        barrier.wait(&thread)?;
        let error = late(&thread, || ticket.lock(&thread, Scope::Thread));
        names(&error, &["node 0 holds lock ticket", "must release its guard"]);
        let error = late(&thread, || tas.lock(&thread, Scope::Thread));
        names(&error, &["node 0 holds lock tas", "must release its guard"]);
        barrier.wait(&thread)
    });
}

#[test]
fn a_lock_that_the_thread_has_already() {
    let words: [&[&str]; 2] = [
        &["lock l0", "node 0", "perhaps this one", "release its guard"],
        &["lock l1", "node 1", "perhaps this one", "release its guard"],
    ];
    on_two_nodes(words, |node, thread| {
        // Each node has a lock of its own.
        let name = format!("l{}", node.node().0);
        let lock = TicketLock::new(&node.among([node.node()]), &name, node.node())?;
        lock.channel().wait_for_ready()?;
        let _guard = lock.lock(thread, Scope::Thread)?;
        Ok(Some(late(thread, || lock.lock(thread, Scope::Thread))))
    });
}

#[test]
fn a_ring_that_is_too_small() {
    let words: &[&str] = &["ring buffer `r`", "100 bytes", "make it larger"];
    on_two_nodes([words, NONE], |node, thread| {
        let ring = RingBuffer::new(node, "r", home(node), 64)?;
        node.wait_for_ready()?;
        Ok(match is_first(node) {
            true => Some(fails(ring.writer()?.submit(thread, &[0; 100]))),
            false => None,
        })
    });
}

#[test]
fn a_reader_that_does_not_read() {
    let words: &[&str] = &["node 1 has not acknowledged", "ring buffer r", "must receive"];
    on_two_nodes([words, NONE], |node, thread| {
        let ring = RingBuffer::new(node, "r", home(node), 64)?;
        node.wait_for_ready()?;
        if !is_first(node) {
            return Ok(None);
        }
        let mut writer = ring.writer()?;
        // More than the ring holds.
        Ok(Some(late(thread, || {
            (0..100).try_for_each(|_| writer.submit(thread, &[0; 8]))
        })))
    });
}

#[test]
fn a_wrong_writer() {
    let words: &[&str] = &[
        "`r`",
        "only node 0 may take the writer",
        "not node 1",
        "leave the call to node 0",
    ];
    on_two_nodes([NONE, words], |node, _| {
        let ring = RingBuffer::new(node, "r", home(node), 64)?;
        node.wait_for_ready()?;
        Ok(match is_first(node) {
            true => None,
            false => Some(fails(ring.writer())),
        })
    });
}

#[test]
fn a_variable_of_another() {
    let words: &[&str] = &[
        "`v`",
        "only node 0 may set",
        "not node 1",
        "leave the call to node 0",
    ];
    on_two_nodes([NONE, words], |node, _| {
        let variable = OwnedVar::<u64>::new(node, "v", home(node))?;
        node.wait_for_ready()?;
        Ok(match is_first(node) {
            true => None,
            false => Some(fails(variable.store(1))),
        })
    });
}

#[test]
fn calls_in_another_order() {
    let words: &[&str] = &["`c`", "node", "the same operations in the same order"];
    on_two_nodes([words; 2], |node, thread| {
        let mut collective = Collective::<u64>::new(node, "c")?;
        node.wait_for_ready()?;
        Ok(match is_first(node) {
            true => Some(fails(collective.all_gather(thread, 1))),
            false => Some(fails(collective.gather(thread, node.node(), 1))),
        })
    });
}

#[test]
fn a_store_for_smaller_values() {
    let words: &[&str] = &["store `s`", "`value_bytes_max`", "make it larger"];
    on_two_nodes([words; 2], |node, thread| {
        let config = KvConfig::default().value_bytes_max(4);
        let store = KvStore::<u64, Bytes>::new(node, "s", config)?;
        node.wait_for_ready()?;
        let value = Bytes(vec![0; 100]);
        Ok(Some(fails(store.insert(
            thread,
            &u64::from(node.node().0),
            &value,
        ))))
    });
}

#[test]
fn a_queue_that_nobody_empties() {
    let words: &[&str] = &["queue q", "no call pops", "make its capacity larger"];
    on_two_nodes([words, NONE], |node, thread| {
        let queue = SharedQueue::<u64>::new(node, "q", home(node), 2)?;
        node.wait_for_ready()?;
        if !is_first(node) {
            return Ok(None);
        }
        Ok(Some(late(thread, || {
            (0..10).try_for_each(|value| queue.push(thread, value).map(drop))
        })))
    });
}

#[test]
fn a_program_without_a_launcher() {
    let environment = loco::fabric::Environment::of([]);
    let said = loco::fabric::Job::from_environment(&environment)
        .expect_err("there is no job")
        .to_string();
    assert!(said.contains("not part of a job"), "{said}");
    assert!(said.contains("start it with `loco run -n 3 PROGRAM`"), "{said}");
}
