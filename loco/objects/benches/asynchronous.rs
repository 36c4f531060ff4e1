//! Measures what the asynchronous forms cost over shared memory. Makes the same calls blocking and awaited
//! (by a bare executor), in turns, so that both meet the same load of the machine. Prints the best and the
//! median turn of each, and the ratio.
//!
//! Calls that need not wait show what the way through an `AsyncThread` costs. Calls that wait show the way through the driver,
//! which takes longest where a node has no core to itself: the driver, the executor and the other node share what there is.

use std::hint::black_box;
use std::time::Instant;

use loco::asynchronous::{Async, AsyncThread, Driver, RingSink, RingStream};
use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{
    Barrier, Inserted, KvConfig, KvStore, Manager, Result, RingBuffer, RingReader, RingWriter, TasLock,
    Thread, TicketLock, testing,
};
use pollster::block_on;

/// Turns of each case and form.
const TURNS: usize = 40;

/// One node's objects and its two ways to use them.
struct Node {
    id: NodeId,
    thread: Thread,
    task: AsyncThread,
    line: Barrier,
    barrier: Async<Barrier>,
    ticket: Async<TicketLock>,
    tas: Async<TasLock>,
    store: Async<KvStore<u64, u64>>,
    _driver: Driver,
}

type Call<'a> = Box<dyn FnMut(&Node) -> Result<()> + 'a>;

/// A call in both forms.
struct Case<'a> {
    name: &'static str,
    /// Calls of a turn.
    calls: u32,
    /// Only node 0 makes it.
    alone: bool,
    blocking: Call<'a>,
    awaited: Call<'a>,
}

impl Node {
    fn new(manager: &Manager) -> Result<Node> {
        let home = manager.nodes()[0];
        let config = KvConfig::default().slots_per_node(64);
        let line = Barrier::new(manager, "line")?;
        let barrier = Async::new(Barrier::new(manager, "barrier")?);
        let ticket = Async::new(TicketLock::new(manager, "ticket", home)?);
        let tas = Async::new(TasLock::new(manager, "tas", home)?);
        let store = Async::new(KvStore::new(manager, "store", config)?);
        manager.wait_for_ready()?;
        let driver = Driver::new(manager)?;
        let node = Node {
            id: manager.node(),
            thread: manager.thread()?,
            task: driver.thread()?,
            line,
            barrier,
            ticket,
            tas,
            store,
            _driver: driver,
        };
        let key = u64::from(node.id.0);
        assert_eq!(
            KvStore::insert(&node.store, &node.thread, &key, &key)?,
            Inserted::Done
        );
        node.line.wait(&node.thread)?;
        Ok(node)
    }

    /// Nanoseconds for each call of a turn.
    fn turn(&self, calls: u32, idle: bool, call: &mut dyn FnMut(&Node) -> Result<()>) -> Result<f64> {
        self.line.wait(&self.thread)?;
        let begin = Instant::now();
        if !idle {
            for _ in 0..calls {
                call(self)?;
            }
        }
        let each = begin.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
        self.line.wait(&self.thread)?;
        Ok(each)
    }

    fn measure(&self, case: &mut Case<'_>) -> Result<()> {
        let idle = case.alone && self.id != NodeId(0);
        let (mut blocking, mut awaited) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            blocking.push(self.turn(case.calls, idle, &mut case.blocking)?);
            awaited.push(self.turn(case.calls, idle, &mut case.awaited)?);
        }
        if self.id == NodeId(0) {
            blocking.sort_by(f64::total_cmp);
            awaited.sort_by(f64::total_cmp);
            let (b, a) = (
                (blocking[0], blocking[TURNS / 2]),
                (awaited[0], awaited[TURNS / 2]),
            );
            println!(
                "{:<28} {:>10.0} {:>10.0} {:>10.0} {:>10.0}   {:>6.2} {:>6.2}",
                case.name,
                b.0,
                b.1,
                a.0,
                a.1,
                a.0 / b.0,
                a.1 / b.1
            );
        }
        Ok(())
    }
}

/// A message there and one back, by two rings.
struct PingPong {
    writer: RingWriter,
    reader: RingReader,
    message: Vec<u8>,
}

impl PingPong {
    fn new(rings: [&RingBuffer; 2], here: NodeId) -> Result<PingPong> {
        let [to, from] = if here == NodeId(0) {
            rings
        } else {
            [rings[1], rings[0]]
        };
        Ok(PingPong {
            writer: to.writer()?,
            reader: from.reader()?,
            message: Vec::new(),
        })
    }

    fn round(&mut self, node: &Node) -> Result<()> {
        let thread = &node.thread;
        if node.id == NodeId(0) {
            self.writer.submit(thread, &[1; 8])?;
            self.reader.receive_into(thread, &mut self.message)
        } else {
            self.reader.receive_into(thread, &mut self.message)?;
            self.writer.submit(thread, &[1; 8])
        }
    }
}

async fn round(sink: &mut RingSink, stream: &mut RingStream, node: &Node) -> Result<()> {
    if node.id == NodeId(0) {
        sink.submit([1; 8]).await?;
        stream.next().await.transpose().map(drop)
    } else {
        stream.next().await.transpose()?;
        sink.submit([1; 8]).await
    }
}

fn get(name: &'static str, key: u64) -> Case<'static> {
    Case {
        name,
        calls: 5000,
        alone: true,
        blocking: Box::new(move |node| {
            black_box(KvStore::get(&node.store, &node.thread, &key)?);
            Ok(())
        }),
        awaited: Box::new(move |node| {
            black_box(block_on(node.store.get(&node.task, key))?);
            Ok(())
        }),
    }
}

fn ticket(name: &'static str, calls: u32, alone: bool) -> Case<'static> {
    Case {
        name,
        calls,
        alone,
        blocking: Box::new(|node| TicketLock::lock(&node.ticket, &node.thread, Scope::Nothing)?.release()),
        awaited: Box::new(|node| {
            block_on(async {
                node.ticket
                    .lock(&node.task, Scope::Nothing)
                    .await?
                    .release()
                    .await
            })
        }),
    }
}

fn tas(name: &'static str, calls: u32, alone: bool) -> Case<'static> {
    Case {
        name,
        calls,
        alone,
        blocking: Box::new(|node| TasLock::lock(&node.tas, &node.thread, Scope::Nothing)?.release()),
        awaited: Box::new(|node| {
            block_on(async { node.tas.lock(&node.task, Scope::Nothing).await?.release().await })
        }),
    }
}

fn main() {
    println!(
        "{:<28} {:>21} {:>21}   awaited/blocking",
        "nanoseconds for a call", "blocking: best median", "awaited: best median"
    );
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let nodes = manager.nodes().to_vec();
        let ring = |name: &str, writer| RingBuffer::new(&manager, name, nodes[writer], 4096);
        let rings = [ring("there", 0)?, ring("back", 1)?];
        let async_rings = [ring("async there", 0)?, ring("async back", 1)?];
        let node = Node::new(&manager)?;
        let mut blocking = PingPong::new([&rings[0], &rings[1]], node.id)?;
        let awaited = PingPong::new([&async_rings[0], &async_rings[1]], node.id)?;
        let mut sink = RingSink::new(awaited.writer, &node.task);
        let mut stream = RingStream::new(awaited.reader, &node.task);
        let cases = [
            get("store: get, here", 0),
            get("store: get, there", 1),
            ticket("ticket lock, free", 5000, true),
            tas("test-and-set lock, free", 5000, true),
            ticket("ticket lock, contended", 200, false),
            tas("test-and-set lock, contended", 200, false),
            Case {
                name: "barrier",
                calls: 200,
                alone: false,
                blocking: Box::new(|node| Barrier::wait(&node.barrier, &node.thread)),
                awaited: Box::new(|node| block_on(node.barrier.wait(&node.task))),
            },
            Case {
                name: "ring buffer, there and back",
                calls: 200,
                alone: false,
                blocking: Box::new(|node| blocking.round(node)),
                awaited: Box::new(|node| block_on(round(&mut sink, &mut stream, node))),
            },
        ];
        for mut case in cases {
            node.measure(&mut case)?;
        }
        node.line.wait(&node.thread)
    });
}
