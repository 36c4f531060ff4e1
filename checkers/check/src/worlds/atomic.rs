//! The atomic variable and the atomic array (LOCO'25 5.4): calls take effect one after another, from every node and every
//! thread; a pulled copy is a value that the variable had.

use loco::fabric::NodeId;
use loco::{AtomicArray, AtomicVar, Manager, Result, SharedVar, Thread, fence};
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::rung::Rung;
use crate::stage::{Fabric, must, nodes, promise, run};

struct Objects {
    variable: AtomicVar<u64, Fabric>,
    array: AtomicArray<u64, Fabric>,
    flag: SharedVar<u64, Fabric>,
}

fn make(manager: &Manager<Fabric>) -> Result<Objects> {
    Ok(Objects {
        variable: AtomicVar::new(manager, "variable", NodeId(0))?,
        array: AtomicArray::new(manager, "array", 3)?,
        flag: SharedVar::new(manager, "flag")?,
    })
}

/// A call on the variable. Values written are distinct.
#[derive(Clone, Copy)]
enum Call {
    Add,
    Read,
    Write(u64),
    Swap(u64),
    Cas(u64, u64),
}

fn use_variable(variable: &AtomicVar<u64, Fabric>, thread: &Thread<Fabric>, what: Call) {
    match what {
        Call::Add => {
            did("AtomicVar::fetch_add");
            call("add 1", || must(variable.fetch_add(thread, 1)), u64::to_string);
        }
        Call::Read => {
            did("AtomicVar::read");
            call("read", || must(variable.read(thread)), u64::to_string);
        }
        Call::Write(value) => {
            did("AtomicVar::write");
            let write = || must(variable.write(thread, value));
            call(format!("write {value}"), write, |()| "");
        }
        Call::Swap(value) => {
            did("AtomicVar::swap");
            let swap = || must(variable.swap(thread, value));
            call(format!("swap {value}"), swap, u64::to_string);
        }
        Call::Cas(expected, new) => {
            did("AtomicVar::compare_swap");
            let swap = || must(variable.compare_swap(thread, expected, new));
            let old = call(format!("cas {expected} {new}"), swap, u64::to_string);
            if old != expected {
                did("AtomicVar::cached");
                assert_ne!(variable.cached(), new, "a value that the variable never had");
            }
        }
    }
}

/// Makes a world in which threads, with their nodes and calls, use one variable.
fn calls<const N: usize>(threads: [(u16, &'static [Call]); N]) -> impl Fn(&mut World) {
    move |world| {
        let count = threads
            .iter()
            .map(|&(node, _)| node + 1)
            .max()
            .unwrap_or(1)
            .max(2);
        let at = nodes(world, count, N, make);
        for (number, &(node, calls)) in threads.iter().enumerate() {
            run(
                world,
                &at[usize::from(node)],
                number,
                &format!("thread {number}"),
                move |objects, thread| {
                    for &what in calls {
                        use_variable(&objects.variable, thread, what);
                    }
                },
            );
        }
        promise(world, |calls| spec::atomic_variable(calls, 0));
    }
}

/// Makes a world in which node 1 pulls a variable to which node 0 has added. Copies do not go back.
fn pulled(home_adds: bool) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, 3, 1, make);
        let adder = if home_adds { 0 } else { 2 };
        run(world, &at[adder], 0, "adder", |objects, thread| {
            must(objects.variable.fetch_add(thread, 1));
            // A fence places the write of an atomic.
            must(fence::thread(thread));
            objects.flag.write(1);
            must(objects.flag.broadcast_to(thread, &[NodeId(1)])).forget();
            must(objects.variable.fetch_add(thread, 1));
        });
        run(world, &at[1], 0, "puller", |objects, thread| {
            must(objects.flag.wait_until(thread, |flag| flag == 1));
            did("AtomicVar::pull");
            must(must(objects.variable.pull(thread)).wait(thread));
            did("AtomicVar::cached");
            let first = objects.variable.cached();
            assert!(
                (1..=2).contains(&first),
                "added and fenced before the pull: {first}"
            );
            assert!(must(objects.variable.read(thread)) >= first);
            assert!(objects.variable.cached() >= first);
        });
    }
}

/// Builds a world in which both nodes use both words of the array. Each word's calls take effect one after another.
fn array(world: &mut World) {
    let at = nodes(world, 2, 1, make);
    for me in 0..2_u16 {
        run(
            world,
            &at[usize::from(me)],
            0,
            &format!("node {me}"),
            move |objects, thread| {
                let value = 10 + u64::from(me);
                for index in 0..2 {
                    did("AtomicArray::fetch_add");
                    let add = || must(objects.array.fetch_add(thread, index, 1));
                    call(format!("add@{index} 1"), add, u64::to_string);
                }
                did("AtomicArray::compare_swap");
                let swap = || must(objects.array.compare_swap(thread, 1, 2, value));
                call(format!("cas@1 2 {value}"), swap, u64::to_string);
                did("AtomicArray::read");
                call("read@1", || must(objects.array.read(thread, 1)), u64::to_string);
                assert_eq!(must(objects.array.read(thread, 2)), 0, "nobody wrote this word");
            },
        );
    }
    promise(world, |calls| {
        (0..2).try_for_each(|index| {
            let suffix = format!("@{index}");
            let of_word: Vec<_> = calls
                .iter()
                .filter_map(|call| {
                    let name = call.name.strip_suffix(&suffix)?.to_owned();
                    Some(spec::Operation { name, ..call.clone() })
                })
                .collect();
            spec::atomic_variable(&of_word, 0)
        })
    });
}

/// Returns the rungs of atomic words.
pub(crate) fn rungs() -> Vec<Rung> {
    use Call::{Add, Cas, Read, Swap, Write};
    const TWO: [(u16, &[Call]); 2] = [(0, &[Add, Read]), (1, &[Add, Swap(7)])];
    const WRITES: [(u16, &[Call]); 2] = [(0, &[Write(5), Read]), (1, &[Cas(0, 6), Read])];
    const BOTH_REMOTE: [(u16, &[Call]); 2] = [(1, &[Swap(3), Read]), (2, &[Add, Write(9)])];
    const FOUR: [(u16, &[Call]); 4] = [(0, &[Add]), (0, &[Swap(4)]), (1, &[Cas(1, 8)]), (1, &[Add])];
    const LONG: [(u16, &[Call]); 2] = [(0, &[Add, Write(5), Read]), (1, &[Swap(7), Add, Cas(8, 2)])];
    vec![
        Rung::new("add-and-swap", calls(TWO)),
        Rung::new("add-and-swap-glob", calls(TWO)).glob(),
        Rung::new("write-and-cas", calls(WRITES)),
        Rung::new("write-and-cas-glob", calls(WRITES)).glob(),
        Rung::new("pull", pulled(false)),
        Rung::new("pull-home", pulled(true)),
        Rung::new("pull-glob", pulled(false)).glob(),
        Rung::new("array", array),
        Rung::new("array-glob", array).glob(),
        Rung::new("both-remote", calls(BOTH_REMOTE)),
        Rung::new("two-threads", calls(FOUR)),
        Rung::new("two-threads-glob", calls(FOUR)).glob(),
        Rung::new("long", calls(LONG)),
        Rung::new("long-glob", calls(LONG)).glob(),
    ]
}
