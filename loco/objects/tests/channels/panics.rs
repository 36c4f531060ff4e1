//! Panics in closures of the program that run on a thread or under a lock of this crate: whoever gave the closure learns of
//! it, and nobody else is harmed.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::net::{Barrier, Channel, SharedRegion, TasLock};
use crate::common::{ALL, Cluster, wait_until};
use loco::ErrorKind;
use loco::asynchronous::Driver;
use loco::fence::Scope;

/// Returns the text of a panic.
fn text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

#[test]
fn a_section_that_panics_harms_its_owner_only() {
    for cluster in ALL {
        cluster.run(1, |manager| {
            let lock = TasLock::new(&manager, "lock", manager.nodes()[0])?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            for _ in 0..20 {
                let guard = lock.lock(&thread, Scope::Nothing)?;
                let began = Arc::new(AtomicU32::new(0));
                std::thread::scope(|scope| {
                    let owners: Vec<_> = (0..4)
                        .map(|owner| {
                            let (lock, manager, began) = (&lock, &manager, began.clone());
                            scope.spawn(move || {
                                let thread = manager.thread().expect("a thread");
                                began.fetch_add(1, SeqCst);
                                catch_unwind(AssertUnwindSafe(|| {
                                    lock.combine(&thread, Scope::Nothing, move |_| {
                                        assert_ne!(owner, 2, "the fault of section {owner}");
                                        owner
                                    })
                                }))
                            })
                        })
                        .collect();
                    wait_until("all owners", || began.load(SeqCst) == 4);
                    guard.release().expect("held");
                    for (owner, joined) in owners.into_iter().enumerate() {
                        match joined.join().expect("the panic was caught") {
                            Ok(result) => assert_eq!(result, Ok(owner)),
                            Err(payload) => {
                                assert_eq!(owner, 2);
                                assert!(text(&*payload).contains("the fault of section 2"));
                            }
                        }
                    }
                });
            }
            // The lock is free, and the thread is as before.
            assert_eq!(lock.combine(&thread, Scope::Nothing, |_| 5)?, 5);
            lock.lock(&thread, Scope::Nothing)?.release()
        });
    }
}

#[test]
fn a_callback_that_panics_is_an_error_of_its_channel() {
    for cluster in ALL {
        for on_join in [true, false] {
            cluster.run(2, |manager| {
                let faulty = manager.node() == manager.nodes()[0];
                let callback = move |_: &loco::ChannelRef<'_, crate::common::Net>, _| {
                    assert!(!faulty, "a callback's own fault");
                    Ok(())
                };
                let builder = Channel::builder(&manager, "c");
                let builder = match on_join {
                    true => builder.on_join(callback),
                    false => builder.on_connect(callback),
                };
                let channel = builder.join()?;
                let error = channel.wait_for_ready().expect_err("a callback panicked");
                let (kind, which) = match (faulty, on_join) {
                    (true, true) => (ErrorKind::Panicked, "callback `on_join` of channel `c`"),
                    (true, false) => (ErrorKind::Panicked, "callback `on_connect` of channel `c`"),
                    (false, _) => (ErrorKind::Refused, "node 0 could not connect"),
                };
                let message = error.to_string();
                assert_eq!(error.kind(), kind, "{message}");
                assert!(message.contains(which), "{message}");
                assert!(message.contains("a callback's own fault"), "{message}");
                // The set-up service still works for other channels.
                let other = SharedRegion::new(&manager, "other", 8)?;
                let end = Barrier::new(&manager, "end")?;
                other.channel().wait_for_ready()?;
                end.channel().wait_for_ready()?;
                end.wait(&manager.thread()?)
            });
        }
    }
}

/// A waker that panics, as an executor's could.
struct Faulty;

impl Wake for Faulty {
    fn wake(self: Arc<Self>) {
        panic!("a waker's own fault");
    }
}

/// One future's waker panics. The others are woken, and the thread that polls goes on.
#[test]
fn a_waker_that_panics_harms_no_other_future() {
    for cluster in [
        Cluster::Deferred(1),
        Cluster::Deferred(2),
        Cluster::DeferredPolled(2),
    ] {
        cluster.run(2, |manager| {
            let region = SharedRegion::new(&manager, "r", 8)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let other = manager.nodes()[1 - usize::from(manager.node().0)];
            for _ in 0..10 {
                let mut faulty = std::pin::pin!(IntoFuture::into_future(
                    thread.put_inline(&[1; 8], region.target(other, 0)?)?
                ));
                let waker = Waker::from(Arc::new(Faulty));
                let first = faulty.as_mut().poll(&mut Context::from_waker(&waker));
                pollster::block_on(async {
                    for _ in 0..10 {
                        thread.put_inline(&[1; 8], region.target(other, 0)?)?.await?;
                    }
                    Ok::<(), loco::Error>(())
                })?;
                if first == Poll::Pending {
                    pollster::block_on(faulty)?;
                }
            }
            end.wait(&thread)
        });
    }
}

/// Panics when it is dropped.
struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("the fault of a destructor");
    }
}

/// A section whose owner has given up is dropped by the next runner.
#[test]
fn a_withdrawn_section_that_panics_when_it_is_dropped_harms_nobody() {
    for cluster in ALL {
        cluster.run(1, |manager| {
            let lock = TasLock::new(&manager, "lock", manager.nodes()[0])?;
            manager.wait_for_ready()?;
            let (thread, other) = (manager.thread()?, manager.thread()?);
            let guard = lock.lock(&thread, Scope::Nothing)?;
            other.set_deadline(Some(other.now()));
            let faulty = Explosive;
            let withdrawn = lock.combine(&other, Scope::Nothing, move |_| drop(faulty));
            assert_eq!(withdrawn.map_err(|error| error.kind()), Err(ErrorKind::Timeout));
            let began = AtomicU32::new(0);
            std::thread::scope(|scope| {
                let owners: Vec<_> = (0..3)
                    .map(|owner| {
                        let (lock, manager, began) = (&lock, &manager, &began);
                        scope.spawn(move || {
                            let thread = manager.thread().expect("a thread");
                            began.fetch_add(1, SeqCst);
                            lock.combine(&thread, Scope::Nothing, move |_| owner)
                        })
                    })
                    .collect();
                wait_until("all owners", || began.load(SeqCst) == 3);
                guard.release().expect("held");
                for (owner, joined) in owners.into_iter().enumerate() {
                    assert_eq!(joined.join().expect("no panic of another"), Ok(owner));
                }
            });
            lock.lock(&thread, Scope::Nothing)?.release()
        });
    }
}

/// Outcomes and calls that nobody awaits any more are dropped by the driver, which serves other calls too.
#[test]
fn a_call_that_panics_when_it_is_dropped_harms_no_other_call() {
    for cluster in ALL {
        cluster.run(1, |manager| {
            let driver = Driver::new(&manager)?;
            let (first, second) = (driver.thread()?, driver.thread()?);
            let go = Arc::new(AtomicU32::new(0));
            let waits = go.clone();
            let outcome = first.call(move |_| {
                wait_until("the futures are dropped", || waits.load(SeqCst) == 1);
                Ok(Explosive)
            });
            let faulty = Explosive;
            let call = second.call(move |_| {
                let _captured = &faulty;
                Ok(())
            });
            // Both begin, and neither is awaited to its end.
            for future in [
                &mut Box::pin(async { outcome.await.map(drop) }) as &mut (dyn Future<Output = _> + Unpin),
                &mut Box::pin(call),
            ] {
                let polled = std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
            }
            go.store(1, SeqCst);
            for thread in [first, second] {
                assert_eq!(pollster::block_on(thread.call(|_| Ok(7)))?, 7);
            }
            Ok(())
        });
    }
}
