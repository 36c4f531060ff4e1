//! The atomic variable and the atomic array (LOCO'25 5.4): calls take effect one after another, from every node and every
//! thread; a pulled copy is a value that the variable had.

use loco::fabric::NodeId;
use loco::{AtomicArray, AtomicVar, Manager, Result, SharedVar, Thread, fence};
use loco_sim::{World, call, spec};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Script, Stage, must, on_part};

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
fn calls<const N: usize>(script: Script<Call, N>) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::play(world, script, make, |objects, thread, what| {
            use_variable(&objects.variable, thread, what);
            Some(())
        });
        stage.promise(|calls| spec::atomic_variable(calls, 0));
    }
}

/// Makes a world in which node 1 pulls a variable to which node 0 has added. Copies do not go back.
fn pulled(home_adds: bool) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make);
        let adder = if home_adds { 0 } else { 2 };
        stage.run(adder, 0, "adder", |objects, thread| {
            must(objects.variable.fetch_add(thread, 1));
            // A fence places the write of an atomic.
            must(fence::thread(thread));
            objects.flag.write(1);
            must(objects.flag.broadcast_to(thread, &[NodeId(1)])).forget();
            must(objects.variable.fetch_add(thread, 1));
        });
        stage.run(1, 0, "puller", |objects, thread| {
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
    let mut stage = Stage::new(world, 2, 1, make);
    stage.each("node", 0..2, move |objects, thread, me| {
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
    });
    stage.promise(|calls| {
        (0..2).try_for_each(|index| spec::atomic_variable(&on_part(calls, &format!("@{index}")), 0))
    });
}

/// Returns the worlds of atomic words.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    use Call::{Add, Cas, Read, Swap, Write};
    const TWO: Script<Call, 2> = [(0, &[Add, Read]), (1, &[Add, Swap(7)])];
    const WRITES: Script<Call, 2> = [(0, &[Write(5), Read]), (1, &[Cas(0, 6), Read])];
    const BOTH_REMOTE: Script<Call, 2> = [(1, &[Swap(3), Read]), (2, &[Add, Write(9)])];
    const FOUR: Script<Call, 4> = [(0, &[Add]), (0, &[Swap(4)]), (1, &[Cas(1, 8)]), (1, &[Add])];
    const LONG: Script<Call, 2> = [(0, &[Add, Write(5), Read]), (1, &[Swap(7), Add, Cas(8, 2)])];
    vec![
        NamedWorld::new("add-and-swap", calls(TWO)),
        NamedWorld::new("add-and-swap-glob", calls(TWO)).glob(),
        NamedWorld::new("write-and-cas", calls(WRITES)),
        NamedWorld::new("write-and-cas-glob", calls(WRITES)).glob(),
        NamedWorld::new("pull", pulled(false)),
        NamedWorld::new("pull-home", pulled(true)),
        NamedWorld::new("pull-glob", pulled(false)).glob(),
        NamedWorld::new("array", array),
        NamedWorld::new("array-glob", array).glob(),
        NamedWorld::new("both-remote", calls(BOTH_REMOTE)),
        NamedWorld::new("two-threads", calls(FOUR)),
        NamedWorld::new("two-threads-glob", calls(FOUR)).glob(),
        NamedWorld::new("long", calls(LONG)),
        NamedWorld::new("long-glob", calls(LONG)).glob(),
    ]
}
