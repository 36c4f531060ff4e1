//! Ticket lock and test-and-set lock around a counter: no update is lost, and a thread that waits gets the
//! lock in the end.

use loco::fabric::{NodeId, Target};
use loco::fence::{self, Scope};
use loco::{Channel, LockConfig, LockGuard, Manager, OnLoss, Result, TasLock, Thread, TicketLock, Unlock};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{Faults, ModelRemote, World, call};

use crate::{Body, Fabric, complete, crashes, expiries, found, patiently, populate, sampled, suspicions};

/// The home of the lock and of the counter.
const HOME: NodeId = NodeId(0);

trait AnyLock: Unlock<Fabric> + Sized + Send + Sync + 'static {
    fn make(manager: &Manager<Fabric>, config: LockConfig) -> Self;
    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>>;
}

macro_rules! any_lock {
    ($($lock:ident),*) => {$(
        impl AnyLock for $lock<Fabric> {
            fn make(manager: &Manager<Fabric>, config: LockConfig) -> Self {
                $lock::with_config(manager, "lock", HOME, config).unwrap()
            }
            fn lock<'a>(
                &'a self,
                thread: &'a Thread<Fabric>,
                scope: Scope,
            ) -> Result<LockGuard<'a, Self, Fabric>> {
                self.lock(thread, scope)
            }
        }
    )*};
}
any_lock!(TicketLock, TasLock);

type Ticket = TicketLock<Fabric>;
type Tas = TasLock<Fabric>;

/// A lock and a counter that it protects.
struct Counter<L> {
    lock: L,
    word: Channel<Fabric>,
}

impl<L: AnyLock> Counter<L> {
    fn make(manager: &Manager<Fabric>, on_loss: OnLoss) -> Counter<L> {
        let word = Channel::builder(manager, "word")
            .kind("word")
            .region("word", 8)
            .join();
        let config = LockConfig::default().on_loss(on_loss);
        Counter {
            lock: L::make(manager, config),
            word: word.unwrap(),
        }
    }

    fn target(&self) -> Target<'_, ModelRemote> {
        let remote = self.word.region("word").unwrap().remote(HOME).unwrap();
        Target { remote, offset: 0 }
    }

    /// Counts once under the lock, trying again after timeouts. Returns the new count. It counts only if the
    /// release succeeds.
    fn count(&self, thread: &Thread<Fabric>) -> Result<String> {
        let guard = patiently(|| self.lock.lock(thread, Scope::Pair(HOME)))?;
        let old = patiently(|| thread.read_word(self.target()))?;
        thread
            .put_inline(&(old + 1).to_ne_bytes(), self.target())?
            .forget();
        patiently(|| fence::pair(thread, HOME))?;
        match guard.release() {
            Err(error) if error.is_timeout() => Ok("unknown".into()),
            released => released.map(|()| old.to_string()),
        }
    }
}

/// The promise of the lock for the data that it protects.
const LOST: &str = "an update under the lock is not lost";

/// Checks that no two threads have counted from the same value.
fn counts(operations: &[Operation]) -> Result<(), Violation> {
    let counted: Vec<&Operation> = operations
        .iter()
        .filter(|o| o.result.as_ref().is_some_and(|r| r.parse::<u64>().is_ok()))
        .collect();
    for (number, one) in counted.iter().enumerate() {
        for other in &counted[..number] {
            if one.result == other.result {
                return Err(Violation {
                    what: LOST,
                    calls: vec![one.to_string(), other.to_string()],
                });
            }
        }
    }
    Ok(())
}

use Client::{Counts, GivesUp, Holds};

/// The actions of a thread.
#[derive(Clone, Copy)]
enum Client {
    /// Counts so many times, and waits as long as it takes.
    Counts(usize),
    /// Holds the lock so many times, waits as long as it takes, and does nothing with it.
    Holds(usize),
    /// Tries once, and goes on without the lock if it is not in time.
    GivesUp,
}

fn world<L: AnyLock>(nodes: &'static [&'static [Client]], on_loss: OnLoss) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |&client: &Client| -> Body<Counter<L>> {
            Box::new(move |counter, thread| {
                let shown = |counted: &Result<String>| match counted {
                    Ok(counted) => counted.clone(),
                    Err(error) => error.to_string(),
                };
                match client {
                    Counts(times) => {
                        for _ in 0..times {
                            call("count", || counter.count(thread), shown)?;
                        }
                        Ok(())
                    }
                    Holds(times) => {
                        for _ in 0..times {
                            let guard = patiently(|| counter.lock.lock(thread, Scope::Nothing))?;
                            call("hold", || (), |()| "");
                            guard.release()?;
                        }
                        Ok(())
                    }
                    GivesUp => match counter.lock.lock(thread, Scope::Nothing) {
                        Ok(guard) => guard.release(),
                        Err(error) if error.is_timeout() => Ok(()),
                        Err(error) => Err(error),
                    },
                }
            })
        };
        let threads = nodes.iter().map(|bodies| bodies.iter().map(body).collect());
        populate(
            world,
            move |manager| Counter::<L>::make(manager, on_loss),
            threads.collect(),
            |operations| {
                counts(operations)?;
                let holds: Vec<_> = operations
                    .iter()
                    .filter(|o| o.result.is_some())
                    .cloned()
                    .collect();
                spec::mutual_exclusion(&holds)
            },
        );
    }
}

#[test]
fn who_waits_gets_the_lock_when_another_waiter_gives_up() {
    // 25 such schedules found the mistake before the lock was mended.
    sampled(
        "ticket lock, a local waiter gives up, 1 expiry",
        3,
        3_000,
        expiries(1),
        world::<Ticket>(&[&[Counts(1), GivesUp], &[Counts(1)]], OnLoss::Poison),
    );
}

#[test]
fn the_test_and_set_lock_when_another_waiter_gives_up() {
    // 882 such schedules found the mistake before the lock was mended.
    sampled(
        "test-and-set lock, a local waiter gives up, 1 expiry",
        3,
        3_000,
        expiries(1),
        world::<Tas>(&[&[Counts(1), GivesUp], &[Counts(1)]], OnLoss::Poison),
    );
}

/// Two acquisitions of each node are complete too, in a quarter of an hour. Here they are sampled.
#[test]
fn ticket_lock_of_two_nodes_with_one_expiry_anywhere() {
    let once = world::<Ticket>(&[&[Holds(1)], &[Holds(1)]], OnLoss::Poison);
    complete(
        "ticket lock, 2 nodes, 1 acquisition each, 1 expiry",
        expiries(1),
        once,
    );
    let twice = world::<Ticket>(&[&[Holds(2)], &[Holds(2)]], OnLoss::Poison);
    let name = "ticket lock, 2 nodes, 2 acquisitions each, 1 expiry";
    sampled(name, 3, 20_000, expiries(1), twice);
}

#[test]
fn ticket_lock_of_two_nodes_twice_with_one_crash_anywhere() {
    for on_loss in [OnLoss::Recover, OnLoss::Poison] {
        let name = format!("ticket lock, 2 nodes, 2 acquisitions each, 1 crash, {on_loss:?}");
        let twice = world::<Ticket>(&[&[Holds(2)], &[Holds(2)]], on_loss);
        complete(&name, crashes(1), &twice);
        sampled(&name, 3, 1_000, crashes(1), &twice);
    }
}

#[test]
fn test_and_set_lock_of_two_nodes_with_one_crash_anywhere() {
    for on_loss in [OnLoss::Recover, OnLoss::Poison] {
        complete(
            &format!("test-and-set lock, 2 nodes, 1 count each, 1 crash, {on_loss:?}"),
            crashes(1),
            world::<Tas>(&[&[Counts(1)], &[Counts(1)]], on_loss),
        );
    }
}

#[test]
fn two_holders_where_membership_is_not_enforced() {
    let once: &[&[Client]] = &[&[Counts(1)], &[Counts(1)]];
    for enforced in [false, true] {
        let faults = suspicions(1, !enforced);
        let ticket = world::<Ticket>(once, OnLoss::Recover);
        let tas = world::<Tas>(once, OnLoss::Recover);
        if enforced {
            complete("ticket lock, 1 suspicion", faults, ticket);
            complete("test-and-set lock, 1 suspicion", faults, tas);
        } else {
            found(
                "ticket lock, 1 suspicion that is not enforced",
                faults,
                LOST,
                ticket,
            );
            found(
                "test-and-set lock, 1 suspicion that is not enforced",
                faults,
                LOST,
                tas,
            );
        }
    }
}

#[test]
fn ticket_lock_of_three_nodes_at_random() {
    let faults = Faults {
        expiries: 1,
        ..crashes(1)
    };
    sampled(
        "ticket lock, 3 nodes, 1 count each, 1 expiry and 1 crash",
        4,
        2_000,
        faults,
        world::<Ticket>(&[&[Counts(1)], &[Counts(1)], &[Counts(1)]], OnLoss::Recover),
    );
}
