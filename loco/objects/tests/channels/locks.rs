//! Ticket lock and test-and-set lock: mutual exclusion among all threads of all nodes, what the holder did is visible
//! to the next one, waiters may give up, and a lost holder is noticed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::net::{Barrier, LockGuard, Manager, SharedRegion, TasLock, Thread, TicketLock};
use crate::common::{ALL, Cluster, Net, until_lost, wait_until};
use loco::fabric::{Memory as _, NodeId, WordCell as _};
use loco::fence::Scope;
use loco::{Error, LockConfig, OnLoss, Parent as _, Result, Unlock};
use loco_history::spec::{Lock, LockCall, LockRet};
use loco_history::{History, Limits, MonotonicClock, Recorder, ThreadId, check};

const HOME: NodeId = NodeId(0);

/// A lock of either kind. It lets each law be stated once.
trait AnyLock: Unlock<Net> + Sized + Sync {
    fn make(manager: &Manager<Net>, config: LockConfig) -> Result<Self>;
    fn lock<'a>(&'a self, thread: &'a Thread<Net>, scope: Scope) -> Result<LockGuard<'a, Self>>;
    fn try_lock<'a>(&'a self, thread: &'a Thread<Net>, scope: Scope) -> Result<Option<LockGuard<'a, Self>>>;
}

macro_rules! any_lock {
    ($($lock:ident),*) => {$(
        impl AnyLock for $lock<Net> {
            fn make(manager: &Manager<Net>, config: LockConfig) -> Result<Self> {
                $lock::with_config(manager, "lock", HOME, config)
            }
            fn lock<'a>(
                &'a self,
                thread: &'a Thread<Net>,
                scope: Scope,
            ) -> Result<LockGuard<'a, Self>> {
                self.lock(thread, scope)
            }
            fn try_lock<'a>(
                &'a self,
                thread: &'a Thread<Net>,
                scope: Scope,
            ) -> Result<Option<LockGuard<'a, Self>>> {
                self.try_lock(thread, scope)
            }
        }
    )*};
}
any_lock!(TicketLock, TasLock);

type Ticket = TicketLock<Net>;
type Tas = TasLock<Net>;

/// Each thread increments a word that lives on the last node, by get and put: an increment is lost if two threads are
/// inside at once, or if the one before has not been placed.
fn no_update_is_lost<L: AnyLock>(cluster: Cluster, nodes: usize, threads: usize, rounds: u64) {
    let totals = cluster.run(nodes, |manager| {
        let lock = L::make(&manager, LockConfig::default())?;
        let word = SharedRegion::new(&manager, "word", 8)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let at = manager.nodes()[nodes - 1];
        let histories = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|number| {
                    let (lock, word, manager) = (&lock, &word, &manager);
                    scope.spawn(move || increments(manager, lock, word, at, number, rounds))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            started.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        end.wait(&manager.thread()?)?;
        let mut total = [0; 8];
        word.read(0, &mut total)?;
        Ok((u64::from_ne_bytes(total), History::merge(histories)))
    });
    let expected = (nodes * threads) as u64 * rounds;
    assert_eq!(totals[nodes - 1].0, expected, "{cluster:?}");
    let history = History::merge(totals.into_iter().map(|(_, history)| history));
    let spec = Lock {
        spurious_failure: true,
        ..Lock::default()
    };
    let report = check(&spec, &history, &Limits::default());
    assert!(report.is_ok(), "{cluster:?}: {}", report.text());
}

fn increments<L: AnyLock>(
    manager: &Manager<Net>,
    lock: &L,
    word: &SharedRegion<Net>,
    at: NodeId,
    number: usize,
    rounds: u64,
) -> Result<History<LockCall, LockRet>> {
    let thread = manager.thread()?;
    let id = ThreadId {
        node: manager.node().0,
        thread: number as u16,
    };
    let owner = u32::from(id.node) * 100 + u32::from(id.thread);
    let mut recorder = Recorder::new(id, MonotonicClock);
    for round in 0..rounds {
        let mut tried = None;
        if round % 3 == 0 {
            let call = recorder.invoke(LockCall::TryAcquire { owner });
            tried = lock.try_lock(&thread, Scope::Pair(at))?;
            let result = if tried.is_some() {
                LockRet::Acquired
            } else {
                LockRet::Busy
            };
            recorder.respond(call, result);
        }
        let guard = match tried {
            Some(guard) => guard,
            None => {
                let call = recorder.invoke(LockCall::Acquire { owner });
                let guard = lock.lock(&thread, Scope::Pair(at))?;
                recorder.respond(call, LockRet::Acquired);
                guard
            }
        };
        let buffer = thread.mem_ref(8)?.get(word.target(at, 0)?)?.wait()?;
        buffer.set_word(0, buffer.word(0)? + 1)?;
        let _ = buffer.put(word.target(at, 0)?)?.wait()?;
        let call = recorder.invoke(LockCall::Release { owner });
        guard.release()?;
        recorder.respond(call, LockRet::Released);
    }
    Ok(recorder.finish())
}

#[test]
fn ticket_lock_loses_no_update() {
    for cluster in ALL {
        no_update_is_lost::<Ticket>(cluster, 3, 2, 40);
    }
}

#[test]
fn tas_lock_loses_no_update() {
    for cluster in ALL {
        no_update_is_lost::<Tas>(cluster, 3, 2, 40);
    }
}

#[test]
fn ticket_lock_of_one_thread_each() {
    no_update_is_lost::<Ticket>(Cluster::Synchronous, 2, 1, 5000);
    no_update_is_lost::<Ticket>(Cluster::Synchronous, 4, 1, 500);
}

/// A node's threads, however eager, hand the lock over a bounded number of times while another node waits.
#[test]
fn ticket_lock_is_fair_between_nodes() {
    let config = LockConfig::default().local_hand_overs_max(4);
    const TURNS: u64 = 200;
    let lines = Cluster::Synchronous.run(2, |manager| {
        let lock = Ticket::make(&manager, config)?;
        // The nodes that entered, in order: a counter, then the nodes.
        let book = SharedRegion::new(&manager, "book", 8 * 4096)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let me = manager.node();
        let threads = if me == HOME { 3 } else { 1 };
        bar.wait(&manager.thread()?)?;
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| -> Result<()> {
                        let thread = manager.thread()?;
                        for _ in 0..TURNS {
                            let guard = lock.lock(&thread, Scope::Pair(HOME))?;
                            let buffer = thread.mem_ref(8)?.get(book.target(HOME, 0)?)?.wait()?;
                            let count = buffer.word(0)?;
                            buffer.set_word(0, count + 1)?;
                            let buffer = buffer.put(book.target(HOME, 0)?)?.wait()?;
                            buffer.set_word(0, u64::from(me.0) + 1)?;
                            let place = 8 + 8 * count as usize;
                            let _ = buffer.put(book.target(HOME, place)?)?.wait()?;
                            guard.release()?;
                        }
                        Ok(())
                    })
                })
                .collect();
            started.into_iter().try_for_each(|t| t.join().expect("no panic"))
        })?;
        bar.wait(&manager.thread()?)?;
        let mut bytes = vec![0; 8 * 4096];
        book.read(0, &mut bytes)?;
        Ok(bytes.chunks(8).map(|w| w[0]).skip(1).collect::<Vec<u8>>())
    });
    let line = &lines[0];
    let first = line.iter().position(|&n| n == 2).expect("node 1 entered");
    let last = line.iter().rposition(|&n| n == 2).expect("node 1 entered");
    let longest = line[first..last]
        .split(|&n| n == 2)
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0);
    // While node 1 draws its next ticket node 0 may come round again, but a node that waits is next after one round:
    // so the median distance is bounded by a round, whatever the scheduler does to the thread in between.
    let mut runs: Vec<usize> = line[first..last].split(|&n| n == 2).map(<[u8]>::len).collect();
    runs.sort_unstable();
    assert!(
        runs[runs.len() / 2] <= 5,
        "median {}, longest {longest}",
        runs[runs.len() / 2]
    );
}

fn a_waiter_gives_up_and_comes_back<L: AnyLock>(cluster: Cluster) {
    cluster.run(2, |manager| {
        let lock = L::make(&manager, LockConfig::default())?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let holds = manager.node() == HOME;
        let guard = holds.then(|| lock.lock(&thread, Scope::Thread)).transpose()?;
        bar.wait(&thread)?;
        if !holds {
            assert!(lock.try_lock(&thread, Scope::Thread)?.is_none());
            for _ in 0..3 {
                thread.set_deadline(Some(thread.now().after(Duration::from_millis(10))));
                let error = lock.lock(&thread, Scope::Thread).err().expect("it is held");
                assert!(error.is_timeout(), "{error}");
            }
            thread.set_deadline(None);
        }
        bar.wait(&thread)?;
        drop(guard);
        bar.wait(&thread)?;
        // One gave up its place; nobody is stuck behind it, nor is it.
        for _ in 0..20 {
            lock.lock(&thread, Scope::Thread)?.release()?;
        }
        bar.wait(&thread)?;
        if holds {
            let guard = lock.try_lock(&thread, Scope::Thread)?.expect("it is free");
            assert!(!guard.recovered());
        }
        bar.wait(&thread)
    });
}

#[test]
fn a_waiter_of_a_ticket_lock_gives_up_and_comes_back() {
    for cluster in ALL {
        a_waiter_gives_up_and_comes_back::<Ticket>(cluster);
    }
}

#[test]
fn a_waiter_of_a_tas_lock_gives_up_and_comes_back() {
    for cluster in ALL {
        a_waiter_gives_up_and_comes_back::<Tas>(cluster);
    }
}

/// The barrier of the survivors; none on other nodes.
fn end_of(manager: &Manager<Net>, left: [u16; 2]) -> Result<Option<Barrier<Net>>> {
    let who = manager.among(left.map(NodeId));
    let barrier = || Barrier::new(&who, "end");
    left.contains(&manager.node().0).then(barrier).transpose()
}

fn leave(end: Option<Barrier<Net>>, thread: &Thread<Net>) -> Result<()> {
    end.map_or(Ok(()), |end| end.wait_unfenced(thread))
}

/// Node 2 dies with the lock, which node 1 asks for; node 0 comes later. That nobody times out shows that they hear of it
/// in bounded time.
fn a_lost_holder<L: AnyLock>(cluster: Cluster, on_loss: OnLoss) {
    let config = LockConfig::default().on_loss(on_loss);
    let asked = AtomicBool::new(false);
    let outcomes = cluster.run(3, |manager| {
        let lock = L::make(&manager, config)?;
        let bar = Barrier::new(&manager, "bar")?;
        let end = end_of(&manager, [0, 1])?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let me = manager.node();
        let guard = (me.0 == 2)
            .then(|| lock.lock(&thread, Scope::Thread))
            .transpose()?;
        bar.wait(&thread)?;
        if let Some(guard) = guard {
            loco::fence::thread(&thread)?;
            wait_until("node 1 asks for the lock", || asked.load(Ordering::SeqCst));
            manager.fabric().mesh().fail();
            std::mem::forget(guard);
            return Ok(None);
        }
        if me == HOME {
            until_lost(&manager, NodeId(2));
        }
        asked.store(true, Ordering::SeqCst);
        let outcome = lock.lock(&thread, Scope::Nothing).and_then(|guard| {
            let recovered = guard.recovered();
            guard.release()?;
            Ok(recovered)
        });
        // And again: the policy holds for everybody who comes later.
        let again = lock.lock(&thread, Scope::Nothing).map(|guard| guard.recovered());
        leave(end, &thread)?;
        Ok(Some((outcome, again)))
    });
    let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
    match on_loss {
        OnLoss::Poison => {
            for (first, again) in &outcomes {
                for outcome in [first, again] {
                    let lost = matches!(outcome, Err(Error::HolderLost { node: NodeId(2), .. }));
                    assert!(lost, "{cluster:?}: {outcome:?}");
                }
            }
        }
        OnLoss::Recover => {
            let told = outcomes.iter().filter(|(first, _)| first == &Ok(true)).count();
            assert_eq!(
                told, 1,
                "exactly the next holder is told: {cluster:?} {outcomes:?}"
            );
            for (first, again) in &outcomes {
                assert!(first.is_ok(), "{cluster:?}: {first:?}");
                assert_eq!(again, &Ok(false), "{cluster:?}");
            }
        }
    }
}

#[test]
fn a_lost_holder_of_a_ticket_lock() {
    for cluster in ALL {
        a_lost_holder::<Ticket>(cluster, OnLoss::Poison);
        a_lost_holder::<Ticket>(cluster, OnLoss::Recover);
    }
}

#[test]
fn a_lost_holder_of_a_tas_lock() {
    for cluster in ALL {
        a_lost_holder::<Tas>(cluster, OnLoss::Poison);
        a_lost_holder::<Tas>(cluster, OnLoss::Recover);
    }
}

/// Returns true if the holder of the second ticket waits for a lock whose home is this node. It has written then into its slot,
/// which is the third word: the first counts tickets, and each ticket has a slot. Whoever is lost before that counts as a holder.
fn second_waits(lock: &Ticket) -> Result<bool> {
    Ok(lock.channel().region("words")?.local()?.cell::<u64>(16)?.load() != 0)
}

/// A node that only waited when it was lost is passed over.
#[test]
fn a_lost_waiter_of_a_ticket_lock() {
    for cluster in ALL {
        // Node 1 is in line behind node 0.
        let in_line = AtomicBool::new(false);
        let until_in_line = || wait_until("node 1 is told to be in line", || in_line.load(Ordering::SeqCst));
        cluster.run(3, |manager| {
            let lock = Ticket::make(&manager, LockConfig::default())?;
            let bar = Barrier::new(&manager, "bar")?;
            let end = end_of(&manager, [0, 2])?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = manager.node();
            let guard = (me == HOME)
                .then(|| lock.lock(&thread, Scope::Nothing))
                .transpose()?;
            bar.wait(&thread)?;
            match me.0 {
                0 => {
                    wait_until("node 1 waits", || second_waits(&lock) == Ok(true));
                    in_line.store(true, Ordering::SeqCst);
                    until_lost(&manager, NodeId(1));
                    guard.expect("node 0 holds it").release()?;
                    lock.lock(&thread, Scope::Nothing)?.release()?;
                }
                1 => {
                    // Gone once it is in line. Here the lost one is a thread that goes on, so its call must end.
                    thread.set_deadline(Some(thread.now().after(Duration::from_secs(2))));
                    std::thread::scope(|scope| {
                        scope.spawn(|| {
                            until_in_line();
                            manager.fabric().mesh().fail();
                        });
                        let outcome = lock.lock(&thread, Scope::Thread).map(drop);
                        assert!(outcome.is_err(), "{cluster:?}");
                    });
                }
                _ => {
                    until_in_line();
                    lock.lock(&thread, Scope::Nothing)?.release()?;
                }
            }
            leave(end, &thread)
        });
    }
}

/// Sections of several threads run under one acquisition, each exactly once.
#[test]
fn combining_runs_every_section_once() {
    for cluster in ALL {
        let totals = cluster.run(2, |manager| {
            let lock = Tas::make(&manager, LockConfig::default())?;
            let word = std::sync::Arc::new(SharedRegion::new(&manager, "word", 8)?);
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            std::thread::scope(|scope| {
                let started: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| -> Result<()> {
                            let thread = manager.thread()?;
                            for _ in 0..50 {
                                let word = word.clone();
                                let section = move |thread: &Thread<Net>| -> Result<()> {
                                    let buffer = thread.mem_ref(8)?.get(word.target(HOME, 0)?)?.wait()?;
                                    buffer.set_word(0, buffer.word(0)? + 1)?;
                                    // Sections of one acquisition see one another's puts: same thread, fenced.
                                    let _ = buffer.put(word.target(HOME, 0)?)?.wait()?;
                                    loco::fence::pair(thread, HOME)
                                };
                                lock.combine(&thread, Scope::Pair(HOME), section)??;
                            }
                            Ok(())
                        })
                    })
                    .collect();
                started.into_iter().try_for_each(|t| t.join().expect("no panic"))
            })?;
            end.wait(&manager.thread()?)?;
            let mut total = [0; 8];
            word.read(0, &mut total)?;
            Ok(u64::from_ne_bytes(total))
        });
        assert_eq!(totals[0], 300, "{cluster:?}");
    }
}
