//! The shared variable (LOCO'26 3.4, Def. 3.8). Reads see values that were written. Broadcasts of one thread to one
//! node keep their order, also between variables. A broadcast whose key is done has read its source. Nodes that a
//! broadcast does not name see nothing of it.

use loco::fabric::NodeId;
use loco::{Manager, Result, SharedVar, fence};
use loco_sim::spec::shared_variable;
use loco_sim::{World, call};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must};

type Sv = SharedVar<u64, Fabric>;

fn make(manager: &Manager<Fabric>) -> Result<[Sv; 2]> {
    Ok([SharedVar::new(manager, "x")?, SharedVar::new(manager, "y")?])
}

/// Builds a world with data and a flag along one queue pair.
fn message(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "writer", |[x, y], thread| {
        did("SharedVar::write");
        x.write(1);
        did("SharedVar::broadcast_to");
        must(x.broadcast_to(thread, &[NodeId(1)])).forget();
        y.write(1);
        did("SharedVar::broadcast");
        must(y.broadcast(thread)).forget();
        assert_eq!(x.read(), 1, "a node reads what it wrote");
    });
    stage.run(1, 0, "reader", |[x, y], thread| {
        did("SharedVar::wait_until");
        assert_eq!(must(y.wait_until(thread, |y| y == 1)), 1);
        did("SharedVar::read");
        assert_eq!(x.read(), 1, "broadcasts of one thread arrive in order");
    });
}

/// Makes a world in which a variable is written again once the key of its broadcast is done, or after a fence if
/// another thread writes it. The first value arrives, then the second.
fn again(threads: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, threads, make);

        stage.in_turn(
            0,
            0..threads,
            "writer",
            |[_, y]| y,
            2,
            move |[x, _], thread, step| {
                x.write(step);
                must(must(x.broadcast(thread)).wait(thread));
                if threads > 1 {
                    must(fence::thread(thread));
                }
            },
        );
        stage.run(1, 0, "reader", |[x, _], thread| {
            let first = x.read();
            let second = must(x.wait_until(thread, |x| x >= first));
            assert!(second >= first, "{second} after {first}");
            assert_eq!(must(x.wait_until(thread, |x| x == 2)), 2);
            assert_eq!(x.read(), 2, "the last broadcast stays");
        });
    }
}

/// Builds a world in which a broadcast to node 1 leaves node 2 alone, and reads return only written values.
fn chosen(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make);
    stage.run(0, 0, "writer", |[x, y], thread| {
        x.write(5);
        must(x.broadcast_to(thread, &[NodeId(1)])).forget();
        y.write(6);
        must(y.broadcast_to(thread, &[NodeId(2)])).forget();
    });
    stage.run(1, 0, "first", |[x, y], thread| {
        must(x.wait_until(thread, |x| x == 5));
        assert_eq!(y.read(), 0, "not broadcast to this node");
    });
    stage.run(2, 0, "second", |[x, y], thread| {
        must(y.wait_until(thread, |y| y == 6));
        assert_eq!(x.read(), 0, "not broadcast to this node");
    });
}

/// Builds a world in which the writer broadcasts 1 to everybody, waits for the key, and writes 2, which it does not
/// broadcast. Nobody sees 2. All hear of the broadcast.
fn kept(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make);
    stage.run(0, 0, "writer", |[x, _], thread| {
        x.write(1);
        must(must(x.broadcast(thread)).wait(thread));
        x.write(2);
    });
    stage.each("reader", 1..3, |[x, _], thread, _| {
        let seen = must(x.wait_until(thread, |x| x > 0));
        assert_eq!(seen, 1, "written after the key was done");
    });
}

/// Builds a world in which a wait returns the value that it waited for, although a later one may have arrived by
/// then.
fn waited_for(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "writer", |[x, _], thread| {
        for value in 1..=2 {
            x.write(value);
            must(must(x.broadcast(thread)).wait(thread));
        }
    });
    stage.run(1, 0, "reader", |[x, _], thread| {
        let mut accepted = None;
        let accept = |x| accepted.replace(x).is_none();
        let seen = must(x.wait_until(thread, accept));
        assert_eq!(accepted, Some(seen), "the value that satisfied the condition");
        assert_eq!(must(x.wait_until(thread, |x| x > 1)), 2);
    });
}

/// Builds a world in which both nodes write the variable. Each reads values that one of them wrote.
fn two_writers(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.each("node", 0..2, move |[x, _], thread, me| {
        let value = u64::from(me) + 1;
        let write = || {
            x.write(value);
            must(x.broadcast(thread)).forget();
        };
        call(format!("write {value}"), write, |()| "");
        call("read", || x.read(), u64::to_string);
        call("read", || x.read(), u64::to_string);
    });
    stage.promise(|calls| shared_variable(calls, "0"));
}

/// Returns the worlds of the shared variable.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("message", message),
        NamedWorld::new("again", again(1)),
        NamedWorld::new("again-two-threads", again(2)),
        NamedWorld::new("waited-for", waited_for),
        NamedWorld::new("kept", kept),
        NamedWorld::new("chosen-nodes", chosen),
        NamedWorld::new("two-writers", two_writers),
    ]
}
