//! A thousand tasks of a node wait at the same time: on one thread of the system, each polled when it begins and when its
//! wait is over. One test, as it counts the threads of the whole process.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use loco::asynchronous::{Async, Driver, RingStream};
use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{Barrier, Manager, Result, RingBuffer, RingConfig, SharedQueue, Thread, TicketLock, testing};

const TASKS: usize = 1000;
const HOME: NodeId = NodeId(0);

/// Says which task is to be polled.
struct Bell {
    task: usize,
    rung: Mutex<mpsc::Sender<usize>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.rung.lock().map(|rung| rung.send(self.task));
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Returns true if a thread of this process is a driver's.
fn driver_runs() -> bool {
    let names = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let mut names = names.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.any(|name| name.starts_with("loco-async"))
}

/// Polls `tasks` until all are over; `when_all_wait` runs once each has been polled once. Returns how often tasks were
/// polled.
fn run(mut tasks: Vec<Task<'_>>, when_all_wait: impl FnOnce() -> Result<()>) -> Result<usize> {
    let (rung, bells) = mpsc::channel();
    let wakers: Vec<Waker> = (0..tasks.len())
        .map(|task| {
            let rung = Mutex::new(rung.clone());
            Waker::from(Arc::new(Bell { task, rung }))
        })
        .collect();
    let mut polls = 0;
    let mut poll = |task: usize| {
        polls += 1;
        tasks[task].as_mut().poll(&mut Context::from_waker(&wakers[task]))
    };
    for task in 0..TASKS {
        assert!(poll(task).is_pending(), "task {task} waits");
    }
    when_all_wait()?;
    let mut left = TASKS;
    while left > 0 {
        let task = bells.recv().expect("the wakers are there");
        if let std::task::Poll::Ready(outcome) = poll(task) {
            outcome?;
            left -= 1;
        }
    }
    Ok(polls)
}

#[test]
fn a_thousand_tasks_wait_on_one_thread() {
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let barrier = Barrier::new(&manager, "barrier")?;
        let lock = Async::new(TicketLock::new(&manager, "lock", HOME)?);
        let queue = Async::new(SharedQueue::<u64>::new(&manager, "queue", HOME, 8)?);
        let config = RingConfig::new(64).readers([NodeId(1); TASKS]);
        let ring = RingBuffer::with_config(&manager, "ring", HOME, &config)?;
        manager.wait_for_ready()?;
        let own = manager.thread()?;
        own.set_deadline(Some(own.now().after(Duration::from_secs(300))));
        let meet = || barrier.wait(&own);
        if manager.node() == HOME {
            let guard = TicketLock::lock(&lock, &own, Scope::Nothing)?;
            meet()?;
            meet()?;
            guard.release()?;
            meet()?;
            for value in 0..TASKS as u64 {
                let _ = SharedQueue::push(&queue, &own, value)?;
            }
            meet()?;
            ring.writer()?.submit(&own, b"to all")?;
            return meet();
        }
        let driver = Driver::new(&manager)?;
        let its: Vec<_> = (0..TASKS).map(|_| driver.thread()).collect::<Result<_>>()?;
        for thread in &its {
            // As long as it takes: each waits for all before it.
            let patient = |thread: &Thread| {
                thread.set_deadline(Some(thread.now().after(Duration::from_secs(300))));
                Ok(())
            };
            pollster::block_on(thread.with(patient))?;
        }
        meet()?;
        // A thread gives itself its name when it begins, and this call runs on it.
        pollster::block_on(its[0].call(|_| Ok(())))?;
        assert!(driver_runs());
        let before = threads();
        let few_threads = || assert!(threads() <= before, "no thread for each task: {}", threads());

        let inside = AtomicUsize::new(0);
        let locking = |thread| -> Task<'_> {
            let (lock, inside) = (&lock, &inside);
            Box::pin(async move {
                let guard = lock.lock(thread, Scope::Nothing).await?;
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "alone");
                inside.fetch_sub(1, SeqCst);
                drop(guard);
                Ok(())
            })
        };
        let polls = run(its.iter().map(locking).collect(), || {
            few_threads();
            meet()
        })?;
        assert_eq!(polls, 2 * TASKS, "at the beginning and at the end");

        let sum = AtomicUsize::new(0);
        let popping = |thread| -> Task<'_> {
            let (queue, sum) = (&queue, &sum);
            Box::pin(async move {
                let value = queue.pop(thread).await?.value().expect("it is not closed");
                sum.fetch_add(value as usize, SeqCst);
                Ok(())
            })
        };
        let polls = run(its.iter().map(popping).collect(), || {
            few_threads();
            meet()
        })?;
        assert_eq!(polls, 2 * TASKS);
        assert_eq!(sum.into_inner(), TASKS * (TASKS - 1) / 2, "each value once");

        let receiving = |thread| -> Result<Task<'_>> {
            let mut stream = RingStream::new(ring.reader()?, thread);
            Ok(Box::pin(async move {
                assert_eq!(stream.next().await.transpose()?, Some(b"to all".to_vec()));
                Ok(())
            }))
        };
        let tasks = its.iter().map(receiving).collect::<Result<_>>()?;
        let polls = run(tasks, || {
            few_threads();
            meet()
        })?;
        assert_eq!(polls, 2 * TASKS);
        drop((its, driver));
        let begin = Instant::now();
        while driver_runs() {
            assert!(
                begin.elapsed() < Duration::from_secs(120),
                "the driver has nothing left to drive"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        meet()
    });
}
