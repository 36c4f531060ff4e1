//! Calls that wait for other nodes, or for completions, cost no rounds of the driver while nothing happens, and each event
//! ends its sleep. The drivers here have no limit of their sleep, so that an event that does not wake them ends the test by
//! its patience.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::net::{AsyncThread, Driver, RingSink, RingStream};
use common::net::{Barrier, KvStore, Manager, RingBuffer, SharedRegion, TasLock, Thread, TicketLock};
use common::{Cluster, Net, PATIENCE, unknown, wait_until};
use loco::asynchronous::Async;
use loco::fabric::verbs::VerbsConfig;
use loco::fabric::{AnyConfig, AnyFabric, FabricChoice, HugePages, NodeId};
use loco::fence::Scope;
use loco::{Config, KvConfig, Parent as _, Polling, Result, RingConfig, fence, testing};
use loco_test_networks::altered::{AlteredDevice, Limits};

const HOME: NodeId = NodeId(0);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);
/// Clusters whose fabric has a doorbell that rings for what other nodes do.
const WITH_BELL: [Cluster; 3] = [Cluster::Synchronous, Cluster::Deferred(11), Cluster::Deferred(12)];

/// Counts its calls.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Returns when the driver has not looked at its calls for a while, in which it would have done so a hundred times if it
/// looked in rounds.
fn until_asleep(driver: &Driver) {
    until_asleep_for(driver, Duration::from_millis(20));
}

fn until_asleep_for(driver: &Driver, time: Duration) {
    let begin = Instant::now();
    loop {
        let rounds = driver.rounds();
        std::thread::sleep(time);
        if rounds == driver.rounds() {
            return;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "it looks again and again: {rounds} rounds"
        );
    }
}

/// Polls each task once, has `event` happen when the driver sleeps, and then waits until all tasks are over.
fn asleep_until(driver: &Driver, mut tasks: Vec<Task<'_>>, event: impl FnOnce() -> Result<()>) -> Result<()> {
    let counts: Vec<_> = tasks.iter().map(|_| Arc::new(Count::default())).collect();
    let mut poll = |index: usize| {
        let waker = Waker::from(counts[index].clone());
        tasks[index].as_mut().poll(&mut Context::from_waker(&waker))
    };
    for index in 0..counts.len() {
        assert!(poll(index).is_pending());
    }
    until_asleep(driver);
    event()?;
    for (index, count) in counts.iter().enumerate() {
        // A task of several calls is woken for each of them that waits.
        let mut woken = 0;
        loop {
            wait_until("a task is woken", || count.0.load(SeqCst) > woken);
            woken = count.0.load(SeqCst);
            if let Poll::Ready(outcome) = poll(index) {
                outcome?;
                break;
            }
        }
    }
    Ok(())
}

/// Objects, each of which a task of node 1 waits at while node 0 does nothing.
struct Kit {
    meet: Barrier,
    barrier: Async<Barrier>,
    ticket: Async<TicketLock>,
    tas: Async<TasLock>,
    news: RingBuffer,
    replies: RingBuffer,
    store: Async<KvStore<u64, u64>>,
    driver: Driver,
    own: Thread,
    at_home: bool,
}

impl Kit {
    fn new(manager: &Manager) -> Result<Kit> {
        let config = KvConfig::default().slots_per_node(64).locks(4).tracker_bytes(512);
        let objects = (
            Barrier::new(manager, "meet")?,
            Async::new(Barrier::new(manager, "barrier")?),
            Async::new(TicketLock::new(manager, "ticket", HOME)?),
            Async::new(TasLock::new(manager, "tas", HOME)?),
            RingBuffer::new(manager, "news", HOME, 64)?,
            RingBuffer::new(manager, "replies", NodeId(1), 64)?,
            Async::new(KvStore::new(manager, "store", config)?),
        );
        manager.wait_for_ready()?;
        let (meet, barrier, ticket, tas, news, replies, store) = objects;
        Ok(Kit {
            meet,
            barrier,
            ticket,
            tas,
            news,
            replies,
            store,
            driver: Driver::with_sleep_max(manager, NEVER)?,
            own: manager.thread()?,
            at_home: manager.node() == HOME,
        })
    }

    fn meet(&self) -> Result<()> {
        self.meet.wait(&self.own)
    }

    /// A task of node 1 waits in what `wait` returns, and the driver sleeps, until node 0 has done `event`.
    fn sleeps_until<'a>(
        &self,
        wait: impl FnOnce(AsyncThread) -> Result<Task<'a>>,
        event: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.meet()?;
        if self.at_home {
            self.meet()?;
            event()?;
        } else {
            let task = wait(self.driver.thread()?)?;
            asleep_until(&self.driver, vec![task], || self.meet())?;
        }
        self.meet()
    }
}

#[test]
fn each_event_from_another_node_ends_the_sleep() {
    for cluster in WITH_BELL {
        cluster.run(2, |manager| {
            let kit = &Kit::new(&manager)?;
            let own = &kit.own;
            for _ in 0..3 {
                kit.sleeps_until(
                    |thread| Ok(Box::pin(async move { kit.barrier.wait(&thread).await })),
                    || Barrier::wait(&kit.barrier, own),
                )?;
            }
            let mut writer = if kit.at_home {
                Some(kit.news.writer()?)
            } else {
                None
            };
            kit.sleeps_until(
                |thread| {
                    let mut stream = RingStream::new(kit.news.reader()?, &thread);
                    Ok(Box::pin(async move {
                        let message = stream.next().await.expect("the writer lives")?;
                        assert_eq!(message, b"news");
                        Ok(())
                    }))
                },
                || writer.as_mut().expect("at home").submit(own, b"news"),
            )?;
            let mut reader = if kit.at_home {
                Some(kit.replies.reader()?)
            } else {
                None
            };
            kit.sleeps_until(
                |thread| {
                    let mut sink = RingSink::new(kit.replies.writer()?, &thread);
                    // The second one finds no room.
                    pollster::block_on(sink.submit(vec![1; 40]))?;
                    Ok(Box::pin(async move {
                        sink.submit(vec![2; 40]).await?;
                        Ok(())
                    }))
                },
                || {
                    let reader = reader.as_mut().expect("at home");
                    assert_eq!(reader.receive(own)?, vec![1; 40]);
                    // The acknowledgement is sent at the latest with the next look.
                    let mut message = Vec::new();
                    while !reader.try_receive(own, &mut message)? {}
                    Ok(())
                },
            )?;
            let held = if kit.at_home {
                Some(TicketLock::lock(&kit.ticket, own, Scope::Nothing)?)
            } else {
                None
            };
            kit.sleeps_until(
                |thread| {
                    Ok(Box::pin(async move {
                        kit.ticket.lock(&thread, Scope::Nothing).await?.release().await
                    }))
                },
                || held.expect("at home").release(),
            )
        });
    }
}

#[test]
fn an_insert_sleeps_until_every_node_has_heard() {
    // The other nodes' monitors acknowledge: what is waited for is a put of theirs, whenever it comes.
    for cluster in WITH_BELL {
        cluster.run(2, |manager| {
            let kit = &Kit::new(&manager)?;
            let thread = kit.driver.thread()?;
            let key = u64::from(manager.node().0) * 100;
            pollster::block_on(async {
                for i in 0..20 {
                    let _ = kit.store.insert(&thread, key + i, i).await?;
                }
                Ok::<_, loco::Error>(())
            })?;
            kit.meet()
        });
    }
}

#[test]
fn what_this_node_does_ends_the_sleep() {
    Cluster::Synchronous.run(2, |manager| {
        let kit = &Kit::new(&manager)?;
        let thread = kit.driver.thread()?;
        let locking = || -> Task<'_> {
            let thread = thread.clone();
            let (ticket, tas) = (&kit.ticket, &kit.tas);
            Box::pin(async move {
                ticket.lock(&thread, Scope::Nothing).await?.release().await?;
                tas.lock(&thread, Scope::Nothing).await?.release().await
            })
        };
        if !kit.at_home {
            // A thread of this node has the lock, and hands it over on this node.
            let guard = TicketLock::lock(&kit.ticket, &kit.own, Scope::Nothing)?;
            asleep_until(&kit.driver, vec![locking()], || guard.release())?;
            // A task of this node has it, and is over while the driver sleeps.
            let other = kit.driver.thread()?;
            let guard = pollster::block_on(kit.ticket.lock(&other, Scope::Nothing))?;
            asleep_until(&kit.driver, vec![locking()], || {
                pollster::block_on(guard.release())
            })?;
            // A call that begins, and one that is given up.
            let guard = TicketLock::lock(&kit.ticket, &kit.own, Scope::Nothing)?;
            let mut given_up = locking();
            let waker = Waker::from(Arc::new(Count::default()));
            assert!(
                given_up
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
            until_asleep(&kit.driver);
            pollster::block_on(other.call(fence::thread))?;
            until_asleep(&kit.driver);
            drop(given_up);
            // After the call that was given up, as it is of the same thread.
            pollster::block_on(thread.fence(Scope::Nothing))?;
            guard.release()?;
        }
        kit.meet()
    });
}

#[test]
fn a_deadline_ends_the_sleep() {
    Cluster::Synchronous.run(2, |manager| {
        let kit = &Kit::new(&manager)?;
        let thread = kit.driver.thread()?;
        if !kit.at_home {
            pollster::block_on(async {
                let soon = |thread: &Thread| {
                    thread.set_deadline(Some(thread.now().after(Duration::from_millis(100))));
                    Ok(())
                };
                thread.with(soon).await?;
                let error = kit.barrier.wait(&thread).await.expect_err("alone");
                assert!(error.is_timeout(), "{error}");
                Ok::<_, loco::Error>(())
            })?;
        }
        kit.meet()
    });
}

#[test]
fn the_loss_of_a_node_ends_the_sleep() {
    let asleep = AtomicUsize::new(0);
    Cluster::Synchronous.run(3, |manager| {
        let all = Async::new(Barrier::new(&manager, "all")?);
        let survivors = manager.among([NodeId(0), NodeId(1)]);
        let two = (manager.node() != NodeId(2))
            .then(|| Barrier::new(&survivors, "two"))
            .transpose()?;
        manager.wait_for_ready()?;
        let own = manager.thread()?;
        let Some(two) = two else {
            wait_until("the others sleep", || asleep.load(SeqCst) == 2);
            manager.fabric().mesh().fail();
            return Ok(());
        };
        let driver = Driver::with_sleep_max(&manager, NEVER)?;
        let thread = driver.thread()?;
        let waiting: Task<'_> = Box::pin(async {
            let lost = all.wait(&thread).await.expect_err("node 2 is gone");
            assert_eq!(lost.lost_peer(), Some(NodeId(2)));
            Ok(())
        });
        asleep_until(&driver, vec![waiting], || {
            asleep.fetch_add(1, SeqCst);
            Ok(())
        })?;
        two.wait_unfenced(&own)
    });
}

#[test]
fn a_thousand_waiting_tasks_take_no_rounds_while_nothing_happens() {
    const TASKS: usize = 1000;
    testing::run(2, |fabric| {
        let manager = Manager::new(Net::new(fabric, None)?)?;
        let config = RingConfig::new(64).readers([NodeId(1); TASKS]);
        let ring = RingBuffer::with_config(&manager, "ring", HOME, &config)?;
        let meet = Barrier::new(&manager, "meet")?;
        manager.wait_for_ready()?;
        let own = manager.thread()?;
        own.set_deadline(Some(own.now().after(PATIENCE)));
        if manager.node() == HOME {
            let mut writer = ring.writer()?;
            meet.wait(&own)?;
            writer.submit(&own, b"to all")?;
            return meet.wait(&own);
        }
        let driver = Driver::with_sleep_max(&manager, NEVER)?;
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for _ in 0..TASKS {
            let mut stream = RingStream::new(ring.reader()?, &driver.thread()?);
            tasks.push(Box::pin(async move {
                assert_eq!(stream.next().await.expect("a message")?, b"to all");
                Ok(())
            }));
        }
        asleep_until(&driver, tasks, || {
            until_asleep_for(&driver, Duration::from_millis(300));
            meet.wait(&own)
        })?;
        meet.wait(&own)
    });
}

/// Runs `test` on node 1 of two over this altered device, which keeps requests back, and then lets them go. Node 0 has a word at the
/// start of the region, and does nothing else until `test` is over.
fn over_altered_device(
    device: AlteredDevice,
    polling: Polling,
    test: impl Fn(&AlteredDevice, &Manager, &Arc<SharedRegion>) -> Result<()> + Sync,
) {
    let over = AtomicUsize::new(0);
    let config = AnyConfig::default().choice(FabricChoice::Verbs).verbs(
        VerbsConfig::default()
            .provider(device.provider())
            .arena_bytes(1 << 20)
            .huge_pages(HugePages::Never),
    );
    let settings = Config::default().polling(polling).deadline(PATIENCE);
    testing::run_on(
        2,
        |mesh| Net::new(AnyFabric::new(mesh, config.clone())?, None),
        |fabric| {
            let manager = Manager::with_config(fabric, settings.clone())?;
            let region = Arc::new(SharedRegion::new(&manager, "region", 8)?);
            manager.wait_for_ready()?;
            if manager.node() == HOME {
                wait_until("the test", || over.load(SeqCst) == 1);
                return Ok(());
            }
            device.hold_requests(true);
            test(&device, &manager, &region)?;
            device.hold_requests(false);
            device.release_requests();
            over.store(1, SeqCst);
            Ok(())
        },
    );
    assert_eq!(device.counts().unacknowledged_events, 0);
}

/// Polls each task once, releases requests when the device has been rung for the read of each and the driver sleeps, and waits
/// until all tasks are over. A request that came after the release would be held for ever.
fn asleep_until_released(device: &AlteredDevice, driver: &Driver, tasks: Vec<Task<'_>>) -> Result<()> {
    let (posted, reads) = (device.doorbells(), tasks.len() as u64);
    asleep_until(driver, tasks, || {
        wait_until("the reads are posted", || device.doorbells() >= posted + reads);
        until_asleep(driver);
        device.release_requests();
        Ok(())
    })
}

/// A task that reads a word of node 0.
fn reads<'a>(thread: AsyncThread, region: &Arc<SharedRegion>) -> Task<'a> {
    let region = region.clone();
    Box::pin(async move {
        let read = move |thread: &Thread| thread.read_word(region.target(HOME, 0)?);
        assert_eq!(thread.call(read).await?, 0);
        Ok(())
    })
}

/// Checks on a device that every sleep of tasks that read ends.
fn completions_end_sleeps(altered: AlteredDevice) {
    for polling in [Polling::CallerDriven, Polling::Thread] {
        over_altered_device(altered, polling, |device, manager, region| {
            let driver = Driver::with_sleep_max(manager, NEVER)?;
            for _ in 0..5 {
                let tasks = vec![reads(driver.thread()?, region), reads(driver.thread()?, region)];
                asleep_until_released(device, &driver, tasks)?;
            }
            Ok(())
        });
    }
}

#[test]
fn a_completion_ends_the_sleep() {
    completions_end_sleeps(unknown(Limits::default()));
}

/// A process has one NIC, so that this device, which is known to keep order, has a process of its own.
#[test]
fn a_completion_ends_the_sleep_on_a_device_of_tier_ibta() {
    if let Some(said) = loco_testing::own_process("a_completion_ends_the_sleep_on_a_device_of_tier_ibta") {
        return print!("{said}");
    }
    completions_end_sleeps(AlteredDevice::new(Limits::default()));
}

#[test]
fn a_completion_that_another_thread_polls_ends_the_sleep() {
    over_altered_device(
        unknown(Limits::default()),
        Polling::CallerDriven,
        |device, manager, region| {
            let driver = Driver::with_sleep_max(manager, NEVER)?;
            for _ in 0..10 {
                std::thread::scope(|scope| {
                    let posted = device.doorbells();
                    let polls = scope.spawn(|| manager.thread()?.read_word(region.target(HOME, 0)?));
                    wait_until("the other thread polls", || device.doorbells() > posted);
                    let task = reads(driver.thread()?, region);
                    asleep_until_released(device, &driver, vec![task])?;
                    polls.join().expect("no panic").map(|_| ())
                })?;
            }
            Ok(())
        },
    );
}

#[test]
fn a_device_without_completion_events_is_looked_at_in_rounds() {
    let device = unknown(Limits {
        completion_events: false,
        ..Limits::default()
    });
    over_altered_device(device, Polling::CallerDriven, |device, manager, region| {
        let driver = Driver::with_sleep_max(manager, NEVER)?;
        let task = reads(driver.thread()?, region);
        std::thread::scope(|scope| {
            let rounds = driver.rounds();
            scope.spawn(move || {
                wait_until("rounds", || driver.rounds() > rounds + 1000);
                device.release_requests();
            });
            pollster::block_on(task)
        })
    });
}

#[test]
fn the_polling_thread_sleeps_while_awaited_operations_do_not_end() {
    for polling in [Polling::CallerDriven, Polling::Thread] {
        over_altered_device(unknown(Limits::default()), polling, |device, manager, region| {
            let thread = manager.thread()?;
            for _ in 0..5 {
                let mut put: Task<'_> = {
                    let key = thread.put_inline(&[0; 8], region.target(HOME, 0)?)?;
                    Box::pin(async move { key.await })
                };
                let count = Arc::new(Count::default());
                let waker = Waker::from(count.clone());
                assert!(put.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let begin = Instant::now();
                loop {
                    let polls = device.polls();
                    std::thread::sleep(Duration::from_millis(20));
                    if polls == device.polls() {
                        break;
                    }
                    assert!(begin.elapsed() < PATIENCE, "it polls again and again");
                }
                device.release_requests();
                wait_until("the future is woken", || count.0.load(SeqCst) > 0);
                assert!(matches!(
                    put.as_mut().poll(&mut Context::from_waker(&waker)),
                    Poll::Ready(Ok(()))
                ));
            }
            Ok(())
        });
    }
}
