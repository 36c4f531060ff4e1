//! Documents for the browser test: the film of a ring buffer that fails, and a history that is not linearizable.

use std::path::Path;

use film::{Heading, Verdict};
use loco::fabric::{Local, Memory, NodeId, Peers, Target, WordCell};
use loco::{AckKey, Channel, Manager, Region, Thread};
use loco_history::spec::KeyValue;
use loco_history::spec::KeyValueCall::{Get, Insert, Update};
use loco_history::spec::KeyValueRet::{Done, Found, Missing};
use loco_history::{History, Limits, Operation, ThreadId, check};
use loco_sim::{Config, ModelFabric, Strategy, World, call, explore};

type Fabric = ModelFabric;

const WORD_BYTES: usize = 8;
const SLOTS: u64 = 2;

/// A ring buffer like that of LOCO'26 Fig. 14, whose writer counts the head on while a put of it may not have read it yet.
struct Ring {
    _channel: Channel<Fabric>,
    thread: std::sync::Mutex<Option<Thread<Fabric>>>,
    data: Region<Fabric>,
    head: Region<Fabric>,
}

impl Ring {
    fn new(fabric: Fabric) -> Ring {
        let manager = Manager::new(fabric).unwrap();
        let channel = Channel::builder(&manager, "ring")
            .kind("test ring")
            .region("data", WORD_BYTES * SLOTS as usize)
            .region("head", WORD_BYTES)
            .join()
            .unwrap();
        manager.wait_for_ready().unwrap();
        let region = |name| channel.region(name).unwrap().clone();
        Ring {
            data: region("data"),
            head: region("head"),
            _channel: channel,
            thread: std::sync::Mutex::new(Some(manager.thread().unwrap())),
        }
    }

    fn put(
        &self,
        thread: &Thread<Fabric>,
        region: &Region<Fabric>,
        word: usize,
        value: u64,
    ) -> AckKey<Fabric> {
        let memory = region.local().unwrap();
        let offset = WORD_BYTES * word;
        memory.cell::<u64>(offset).unwrap().store(value);
        let src = Local {
            memory,
            offset,
            len: WORD_BYTES,
        };
        let target = Target {
            remote: region.remote(NodeId(1)).unwrap(),
            offset,
        };
        thread.raw().put(src, target).unwrap()
    }

    fn submit(&self, thread: &Thread<Fabric>, position: u64) {
        let slot = (position % SLOTS) as usize;
        self.put(thread, &self.data, slot, 10 + position).forget();
        // Here the put of the head before this one should be waited for.
        self.put(thread, &self.head, 0, position + 1).forget();
    }

    fn receive(&self, thread: &Thread<Fabric>, position: u64) -> u64 {
        let load = |region: &Region<Fabric>, word: usize| {
            let cell = region.local().unwrap().cell::<u64>(WORD_BYTES * word).unwrap();
            cell.load()
        };
        thread
            .wait_until("a message", Peers::None, || {
                (load(&self.head, 0) > position).then_some(())
            })
            .unwrap();
        load(&self.data, (position % SLOTS) as usize)
    }
}

fn world(world: &mut World) {
    let writer = world.node(Ring::new);
    world.thread(&writer, "writer", |ring: &Ring| {
        let thread = ring.thread.lock().unwrap().take().unwrap();
        for position in 0..SLOTS {
            call(
                format!("submit({})", 10 + position),
                || ring.submit(&thread, position),
                |()| "()",
            );
        }
    });
    let reader = world.node(Ring::new);
    world.thread(&reader, "reader", |ring: &Ring| {
        let thread = ring.thread.lock().unwrap().take().unwrap();
        for position in 0..SLOTS {
            let message = call(
                "receive()",
                || ring.receive(&thread, position),
                |message| *message,
            );
            assert_eq!(message, 10 + position, "messages arrive in order");
        }
    });
}

/// Writes the film of a failing execution.
pub(crate) fn write_film(path: &Path) {
    let config = Config {
        strategy: Strategy::Pct {
            executions: 20_000,
            seed: 1,
            depth: 4,
        },
        ..Config::default()
    };
    let failure = explore(&config, world).unwrap().failure.expect("the ring fails");
    let shown = loco_sim::film(&Config::default(), &failure.schedule, world).unwrap();
    let note = format!("{}replay: '{}'", failure.summary(), failure.schedule);
    let heading = Heading {
        title: "ring buffer",
        note: &note,
        verdict: Verdict::Violation,
    };
    std::fs::write(path, film::of_execution(heading, &shown).unwrap()).unwrap();
}

/// Writes the report of a history in which a get misses an update that was over before the get began.
pub(crate) fn write_history(path: &Path) {
    let call =
        |node, call, from, result, to| Operation::new(ThreadId { node, thread: 0 }, call, from, result, to);
    let history = History::from(vec![
        call(0, Insert(7, 1), 100, Done, 420),
        call(1, Get(7), 180, Missing, 260),
        call(2, Get(7), 300, Found(1), 390),
        call(1, Insert(9, 10), 300, Done, 700),
        call(0, Get(9), 500, Found(10), 610),
        call(2, Update(9, 11), 760, Done, 1010),
        call(0, Get(9), 800, Found(11), 900),
        call(0, Get(9), 1060, Found(10), 1150),
        call(1, Update(9, 12), 1090, Done, 1400),
        Operation::pending(ThreadId { node: 0, thread: 1 }, Insert(9, 13), 1250),
    ]);
    let spec = KeyValue::new();
    std::fs::write(path, check(&spec, &history, &Limits::default()).html()).unwrap();
}
