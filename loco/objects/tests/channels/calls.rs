//! Calls of every object, for tests that count what a call asks of the network.
//!
//! Two nodes. Node 0 calls, and what it works with is on node 1. The first call of each kind, which may set things up, does not count.

use std::cell::RefCell;
use std::sync::Arc;

use crate::common::{Net, PATIENCE};
use crate::counting::{Counting, Counts};
use loco::fabric::{Local, NodeId};
use loco::fence::{self, Scope};
use loco::raw::{Flags, Operation};
use loco::{
    AtomicVar, Barrier, Collective, Config, KvConfig, KvStore, Manager, Msw, OwnedVar, Result, RingBuffer,
    RingConfig, SharedQueue, SharedRegion, SharedVar, Sst, TasLock, Thread, TicketLock, WideOwnedVar,
};

/// A fabric that counts.
pub type Fabric = Counting<Net>;
/// A value of several words.
type Wide = [u64; 4];

/// The number of calls of each kind that count.
pub const CALLS: u64 = 6;
/// The first of eight keys whose values are on node 1.
const THEIRS: u64 = 1000;

/// Makes a call of some name several times, and takes note of what one asks for.
pub type Row<'a> = &'a mut dyn FnMut(&'static str, &dyn Fn(u64) -> Result<()>) -> Result<()>;

/// Makes the manager of a node whose posted requests are counted.
pub fn counted(inner: Net) -> Result<(Manager<Fabric>, Arc<Counts>)> {
    let counts = Arc::new(Counts::default());
    let fabric = Counting {
        inner,
        counts: counts.clone(),
    };
    let manager = Manager::with_config(fabric, Config::default().deadline(PATIENCE))?;
    Ok((manager, counts))
}

/// The objects that node 0 calls.
pub struct Objects {
    region: SharedRegion<Fabric>,
    var: SharedVar<u64, Fabric>,
    owned: OwnedVar<u64, Fabric>,
    theirs: OwnedVar<u64, Fabric>,
    wide: WideOwnedVar<Wide, Fabric>,
    wide_theirs: WideOwnedVar<Wide, Fabric>,
    sst: Sst<u64, Fabric>,
    msw: Msw<Fabric>,
    barrier: Barrier<Fabric>,
    collective: RefCell<Collective<u64, Fabric>>,
    ring: RingBuffer<Fabric>,
    /// A ring whose writer is node 1.
    inbox: RingBuffer<Fabric>,
    counter: AtomicVar<u64, Fabric>,
    ticket: TicketLock<Fabric>,
    tas: TasLock<Fabric>,
    queue: SharedQueue<u64, Fabric>,
    store: KvStore<u64, u64, Fabric>,
    /// Where the nodes meet between the calls.
    end: Barrier<Fabric>,
}

impl Objects {
    pub fn new(manager: &Manager<Fabric>) -> Result<Objects> {
        let (here, there) = (NodeId(0), NodeId(1));
        Ok(Objects {
            region: SharedRegion::new(manager, "region", 64)?,
            var: SharedVar::new(manager, "var")?,
            owned: OwnedVar::new(manager, "owned", here)?,
            theirs: OwnedVar::new(manager, "theirs", there)?,
            wide: WideOwnedVar::new(manager, "wide", here)?,
            wide_theirs: WideOwnedVar::new(manager, "wide-theirs", there)?,
            sst: Sst::new(manager, "sst")?,
            msw: Msw::new(manager, "msw", &[32])?,
            barrier: Barrier::new(manager, "barrier")?,
            collective: RefCell::new(Collective::new(manager, "collective")?),
            ring: RingBuffer::with_config(manager, "ring", here, &RingConfig::new(4096).readers([there]))?,
            inbox: RingBuffer::with_config(manager, "inbox", there, &RingConfig::new(4096).readers([here]))?,
            counter: AtomicVar::new(manager, "counter", there)?,
            ticket: TicketLock::new(manager, "ticket", there)?,
            tas: TasLock::new(manager, "tas", there)?,
            queue: SharedQueue::new(manager, "queue", there, 8)?,
            store: KvStore::new(manager, "store", KvConfig::default())?,
            end: Barrier::new(manager, "end")?,
        })
    }

    /// Waits for the other node.
    pub fn meet(&self, thread: &Thread<Fabric>) -> Result<()> {
        self.end.wait(thread)
    }
}

/// Checks that a call has found what it works with: else it costs less than it should.
fn found(there: bool) -> Result<()> {
    assert!(there, "a key is missing");
    Ok(())
}

/// Makes all calls: those that concern node 0 alone, and those that both nodes make.
pub fn calls(
    manager: &Manager<Fabric>,
    thread: &Thread<Fabric>,
    objects: &Objects,
    row: Row<'_>,
) -> Result<()> {
    let me = manager.node().0;
    if me == 1 {
        for key in THEIRS..THEIRS + 8 {
            assert_eq!(objects.store.insert(thread, &key, &1)?, loco::Inserted::Done);
        }
        objects.wide_theirs.store(thread, [1; 4])?;
        let mut writer = objects.inbox.writer()?;
        for n in 0..=CALLS {
            writer.submit(thread, &n.to_ne_bytes())?;
        }
    }
    objects.meet(thread)?;
    if me == 0 {
        of_one(thread, objects, row)?;
    }
    objects.meet(thread)?;
    of_both(me, thread, objects, row)?;
    objects.meet(thread)
}

/// Makes the calls that concern both nodes.
fn of_both(me: u16, thread: &Thread<Fabric>, objects: &Objects, row: Row<'_>) -> Result<()> {
    row("barrier: wait", &|_| objects.barrier.wait(thread))?;
    row("barrier: put, and wait", &|n| {
        let word = objects.region.target(NodeId(1 - me), 16)?;
        thread.put_inline_untracked(&n.to_ne_bytes(), word)?;
        objects.barrier.wait(thread)
    })?;
    row("barrier: wait_unfenced", &|_| {
        objects.barrier.wait_unfenced(thread)
    })?;
    row("collective: broadcast, at the root", &|n| {
        let mut collective = objects.collective.borrow_mut();
        collective.broadcast(thread, NodeId(0), n).map(drop)
    })?;
    row("collective: all_reduce", &|n| {
        let mut collective = objects.collective.borrow_mut();
        collective
            .all_reduce(thread, n, |sum, value| sum + value)
            .map(drop)
    })?;
    let mut reader = (me == 1).then(|| objects.ring.reader()).transpose()?;
    if let Some(reader) = &mut reader {
        // What node 0 has submitted before.
        for _ in 0..=CALLS {
            reader.receive(thread)?;
        }
    }
    let reader = RefCell::new(reader);
    let writer = RefCell::new((me == 0).then(|| objects.ring.writer()).transpose()?);
    row("ring-buffer: submit, and wait until read", &|n| {
        if let Some(reader) = &mut *reader.borrow_mut() {
            return reader.receive(thread).map(drop);
        }
        let mut writer = writer.borrow_mut();
        let Some(writer) = &mut *writer else { return Ok(()) };
        writer.submit(thread, &n.to_ne_bytes())?;
        writer.wait_until_read(thread)
    })
}

/// Makes the calls that concern node 0 alone.
fn of_one(thread: &Thread<Fabric>, objects: &Objects, add: Row<'_>) -> Result<()> {
    let there = NodeId(1);
    let word = || objects.region.target(there, 0);
    add("region: put, and a pair fence", &|n| {
        thread.put_inline_untracked(&n.to_ne_bytes(), word()?)?;
        fence::pair(thread, there)
    })?;
    let buffer = objects.region.local()?;
    add("region: get", &|_| {
        let dst = Local {
            memory: buffer,
            offset: 8,
            len: 8,
        };
        thread
            .raw()
            .post(&Operation::Get(dst, word()?), Flags::default())?
            .wait(thread)
    })?;
    add("shared-var: broadcast", &|n| {
        objects.var.write(n);
        objects.var.broadcast(thread)?.wait(thread)
    })?;
    add("owned-var: push", &|n| {
        objects.owned.store(n)?;
        objects.owned.push(thread)?.wait(thread)
    })?;
    add("owned-var: pull", &|_| objects.theirs.pull(thread).map(drop))?;
    add("wide-owned-var: push", &|n| {
        objects.wide.store(thread, [n; 4])?;
        objects.wide.push(thread)?.wait(thread)
    })?;
    add("wide-owned-var: pull", &|_| {
        objects.wide_theirs.pull(thread).map(drop)
    })?;
    add("sst: push", &|n| {
        objects.sst.store_mine(n)?;
        objects.sst.push(thread)?.wait(thread)
    })?;
    add("msw: put", &|n| {
        objects.msw.write(0, &[n.to_ne_bytes()[0]; 32])?;
        objects.msw.put(thread, 0, there, 0)?.wait(thread)
    })?;
    add("msw: get", &|_| {
        objects.msw.get(thread, 0, there, 0)?.wait(thread)
    })?;
    let writer = RefCell::new(objects.ring.writer()?);
    add("ring-buffer: submit", &|n| {
        writer.borrow_mut().submit(thread, &n.to_ne_bytes())
    })?;
    objects.ring.return_writer(writer.into_inner())?;
    let reader = RefCell::new(objects.inbox.reader()?);
    add("ring-buffer: receive", &|_| {
        reader.borrow_mut().receive(thread).map(drop)
    })?;
    add("atomic: fetch_add", &|n| {
        objects.counter.fetch_add(thread, n).map(drop)
    })?;
    add("atomic: read", &|_| objects.counter.read(thread).map(drop))?;
    add("atomic: write", &|n| objects.counter.write(thread, n))?;
    add("atomic: read, and compare_swap", &|n| {
        let now = objects.counter.read(thread)?;
        objects.counter.compare_swap(thread, now, n).map(drop)
    })?;
    add("ticket-lock: lock, put, release", &|n| {
        let guard = objects.ticket.lock(thread, Scope::Thread)?;
        thread.put_inline_untracked(&n.to_ne_bytes(), word()?)?;
        guard.release()
    })?;
    add("tas-lock: lock, put, release", &|n| {
        let guard = objects.tas.lock(thread, Scope::Thread)?;
        thread.put_inline_untracked(&n.to_ne_bytes(), word()?)?;
        guard.release()
    })?;
    add("queue: push", &|n| objects.queue.try_push(thread, n).map(drop))?;
    add("queue: pop", &|_| objects.queue.try_pop(thread).map(drop))?;
    add("kv: insert", &|n| objects.store.insert(thread, &n, &n).map(drop))?;
    add("kv: insert_many, 8 keys", &|n| {
        let entries: Vec<_> = (0..8).map(|i| (100 * (n + 1) + i, n)).collect();
        objects.store.insert_many(thread, &entries).map(drop)
    })?;
    add("kv: get", &|n| {
        found(objects.store.get(thread, &(THEIRS + n))?.is_some())
    })?;
    let keys: Vec<u64> = (THEIRS..THEIRS + 8).collect();
    add("kv: get_many, 8 keys", &|_| {
        let values = objects.store.get_many(thread, &keys)?;
        found(values.iter().all(Option::is_some))
    })?;
    add("kv: update", &|n| {
        found(objects.store.update(thread, &(THEIRS + n), &n)?)
    })?;
    add("kv: 8 update_start, and their waits", &|n| {
        let started: Vec<_> = keys
            .iter()
            .map(|key| objects.store.update_start(thread, key, &n))
            .collect::<Result<_>>()?;
        started.into_iter().try_for_each(|update| found(update.wait()?))
    })?;
    add("kv: update_many, 8 keys", &|n| {
        let entries: Vec<_> = keys.iter().map(|&key| (key, n)).collect();
        found(objects.store.update_many(thread, &entries)? == 8)
    })?;
    add("kv: delete", &|n| found(objects.store.delete(thread, &n)?))
}
