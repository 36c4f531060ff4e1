//! Steps that fail in the middle of calls: registered memory that runs out, and puts and gets that fail. After the failure every
//! object works for all nodes.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::common::{PATIENCE, Shared, run_on_shm, wait_until};
use crate::counting::{Counting, Counts};
use crate::failing::Faults;
use loco::fabric::{NodeId, ShmConfig, Tier};
use loco::fence::{self, Scope};
use loco::{
    AtomicVar, Barrier, Collective, Config, ErrorKind, Inserted, KvConfig, KvStore, Manager, MemRef, Msw,
    Parent as _, Popped, Result, RingBuffer, RingConfig, RingReader, SharedQueue, SharedRegion, TasLock,
    Thread, TicketLock, WideOwnedVar,
};
use loco_test_networks::deferred::Nic;

type Fabric = Counting<Shared>;
/// A value that is longer than the block of a thread's pool.
type Long = [u64; 200];

/// The bytes of a block: as few as there can be, so that a thread's pool is soon empty.
const BLOCK_BYTES: usize = 64;

fn config() -> Config {
    Config::default().deadline(PATIENCE).block_bytes(BLOCK_BYTES)
}

/// Runs `node` on `n` nodes with a network card that takes its time, so that operations need memory, and that keeps no order.
fn run<T: Send>(n: usize, node: impl Fn(Manager<Fabric>, &Faults) -> Result<T> + Sync) -> Vec<T> {
    let nic = Nic::deferred(1).tier(Tier::Unordered);
    run_on_shm(n, &ShmConfig::default(), Some(&nic), |inner| {
        let counts = Arc::new(Counts::default());
        let fabric = Counting {
            inner,
            counts: counts.clone(),
        };
        node(Manager::with_config(fabric, config())?, &counts.faults)
    })
}

/// One object of each kind, and what it must hold.
struct Kit {
    queue: SharedQueue<u64, Fabric>,
    long: SharedQueue<Long, Fabric>,
    ticket: TicketLock<Fabric>,
    tas: TasLock<Fabric>,
    counter: AtomicVar<u64, Fabric>,
    wide: WideOwnedVar<Long, Fabric>,
    msw: Msw<Fabric>,
    ring: RingBuffer<Fabric>,
    store: KvStore<u64, Long, Fabric>,
    barrier: Barrier<Fabric>,
    collective: Collective<Long, Fabric>,
}

impl Kit {
    fn new(manager: &Manager<Fabric>) -> Result<Kit> {
        // Words live on the other node, so that the calls of node 0 go over the network.
        let home = manager.nodes()[1];
        let kv = KvConfig::default()
            .slots_per_node(64)
            .value_bytes_max(size_of::<Long>())
            .locks(2);
        // Every put of the ring is read from registered memory.
        let ring = RingConfig::new(1 << 14).inline(false);
        Ok(Kit {
            queue: SharedQueue::new(manager, "queue", home, 4)?,
            long: SharedQueue::new(manager, "long", home, 4)?,
            ticket: TicketLock::new(manager, "ticket", home)?,
            tas: TasLock::new(manager, "tas", home)?,
            counter: AtomicVar::new(manager, "counter", home)?,
            wide: WideOwnedVar::new(manager, "wide", manager.nodes()[0])?,
            msw: Msw::new(manager, "msw", &[1000])?,
            ring: RingBuffer::with_config(manager, "ring", manager.nodes()[0], &ring)?,
            store: KvStore::new(manager, "store", kv)?,
            barrier: Barrier::new(manager, "barrier")?,
            collective: Collective::new(manager, "collective")?,
        })
    }
}

/// The effects of the calls that succeeded.
#[derive(Debug, Default)]
struct Done {
    pushed: u64,
    pushed_long: u64,
    added: u64,
    submitted: u64,
    gathered: bool,
    arrived: bool,
    inserted: bool,
}

/// Fails the test unless the call succeeded or found no memory.
fn may_lack_memory<T>(what: &str, call: Result<T>) -> Option<T> {
    match call {
        Ok(value) => Some(value),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{what}: {error}");
            None
        }
    }
}

/// Makes each call once, on node 0. Calls may find no memory.
fn attempt(kit: &mut Kit, writer: &mut loco::RingWriter<Fabric>, thread: &Thread<Fabric>) -> Done {
    let mut done = Done::default();
    let key = 1;
    let pushed = may_lack_memory("push", kit.queue.try_push(thread, 7));
    done.pushed += u64::from(pushed.is_some_and(|pushed| pushed.is_done()));
    let pushed = may_lack_memory("push of long", kit.long.push(thread, [7; 200]));
    done.pushed_long += u64::from(pushed.is_some_and(|pushed| pushed.is_done()));
    match may_lack_memory("pop", kit.queue.try_pop(thread)) {
        Some(Popped::Value(7)) => done.pushed -= 1,
        Some(Popped::Empty) => assert_eq!(done.pushed, 0),
        None => {}
        other => panic!("popped {other:?}"),
    }
    match may_lack_memory("pop of long", kit.long.try_pop(thread)) {
        Some(Popped::Value(value)) => {
            assert_eq!(value, [7; 200]);
            done.pushed_long -= 1;
        }
        Some(Popped::Empty) => assert_eq!(done.pushed_long, 0),
        None => {}
        Some(Popped::Closed) => panic!("nobody closes it"),
    }
    if let Some(guard) = may_lack_memory("ticket lock", kit.ticket.lock(thread, Scope::Thread)) {
        guard
            .release()
            .expect("a lock that is held can be released without memory");
    }
    match may_lack_memory("try ticket lock", kit.ticket.try_lock(thread, Scope::Thread)) {
        Some(Some(guard)) => guard.release().expect("as above"),
        Some(None) => panic!("nobody else wants it"),
        None => {}
    }
    if let Some(guard) = may_lack_memory("tas lock", kit.tas.lock(thread, Scope::Thread)) {
        // The holder takes all blocks that are left.
        let hogs: Vec<MemRef<'_, Fabric>> = std::iter::from_fn(|| thread.mem_ref(8).ok()).take(64).collect();
        guard.release().expect("as above");
        drop(hogs);
    }
    may_lack_memory("combine", kit.tas.combine(thread, Scope::Thread, |_| ()));
    done.added += u64::from(may_lack_memory("add", kit.counter.fetch_add(thread, 1)).is_some());
    may_lack_memory("read", kit.counter.read(thread));
    may_lack_memory("store", kit.wide.store(thread, [3; 200]));
    may_lack_memory("push of wide", kit.wide.push(thread)).map(|key| key.wait(thread));
    may_lack_memory("put", kit.msw.put(thread, 0, NodeId(1), 0)).map(|key| key.wait(thread));
    may_lack_memory("get", kit.msw.get(thread, 0, NodeId(1), 0)).map(|key| key.wait(thread));
    let submitted = may_lack_memory("submit", writer.submit(thread, &[5; 300]));
    done.submitted += u64::from(submitted.is_some());
    let inserted = may_lack_memory("insert", kit.store.insert(thread, &key, &[1; 200]));
    assert!(matches!(inserted, None | Some(Inserted::Done)), "{inserted:?}");
    done.inserted = inserted.is_some();
    if let Some(updated) = may_lack_memory("update", kit.store.update(thread, &key, &[2; 200])) {
        assert_eq!(updated, done.inserted);
    }
    let found = may_lack_memory("get", kit.store.get(thread, &key)).flatten();
    assert!(found.is_none() || done.inserted);
    if let Some(deleted) = may_lack_memory("delete", kit.store.delete(thread, &key)) {
        assert_eq!(deleted, done.inserted);
        done.inserted = false;
    }
    done.gathered = may_lack_memory("gather", kit.collective.gather(thread, NodeId(1), [4; 200])).is_some();
    done.arrived = may_lack_memory("barrier", kit.barrier.wait(thread)).is_some();
    done
}

/// Uses everything on this node, while the other node does the same.
fn use_all(
    kit: &mut Kit,
    thread: &Thread<Fabric>,
    reader: Option<&mut RingReader<Fabric>>,
    writer: Option<&mut loco::RingWriter<Fabric>>,
) -> Result<()> {
    let me = u64::from(thread.node_id().0) + 1;
    for lock in 0..20 {
        if lock % 2 == 0 {
            kit.ticket.lock(thread, Scope::Thread)?.release()?;
            kit.tas.combine(thread, Scope::Thread, |_| ())?;
        } else {
            kit.tas.lock(thread, Scope::Thread)?.release()?;
        }
    }
    for i in 0..10 {
        assert!(kit.queue.push(thread, i)?.is_done());
        assert!(matches!(kit.queue.pop(thread)?, Popped::Value(_)));
        assert!(kit.long.push(thread, [i; 200])?.is_done());
        assert!(matches!(kit.long.pop(thread)?, Popped::Value(_)));
    }
    assert_eq!(kit.store.insert(thread, &(100 + me), &[me; 200])?, Inserted::Done);
    kit.barrier.wait(thread)?;
    for node in [1, 2] {
        assert_eq!(kit.store.get(thread, &(100 + node))?, Some([node; 200]));
    }
    kit.barrier.wait(thread)?;
    assert!(kit.store.delete(thread, &(100 + me))?);
    if let Some(writer) = writer {
        writer.submit(thread, b"the last one")?;
        writer.wait_until_read(thread)?;
        kit.wide.store(thread, [9; 200])?;
        kit.wide.push(thread)?.wait(thread)?;
    }
    if let Some(reader) = reader {
        while reader.receive(thread)? != b"the last one" {}
    }
    let all = kit.collective.all_gather(thread, [me; 200])?;
    assert_eq!(all, [[1; 200], [2; 200]]);
    kit.barrier.wait(thread)?;
    assert_eq!(kit.wide.pull(thread)?, [9; 200]);
    kit.barrier.wait(thread)
}

/// Node 0 makes every call while memory lacks: with `free` blocks left to its thread, and from the `left`-th allocation on.
/// Returns how many allocations failed.
fn lacks_memory(free: usize, left: i64) -> u64 {
    let failed = run(2, |manager, faults| {
        let mut kit = Kit::new(&manager)?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() != NodeId(0) {
            let mut reader = kit.ring.reader()?;
            kit.collective.gather(&thread, NodeId(1), [0; 200])?;
            kit.barrier.wait(&thread)?;
            // Node 0 has looked at what its calls left.
            kit.barrier.wait(&thread)?;
            use_all(&mut kit, &thread, Some(&mut reader), None)?;
            assert!(kit.queue.try_pop(&thread)?.value().is_none());
            kit.barrier.wait(&thread)?;
            return Ok(0);
        }
        let mut writer = kit.ring.writer()?;
        // The pool takes 16 blocks at a time.
        let hogs: Vec<_> = (0..16 - free)
            .map(|_| thread.mem_ref(BLOCK_BYTES))
            .collect::<Result<_>>()?;
        let mut done = Done::default();
        let failed = faults.without_memory(left, || done = attempt(&mut kit, &mut writer, &thread));
        drop(hogs);
        // A call of all nodes that failed has not ended for this node.
        if !done.gathered {
            kit.collective.gather(&thread, NodeId(1), [4; 200])?;
        }
        if !done.arrived {
            kit.barrier.wait(&thread)?;
        }
        // The queues hold what was pushed and not popped, and nothing else.
        let count = |mut popped: Box<dyn FnMut() -> Result<bool> + '_>| -> Result<u64> {
            let mut count = 0;
            while popped()? {
                count += 1;
            }
            Ok(count)
        };
        assert_eq!(
            count(Box::new(|| Ok(kit.queue.try_pop(&thread)?.value().is_some())))?,
            done.pushed
        );
        assert_eq!(
            count(Box::new(|| Ok(kit.long.try_pop(&thread)?.value().is_some())))?,
            done.pushed_long
        );
        assert_eq!(kit.counter.read(&thread)?, done.added);
        assert_eq!(kit.store.get(&thread, &1)?.is_some(), done.inserted);
        // Only now does node 1 use the objects, too.
        kit.barrier.wait(&thread)?;
        use_all(&mut kit, &thread, None, Some(&mut writer))?;
        kit.barrier.wait(&thread)?;
        Ok(failed)
    });
    failed[0]
}

#[test]
fn after_memory_lacked_every_object_works_for_all_nodes() {
    let mut failures = 0;
    for free in [0, 1, 2, 3, 16] {
        for left in 0.. {
            let failed = lacks_memory(free, left);
            failures += failed;
            if failed == 0 {
                break;
            }
            assert!(left < 100, "memory still lacks after {left} allocations");
        }
    }
    assert!(failures > 0);
}

/// Values of more than a block, with the node's memory in other hands: the queue is of use again when there is some.
#[test]
fn a_push_without_memory_leaves_the_queue_usable() {
    run(2, |manager, faults| {
        let queue = SharedQueue::<Long, Fabric>::new(&manager, "q", manager.nodes()[1], 2)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            let failed = faults.without_memory(1, || {
                let error = queue.push(&thread, [1; 200]).expect_err("there is no memory");
                assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
            });
            assert_eq!(failed, 1);
            for i in 0..5 {
                assert!(queue.push(&thread, [i; 200])?.is_done());
            }
        } else {
            for i in 0..5 {
                assert_eq!(queue.pop(&thread)?, Popped::Value([i; 200]));
            }
        }
        end.wait(&thread)
    });
}

/// A put longer than a block that was abandoned takes its memory only until it has ended.
#[test]
fn abandoned_buffers_come_back() {
    let shm = ShmConfig::default()
        .arena_bytes(24 << 20)
        .memory_limit_bytes(24 << 20);
    run_on_shm(2, &shm, Some(&Nic::deferred(1)), |fabric| {
        let manager = Manager::new(fabric)?;
        let region = SharedRegion::new(&manager, "r", 1 << 20)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let other = manager.nodes()[1 - usize::from(manager.node().0)];
        for _ in 0..100 {
            drop(thread.mem_ref(1 << 20)?.put(region.target(other, 0)?)?);
            // Now it has ended for certain.
            fence::thread(&thread)?;
        }
        // Other users of the memory find it too: a fence frees what has ended.
        drop(thread.mem_ref(16 << 20)?.put(region.target(other, 0)?));
        drop(thread.mem_ref(1 << 20)?.put(region.target(other, 0)?)?);
        fence::thread(&thread)?;
        let hog = manager.thread()?;
        drop(hog.mem_ref(18 << 20)?);
        // A thread that goes leaves nothing behind, either.
        let left = hog.mem_ref(18 << 20)?.get(loco::fabric::Target {
            remote: region.target(other, 0)?.remote,
            offset: 0,
        });
        assert!(left.is_err(), "longer than the region");
        drop(left);
        drop(hog);
        drop(thread.mem_ref(18 << 20)?);
        end.wait(&thread)
    });
}

/// Acknowledgements of a live node fail for a while. Its monitor tries them again, and inserts and deletes go on.
#[test]
fn a_monitor_whose_acknowledgements_fail_tries_again() {
    run(2, |manager, faults| {
        let store = KvStore::<u64, u64, Fabric>::new(&manager, "kv", KvConfig::default())?;
        let barrier = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        for round in 0..3 {
            if manager.node() == NodeId(1) {
                faults.monitor_puts.store(5, SeqCst);
            }
            barrier.wait(&thread)?;
            if manager.node() == NodeId(0) {
                assert_eq!(store.insert(&thread, &round, &1)?, Inserted::Done);
                assert!(store.delete(&thread, &round)?);
            }
            barrier.wait(&thread)?;
            assert_eq!(faults.monitor_puts.load(SeqCst), 0, "the failures have happened");
        }
        barrier.wait(&thread)
    });
}

/// The program's key type panics on the monitor of node 1. Everybody's inserts fail and say so; nobody runs into a deadline.
#[test]
fn a_monitor_that_fails_for_good_is_an_error_of_every_insert() {
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Fussy([u8; 1]);
    impl loco::Encode for Fussy {
        const BYTES: Option<usize> = Some(1);
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn from_bytes(bytes: &[u8]) -> Option<Fussy> {
            assert_ne!(bytes, [7], "a key's own fault");
            Some(Fussy(bytes.try_into().ok()?))
        }
    }
    run(2, |manager, _| {
        let store = KvStore::<Fussy, u64, Fabric>::new(&manager, "kv", KvConfig::default())?;
        let barrier = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            assert_eq!(store.insert(&thread, &Fussy([1]), &1)?, Inserted::Done);
            for key in [7, 8] {
                let error = store
                    .insert(&thread, &Fussy([key]), &1)
                    .expect_err("node 1 applies nothing");
                assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                assert!(error.to_string().contains("node 1"), "{error}");
            }
            // What was there can still be read.
            assert_eq!(store.get(&thread, &Fussy([1]))?, Some(1));
        }
        barrier.wait(&thread)?;
        if manager.node() == NodeId(1) {
            wait_until("the monitor's end", || {
                store.insert(&thread, &Fussy([9]), &1).is_err()
            });
            let error = store
                .insert(&thread, &Fussy([9]), &1)
                .expect_err("the monitor has failed");
            assert_eq!(error.kind(), ErrorKind::Panicked, "{error}");
            assert!(error.to_string().contains("a key's own fault"), "{error}");
        }
        barrier.wait(&thread)
    });
}

/// A node is lost, and what another one announces of that fails for a while. Its monitor tries again, and writes go on, as do lookups
/// in the copies that are left.
#[test]
fn a_monitor_whose_announcements_of_a_loss_fail_tries_again() {
    run(4, |manager, faults| {
        let config = KvConfig::default().slots_per_node(4).copies(2);
        let store = KvStore::<u64, u64, Fabric>::new(&manager, "kv", config)?;
        let barrier = Barrier::new(&manager, "bar")?;
        let victim = NodeId(3);
        let left = manager.among([0, 1, 2].map(NodeId));
        let end = match manager.node() == victim {
            true => None,
            false => Some(Barrier::new(&left, "end")?),
        };
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let here = u64::from(manager.node().0);
        assert_eq!(store.insert(&thread, &here, &here)?, Inserted::Done);
        barrier.wait(&thread)?;
        // Nobody inserts or deletes any more, so all that monitors put is about the loss.
        if manager.node() == NodeId(1) {
            faults.monitor_puts.store(5, SeqCst);
        }
        barrier.wait(&thread)?;
        let Some(end) = end else {
            // Its arrival has reached everybody.
            fence::thread(&thread)?;
            manager.fabric().inner.mesh().fail();
            return Ok(());
        };
        wait_until("the loss", || {
            use loco::fabric::{Control, Fabric};
            manager.fabric().control().is_gone(victim)
        });
        for key in [here, 3] {
            assert_eq!(store.get(&thread, &key)?, Some(key));
        }
        assert!(store.update(&thread, &here, &(here + 10))?);
        end.wait_unfenced(&thread)?;
        assert_eq!(faults.monitor_puts.load(SeqCst), 0, "the failures have happened");
        assert_eq!(store.get(&thread, &here)?, Some(here + 10));
        end.wait_unfenced(&thread)
    });
}

/// A holder's get from the home of its lock fails, and nobody waits for it. The release says so, once, and the lock is free.
#[test]
fn a_release_tells_of_a_failed_get_that_nobody_waited_for() {
    for scope in [Scope::Pair(NodeId(1)), Scope::Thread] {
        run(3, |manager, faults| {
            let lock = TicketLock::new(&manager, "lock", NodeId(1))?;
            let region = SharedRegion::new(&manager, "data", 8)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            lock.lock(&thread, scope)?.release()?;
            bar.wait(&thread)?;
            if manager.node() == NodeId(0) {
                let guard = lock.lock(&thread, scope)?;
                faults.gets.store(1, SeqCst);
                let get = thread.mem_ref(8)?.get(region.target(NodeId(1), 0)?)?;
                let key = get.key();
                drop(get);
                // It has failed before the release asks.
                while !key.query() {
                    thread.mem_ref(8)?.get(region.target(NodeId(2), 0)?)?.wait()?;
                }
                key.forget();
                let error = guard.release().expect_err("the get has failed");
                assert!(error.to_string().contains("as told"), "{scope:?}: {error}");
                lock.lock(&thread, scope)?.release()?;
            }
            bar.wait(&thread)?;
            lock.lock(&thread, scope)?.release()?;
            bar.wait(&thread)
        });
    }
}

/// The look at the slots fails in the batch that draws a ticket. The ticket is claimed all the same: the caller gets the lock, and
/// so does the next one.
#[test]
fn a_ticket_is_claimed_though_the_look_at_its_slot_failed() {
    run(2, |manager, faults| {
        let home = NodeId(1);
        let lock = TicketLock::new(&manager, "lock", home)?;
        let config = KvConfig::default().slots_per_node(64).locks(2);
        let store = KvStore::<u64, u64, Fabric>::new(&manager, "kv", config)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        lock.lock(&thread, Scope::Thread)?.release()?;
        bar.wait(&thread)?;
        if manager.node() == NodeId(0) {
            faults.gets.store(1, SeqCst);
            lock.lock(&thread, Scope::Thread)?.release()?;
            assert_eq!(faults.failed.load(SeqCst), 1, "the look has failed");
            // Enough keys for both locks, one of which is on the other node.
            let entries: Vec<(u64, u64)> = (0..16).map(|key| (key, key)).collect();
            faults.gets.store(1, SeqCst);
            let inserted = store.insert_many(&thread, &entries)?;
            assert_eq!(inserted, [Inserted::Done; 16]);
            assert_eq!(faults.failed.load(SeqCst), 2, "the look has failed");
        }
        bar.wait(&thread)?;
        lock.lock(&thread, Scope::Thread)?.release()?;
        for key in 0..16 {
            assert!(store.update(&thread, &key, &(key + 1))?);
        }
        bar.wait(&thread)
    });
}
