//! Atomic variable: its operations take effect one after another, and so do those of the home node.

use loco::fabric::{Memory, NodeId, WordCell};
use loco::{AtomicVar, Channel, Manager, Thread};
use loco_sim::{Config, World, call, spec};

use crate::{Body, Fabric, Plan, complete, found};

type Variable = AtomicVar<u64, Fabric>;

fn variable(manager: &Manager<Fabric>) -> Variable {
    AtomicVar::new(manager, "variable", NodeId(0)).unwrap()
}

fn add(variable: &Variable, thread: &Thread<Fabric>, by: u64) {
    let add = || variable.fetch_add(thread, by).unwrap();
    call(format!("add {by}"), add, u64::to_string);
}

fn read(variable: &Variable, thread: &Thread<Fabric>) {
    call("read", || variable.read(thread).unwrap(), u64::to_string);
}

fn write(variable: &Variable, thread: &Thread<Fabric>, value: u64) {
    call(
        format!("write {value}"),
        || variable.write(thread, value).unwrap(),
        |()| "",
    );
}

fn compare_swap(variable: &Variable, thread: &Thread<Fabric>, expected: u64, new: u64) {
    let swap = || variable.compare_swap(thread, expected, new).unwrap();
    call(format!("cas {expected} {new}"), swap, u64::to_string);
}

fn world(make: impl Fn() -> Vec<Vec<Body<Variable>>> + Sync) -> impl Fn(&mut World) + Sync {
    move |world| Plan::new(variable, make(), |o| spec::atomic_variable(o, 0)).build(world)
}

#[test]
fn home_and_another_node() {
    let build = world(|| {
        let at_home: Body<Variable> = Box::new(|variable, thread| {
            add(variable, thread, 1);
            read(variable, thread);
        });
        let elsewhere: Body<Variable> = Box::new(|variable, thread| {
            compare_swap(variable, thread, 1, 10);
            write(variable, thread, 20);
        });
        vec![vec![at_home], vec![elsewhere]]
    });
    complete("atomic variable, 2 nodes, 2 operations each", &build);
}

#[test]
fn three_nodes() {
    let build = world(|| {
        let body = |node: u64| -> Vec<Body<Variable>> {
            vec![Box::new(move |variable, thread| add(variable, thread, 1 << node))]
        };
        (0..3).map(body).collect()
    });
    complete("atomic variable, 3 nodes, 1 addition each", &build);
}

/// The home node uses CPU instructions where the NIC is atomic against the CPU.
#[test]
fn home_by_its_cpu_where_the_fabric_allows_it() {
    let build = world(|| {
        let body = |_| -> Vec<Body<Variable>> {
            vec![Box::new(|variable, thread| {
                add(variable, thread, 1);
                read(variable, thread);
            })]
        };
        (0..2).map(body).collect()
    });
    let config = Config {
        glob: true,
        ..Config::default()
    };
    crate::search(
        "atomic variable, glob, 2 nodes, 2 operations each",
        &config,
        &build,
    );
}

/// Mistakes of an atomic variable, each in one of a few lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The home node adds by its CPU, against which remote read-modify-writes are not atomic.
    CpuAtHome,
    /// Adds by reading and writing.
    ReadThenWrite,
    /// Writes by a put, which a read-modify-write under way overwrites.
    WriteByPut,
    /// Reads its cached copy as if it were the value.
    ReadsItsCache,
}

struct Own {
    real: Variable,
    raw: Channel<Fabric>,
}

fn own(manager: &Manager<Fabric>) -> Own {
    let raw = Channel::builder(manager, "raw")
        .kind("test variable")
        .region("word", 8)
        .join();
    Own {
        real: variable(manager),
        raw: raw.unwrap(),
    }
}

impl Own {
    fn target(&self) -> loco::fabric::Target<'_, loco_sim::ModelRemote> {
        let remote = self.raw.region("word").unwrap().remote(NodeId(0)).unwrap();
        loco::fabric::Target { remote, offset: 0 }
    }

    fn add(&self, thread: &Thread<Fabric>, mistake: Mistake) -> u64 {
        let buffer = thread.mem_ref(8).unwrap();
        match mistake {
            Mistake::CpuAtHome if self.raw.node() == NodeId(0) => {
                let cell = self
                    .raw
                    .region("word")
                    .unwrap()
                    .local()
                    .unwrap()
                    .cell::<u64>(0)
                    .unwrap();
                let mut old = 0;
                while let Err(found) = cell.compare_exchange(old, old + 1) {
                    old = found;
                }
                old
            }
            Mistake::ReadThenWrite => {
                let buffer = buffer.get(self.target()).unwrap().wait().unwrap();
                let old = buffer.word(0).unwrap();
                self.put(thread, old + 1);
                old
            }
            _ => buffer
                .fetch_add(self.target(), 1)
                .unwrap()
                .wait()
                .unwrap()
                .word(0)
                .unwrap(),
        }
    }

    fn put(&self, thread: &Thread<Fabric>, value: u64) {
        thread
            .put_inline(&value.to_ne_bytes(), self.target())
            .unwrap()
            .forget();
        loco::fence::pair(thread, NodeId(0)).unwrap();
    }

    fn read(&self, thread: &Thread<Fabric>) -> u64 {
        let buffer = thread.mem_ref(8).unwrap();
        buffer
            .get(self.target())
            .unwrap()
            .wait()
            .unwrap()
            .word(0)
            .unwrap()
    }
}

/// Both nodes add; one of them may do something else before.
fn own_world(mistake: Mistake) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |node: u16| -> Vec<Body<Own>> {
            vec![Box::new(move |own, thread| match mistake {
                Mistake::WriteByPut if node == 1 => {
                    call("write 7", || own.put(thread, 7), |()| "");
                    call("read", || own.read(thread), u64::to_string);
                }
                Mistake::ReadsItsCache => {
                    if node == 0 {
                        call("add 1", || own.real.fetch_add(thread, 1).unwrap(), u64::to_string);
                    } else {
                        call("read", || own.real.cached(), u64::to_string);
                    }
                }
                _ => {
                    call("add 1", || own.add(thread, mistake), u64::to_string);
                }
            })]
        };
        let threads = (0..2).map(body).collect();
        Plan::new(own, threads, |o| spec::atomic_variable(o, 0)).build(world);
    }
}

#[test]
fn the_variable_without_mistake_passes() {
    complete("test variable", own_world(Mistake::None));
}

#[test]
fn home_that_adds_by_its_cpu() {
    found("CPU at home", own_world(Mistake::CpuAtHome));
}

#[test]
fn addition_by_reading_and_writing() {
    found("read then write", own_world(Mistake::ReadThenWrite));
}

#[test]
fn write_by_put() {
    found("write by put", own_world(Mistake::WriteByPut));
}

#[test]
fn cached_copy_taken_for_the_value() {
    found("cached", own_world(Mistake::ReadsItsCache));
}

/// A read-modify-write that has completed may not be placed: the CPU of its home sees it only after a fence.
fn placed(fenced: bool) -> impl Fn(&mut World) + Sync {
    move |world| {
        let adds: Body<Variable> = Box::new(move |variable, thread| {
            let add = || {
                let old = variable.fetch_add(thread, 1).unwrap();
                if fenced {
                    loco::fence::pair(thread, NodeId(0)).unwrap();
                }
                old
            };
            call("add 1", add, u64::to_string);
        });
        let reads: Body<Variable> = Box::new(|variable, _| {
            call("read", || variable.cached(), u64::to_string);
        });
        let threads = vec![vec![reads], vec![adds]];
        Plan::new(variable, threads, |o| spec::atomic_variable(o, 0)).build(world);
    }
}

#[test]
fn a_fence_places_a_read_modify_write() {
    complete("addition with fence, CPU at home", placed(true));
    found("addition without fence", placed(false));
}
