//! The asynchronous forms of objects: on every kind of executor and every fabric, who is woken and how often, what a future
//! that is dropped leaves behind, and what the loss of a node does.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::alarm::Alarm;
use crate::common::net::{AsyncThread, Driver, RingSink, RingStream};
use crate::common::net::{
    Barrier, KvStore, LockGuard, Manager, RingBuffer, SharedQueue, SharedRegion, SharedVar, TasLock, Thread,
    TicketLock,
};
use crate::common::{ALL, Cluster, PATIENCE, wait_until};
use loco::asynchronous::Async;
use loco::fabric::{NodeId, Time};
use loco::fence::Scope;
use loco::{Config, Inserted, KvConfig, Parent as _, Participants, Popped, Pushed, Result, fence};

const HOME: NodeId = NodeId(0);

/// The executor that polls futures.
#[derive(Clone, Copy, Debug)]
enum Executor {
    /// Polls one future, and parks its thread in between.
    Bare,
    /// Tokio on the calling thread.
    Current,
    /// Tokio on two threads, between which tasks move.
    Multi,
}

impl Executor {
    fn run<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> T {
        let mut tokio = match self {
            Executor::Bare => return pollster::block_on(future),
            Executor::Current => tokio::runtime::Builder::new_current_thread(),
            Executor::Multi => tokio::runtime::Builder::new_multi_thread(),
        };
        let tokio = tokio.worker_threads(2).build().expect("a runtime");
        tokio.block_on(async { tokio.spawn(future).await.expect("no panic") })
    }
}

/// One object of each kind, on one node.
struct Kit {
    node: NodeId,
    barrier: Async<Barrier>,
    ticket: Async<TicketLock>,
    tas: Async<TasLock>,
    word: Arc<SharedRegion>,
    ring: RingBuffer,
    queue: Async<SharedQueue<u64>>,
    store: Async<KvStore<u64, u64>>,
    driver: Driver,
    thread: AsyncThread,
}

impl Kit {
    /// Needs two nodes.
    fn new(manager: &Manager) -> Result<Kit> {
        let config = KvConfig::default().slots_per_node(64).locks(4).tracker_bytes(512);
        let kit = (
            Async::new(Barrier::new(manager, "barrier")?),
            Async::new(TicketLock::new(manager, "ticket", HOME)?),
            Async::new(TasLock::new(manager, "tas", HOME)?),
            Arc::new(SharedRegion::new(manager, "word", 8)?),
            RingBuffer::new(manager, "ring", HOME, 64)?,
            Async::new(SharedQueue::new(manager, "queue", HOME, 2)?),
            Async::new(KvStore::new(manager, "store", config)?),
        );
        manager.wait_for_ready()?;
        let driver = Driver::new(manager)?;
        let (barrier, ticket, tas, word, ring, queue, store) = kit;
        Ok(Kit {
            node: manager.node(),
            barrier,
            ticket,
            tas,
            word,
            ring,
            queue,
            store,
            thread: driver.thread()?,
            driver,
        })
    }

    /// Adds 1 to the word at the home by reading and writing it, which only a lock makes atomic.
    async fn increment(&self) -> Result<()> {
        let word = self.word.clone();
        let value = self
            .thread
            .call(move |thread| thread.read_word(word.target(HOME, 0)?))
            .await?;
        let word = self.word.clone();
        let put = self
            .thread
            .with(move |thread| thread.put_inline(&(value + 1).to_ne_bytes(), word.target(HOME, 0)?));
        put.await?.await
    }

    /// Uses every object, together with the other node.
    async fn tour(self) -> Result<()> {
        let thread = &self.thread;
        for _ in 0..20 {
            let guard = self.ticket.lock(thread, Scope::Pair(HOME)).await?;
            self.increment().await?;
            guard.release().await?;
        }
        self.barrier.wait(thread).await?;
        for _ in 0..20 {
            let guard = self.tas.lock(thread, Scope::Pair(HOME)).await?;
            self.increment().await?;
            drop(guard);
        }
        self.barrier.wait(thread).await?;
        if self.node == HOME {
            let mut word = [0; 8];
            self.word.read(0, &mut word)?;
            assert_eq!(u64::from_ne_bytes(word), 80);
        }

        let text = |i: u64| format!("message {i}").into_bytes();
        if self.node == HOME {
            let mut sink = RingSink::new(self.ring.writer()?, thread);
            for i in 0..50 {
                sink.submit(text(i)).await?;
            }
            sink.wait_until_read().await?;
            for i in 1..=20 {
                assert_eq!(self.queue.push(thread, i).await?, Pushed::Done);
            }
            let queue = self.queue.clone();
            thread.call(move |thread| queue.close(thread)).await?;
            assert_eq!(self.store.insert(thread, 7, 70).await?, Inserted::Done);
            assert_eq!(self.store.insert(thread, 7, 71).await?, Inserted::Duplicate);
        } else {
            let mut stream = RingStream::new(self.ring.reader()?, thread);
            for i in 0..50 {
                assert_eq!(stream.next().await.transpose()?, Some(text(i)));
            }
            let mut sum = 0;
            while let Popped::Value(value) = self.queue.pop(thread).await? {
                sum += value;
            }
            assert_eq!(sum, 210);
        }
        self.barrier.wait(thread).await?;
        if self.node != HOME {
            assert_eq!(self.store.get(thread, 7).await?, Some(70));
            assert_eq!(self.store.get(thread, 8).await?, None);
            assert!(self.store.update(thread, 7, 72).await?);
        }
        self.barrier.wait(thread).await?;
        if self.node == HOME {
            assert_eq!(self.store.get(thread, 7).await?, Some(72));
            assert!(self.store.delete(thread, 7).await?);
            assert!(!self.store.update(thread, 7, 73).await?);
        }
        thread.fence(Scope::Thread).await?;
        self.barrier.wait_unfenced(thread).await
    }
}

#[test]
fn every_object_can_be_awaited_on_every_executor() {
    for executor in [Executor::Bare, Executor::Current, Executor::Multi] {
        Cluster::Synchronous.run(2, |manager| executor.run(Kit::new(&manager)?.tour()));
    }
}

#[test]
fn every_object_can_be_awaited_on_every_fabric() {
    for cluster in ALL {
        cluster.run(2, |manager| Executor::Multi.run(Kit::new(&manager)?.tour()));
    }
}

fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>, alarm: &Arc<Alarm>) -> Poll<T> {
    let waker = Waker::from(alarm.clone());
    future.poll(&mut Context::from_waker(&waker))
}

/// Has the driver of this node wait many times, for the other node, which does the same: whatever else it looks at
/// meanwhile it has looked at many times.
fn busy_driver(kit: &Kit) -> Result<()> {
    let thread = kit.driver.thread()?;
    pollster::block_on(async {
        for _ in 0..200 {
            kit.barrier.wait(&thread).await?;
        }
        Ok(())
    })
}

/// Node 1 waits in `waiting`, which `event` of node 0 ends.
fn is_woken_once<T>(
    what: &str,
    cluster: Cluster,
    waiting: impl AsyncFn(&Kit) -> Result<T> + Sync,
    event: impl Fn(&Kit, &Manager) -> Result<()> + Sync,
) {
    cluster.run(2, |manager| {
        let kit = Kit::new(&manager)?;
        if manager.node() == HOME {
            busy_driver(&kit)?;
            busy_driver(&kit)?;
            event(&kit, &manager)?;
        } else {
            let alarm = Alarm::new();
            let mut future = pin!(waiting(&kit));
            assert!(poll(future.as_mut(), &alarm).is_pending(), "{what}");
            busy_driver(&kit)?;
            assert_eq!(alarm.rung(), 0, "{what}: nothing has happened");
            busy_driver(&kit)?;
            alarm.wait(1);
            match poll(future.as_mut(), &alarm) {
                Poll::Ready(outcome) => drop(outcome?),
                Poll::Pending => panic!("{what}: woken in vain"),
            }
            assert_eq!(alarm.rung(), 1, "{what}");
        }
        pollster::block_on(kit.barrier.wait(&kit.thread))
    });
}

#[test]
fn a_task_is_woken_by_its_event_and_by_nothing_else() {
    for cluster in [Cluster::Synchronous, Cluster::Deferred(5), Cluster::Deferred(6)] {
        is_woken_once(
            "a message",
            cluster,
            async |kit| {
                RingStream::new(kit.ring.reader()?, &kit.thread)
                    .next()
                    .await
                    .transpose()
            },
            |kit, manager| kit.ring.writer()?.submit(&manager.thread()?, b"here"),
        );
        is_woken_once(
            "a value",
            cluster,
            async |kit| kit.queue.pop(&kit.thread).await,
            |kit, manager| SharedQueue::push(&kit.queue, &manager.thread()?, 1).map(|_| ()),
        );
        is_woken_once(
            "a call of several waits",
            cluster,
            async |kit| {
                let queue = kit.queue.clone();
                let twice = move |thread: &Thread| {
                    let pop = || SharedQueue::pop(&queue, thread);
                    Ok((pop()?, pop()?))
                };
                kit.thread.call(twice).await
            },
            |kit, manager| {
                let thread = manager.thread()?;
                (0..2).try_for_each(|value| SharedQueue::push(&kit.queue, &thread, value).map(|_| ()))
            },
        );
    }
}

#[test]
fn a_task_that_waits_for_a_lock_is_woken_when_it_has_it() {
    for cluster in [Cluster::Synchronous, Cluster::Deferred(5), Cluster::Deferred(6)] {
        cluster.run(2, |manager| {
            let kit = Kit::new(&manager)?;
            let thread = manager.thread()?;
            if manager.node() == HOME {
                let guard = lock_blocking(&kit.ticket, &thread)?;
                Barrier::wait(&kit.barrier, &thread)?;
                busy_driver(&kit)?;
                Barrier::wait(&kit.barrier, &thread)?;
                guard.release()?;
            } else {
                Barrier::wait(&kit.barrier, &thread)?;
                let alarm = Alarm::new();
                let mut locking = pin!(kit.ticket.lock(&kit.thread, Scope::Nothing));
                assert!(poll(locking.as_mut(), &alarm).is_pending());
                busy_driver(&kit)?;
                assert_eq!(alarm.rung(), 0, "{cluster:?}: it is held");
                Barrier::wait(&kit.barrier, &thread)?;
                alarm.wait(1);
                match poll(locking.as_mut(), &alarm) {
                    Poll::Ready(guard) => drop(guard?),
                    Poll::Pending => panic!("woken in vain"),
                }
            }
            Barrier::wait(&kit.barrier, &thread)
        });
    }
}

fn lock_blocking<'a>(lock: &'a TicketLock, thread: &'a Thread) -> Result<LockGuard<'a, TicketLock>> {
    lock.lock(thread, Scope::Nothing)
}

/// A lock that this node's task waits for while node 0 has it: `drop_it` drops the future.
fn a_dropped_lock(drop_it: impl Fn(Pin<Box<dyn Future<Output = ()> + '_>>, &Alarm, &dyn Fn()) + Sync) {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let kit = Kit::new(&manager)?;
            let thread = manager.thread()?;
            let barrier = || Barrier::wait(&kit.barrier, &thread).expect("both are there");
            if manager.node() == HOME {
                let guard = lock_blocking(&kit.ticket, &thread)?;
                barrier();
                barrier();
                guard.release()?;
            } else {
                barrier();
                let alarm = Alarm::new();
                let mut locking: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
                    drop(kit.ticket.lock(&kit.thread, Scope::Nothing).await);
                });
                assert!(poll(locking.as_mut(), &alarm).is_pending());
                drop_it(locking, &alarm, &barrier);
            }
            // Everybody can have it: it is held by nobody.
            lock_blocking(&kit.ticket, &thread)?.release()?;
            let again = kit.ticket.lock(&kit.thread, Scope::Nothing);
            pollster::block_on(async { again.await?.release().await })?;
            Barrier::wait(&kit.barrier, &thread)
        });
    }
}

#[test]
fn who_stops_waiting_for_a_lock_leaves_the_line() {
    a_dropped_lock(|locking, _, release| {
        drop(locking);
        release();
    });
}

#[test]
fn a_call_that_was_given_up_ends_while_the_lock_is_held() {
    given_up_while_the_lock_is_held(&Config::default().deadline(PATIENCE), Some(Time::NEVER));
}

/// A limit that is too long for the clock is no reason to wait for what nobody wants.
#[test]
fn a_call_without_limit_by_its_settings_is_given_up() {
    given_up_while_the_lock_is_held(&Config::default().deadline(Duration::MAX), None);
}

fn given_up_while_the_lock_is_held(config: &Config, deadline: Option<Time>) {
    for cluster in ALL {
        cluster.run_config(2, config, |manager| {
            let kit = Kit::new(&manager)?;
            let thread = manager.thread()?;
            let meet = || Barrier::wait(&kit.barrier, &thread);
            if manager.node() == HOME {
                let ticket = lock_blocking(&kit.ticket, &thread)?;
                let tas = TasLock::lock(&kit.tas, &thread, Scope::Nothing)?;
                meet()?;
                meet()?;
                ticket.release()?;
                tas.release()?;
                return meet();
            }
            meet()?;
            for kind in ["ticket", "tas"] {
                let task = kit.driver.thread()?;
                pollster::block_on(task.with(move |thread| {
                    thread.set_deadline(deadline);
                    Ok(())
                }))?;
                {
                    let mut locking: Pin<Box<dyn Future<Output = Result<()>>>> = match kind {
                        "ticket" => {
                            Box::pin(async { kit.ticket.lock(&task, Scope::Nothing).await.map(drop) })
                        }
                        _ => Box::pin(async { kit.tas.lock(&task, Scope::Nothing).await.map(drop) }),
                    };
                    assert!(poll(locking.as_mut(), &Alarm::new()).is_pending());
                }
                // A call of the same thread is made when the one that was given up has ended.
                let alarm = Alarm::new();
                let mut next = pin!(task.fence(Scope::Nothing));
                if poll(next.as_mut(), &alarm).is_pending() {
                    wait_until(&format!("{cluster:?}: the end of the {kind} lock's call"), || {
                        alarm.rung() > 0
                    });
                }
            }
            meet()?;
            meet()
        });
    }
}

#[test]
fn a_lock_that_comes_when_nobody_wants_it_any_more_is_released() {
    a_dropped_lock(|locking, alarm, release| {
        release();
        alarm.wait(1);
        drop(locking);
    });
}

#[test]
fn who_stops_waiting_at_a_barrier_goes_on_with_the_same_round() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let kit = Kit::new(&manager)?;
            let told = SharedVar::<u64>::new(&manager, "told")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == HOME {
                {
                    let mut waiting = pin!(kit.barrier.wait(&kit.thread));
                    assert!(poll(waiting.as_mut(), &Alarm::new()).is_pending());
                }
                // After the call that was given up, as it is of the same thread.
                pollster::block_on(kit.thread.fence(Scope::Nothing))?;
                told.write(1);
                told.broadcast(&thread)?.wait(&thread)?;
            } else {
                told.wait_until(&thread, |told| told == 1)?;
            }
            // As often here as there: nobody passes a round ahead.
            for _ in 0..3 {
                pollster::block_on(kit.barrier.wait(&kit.thread))?;
            }
            Ok(())
        });
    }
}

#[test]
fn a_message_is_not_lost_with_the_future_that_waited_for_it() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let kit = Kit::new(&manager)?;
            let thread = manager.thread()?;
            if manager.node() == HOME {
                let mut writer = kit.ring.writer()?;
                Barrier::wait(&kit.barrier, &thread)?;
                for i in 0..10_u8 {
                    writer.submit(&thread, &[i])?;
                }
            } else {
                let mut stream = RingStream::new(kit.ring.reader()?, &kit.thread);
                assert!(poll(pin!(stream.next()), &Alarm::new()).is_pending());
                Barrier::wait(&kit.barrier, &thread)?;
                let mut heard = Vec::new();
                while heard.len() < 10 {
                    // A future that is dropped unless it has the message at once.
                    let at_once = poll(pin!(stream.next()), &Alarm::new());
                    let message = match at_once {
                        Poll::Ready(message) => message,
                        Poll::Pending => pollster::block_on(stream.next()),
                    };
                    heard.extend(message.transpose()?);
                }
                let sent: Vec<_> = (0..10_u8).map(|i| vec![i]).collect();
                assert_eq!(heard, sent, "{cluster:?}");
            }
            Barrier::wait(&kit.barrier, &thread)
        });
    }
}

#[test]
fn a_push_that_was_given_up_for_want_of_room_has_not_pushed() {
    Cluster::Synchronous.run(1, |manager| {
        let queue = Async::new(SharedQueue::<u64>::new(&manager, "queue", HOME, 1)?);
        manager.wait_for_ready()?;
        let driver = Driver::new(&manager)?;
        let (pusher, popper) = (driver.thread()?, driver.thread()?);
        pollster::block_on(async {
            assert_eq!(queue.push(&pusher, 1).await?, Pushed::Done);
            {
                let mut full = pin!(queue.push(&pusher, 2));
                assert!(poll(full.as_mut(), &Alarm::new()).is_pending());
            }
            pusher.fence(Scope::Nothing).await?;
            assert_eq!(queue.pop(&popper).await?, Popped::Value(1));
            let empty = queue.clone();
            let popped = popper.call(move |thread| empty.try_pop(thread)).await?;
            assert_eq!(popped, Popped::Empty);
            Ok(())
        })
    });
}

#[test]
fn a_timeout_is_an_error_and_the_call_can_be_made_again() {
    Cluster::Synchronous.run(2, |manager| {
        let kit = Kit::new(&manager)?;
        let thread = manager.thread()?;
        pollster::block_on(async {
            if kit.node == HOME {
                let over = |thread: &Thread| {
                    thread.set_deadline(Some(thread.now()));
                    Ok(())
                };
                kit.thread.with(over).await?;
                let error = kit.barrier.wait(&kit.thread).await.expect_err("alone");
                assert!(error.is_timeout(), "{error}");
                let again = |thread: &Thread| {
                    thread.set_deadline(None);
                    Ok(())
                };
                kit.thread.with(again).await?;
                assert_eq!(kit.queue.push(&kit.thread, 1).await?, Pushed::Done);
            } else {
                assert_eq!(kit.queue.pop(&kit.thread).await?, Popped::Value(1));
            }
            kit.barrier.wait(&kit.thread).await
        })?;
        Barrier::wait(&kit.barrier, &thread)
    });
}

#[test]
fn a_panic_reaches_who_awaits_the_call_and_nobody_else() {
    Cluster::Synchronous.run(1, |manager| {
        let driver = Driver::new(&manager)?;
        let thread = driver.thread()?;
        let its = thread.clone();
        let bad = std::thread::spawn(move || {
            pollster::block_on(its.call(|_| -> Result<()> { panic!("on purpose") }))
        });
        assert!(bad.join().is_err());
        pollster::block_on(thread.call(fence::thread))
    });
}

#[test]
fn the_loss_of_a_node_ends_the_waits_for_it() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let all = Async::new(Barrier::new(&manager, "all")?);
            let news = RingBuffer::new(&manager, "news", NodeId(2), 64)?;
            let survivors = Participants::of([NodeId(0), NodeId(1)]);
            let two = (manager.node() != NodeId(2))
                .then(|| Barrier::new(&manager.among(&survivors), "two"))
                .transpose()?;
            manager.wait_for_ready()?;
            let own = manager.thread()?;
            Barrier::wait(&all, &own)?;
            let Some(two) = two else {
                news.writer()?.submit(&own, b"last")?;
                // Its arrival and its message have reached everybody.
                fence::thread(&own)?;
                manager.fabric().mesh().fail();
                return Ok(());
            };
            let driver = Driver::new(&manager)?;
            let (thread, reader) = (driver.thread()?, driver.thread()?);
            let mut stream = RingStream::new(news.reader()?, &reader);
            pollster::block_on(async {
                assert_eq!(stream.next().await.transpose()?, Some(b"last".to_vec()));
                let lost = all.wait(&thread).await.expect_err("node 2 is gone");
                assert_eq!(lost.lost_peer(), Some(NodeId(2)), "{cluster:?}: {lost}");
                let lost = stream.next().await.transpose().expect_err("the writer is gone");
                assert_eq!(lost.lost_peer(), Some(NodeId(2)), "{cluster:?}");
                assert!(stream.next().await.is_none(), "it has ended");
                Ok::<(), loco::Error>(())
            })?;
            two.wait_unfenced(&own)
        });
    }
}
