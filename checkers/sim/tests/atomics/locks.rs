//! Ticket lock and test-and-set lock: holders exclude one another, and the next holder sees what the last one
//! put.

use loco::fabric::{NodeId, Target};
use loco::fence::Scope;
use loco::{Channel, LockConfig, LockGuard, Manager, Result, TasLock, Thread, TicketLock, Unlock};
use loco_sim::{World, call, spec};

use crate::{Body, Fabric, Plan, complete, complete_on_ibta, found};

/// The home of the lock.
const HOME: NodeId = NodeId(0);
/// The node of the word that the lock protects.
const WORD: NodeId = NodeId(1);

trait AnyLock: Unlock<Fabric> + Sized + Send + Sync + 'static {
    fn make(manager: &Manager<Fabric>) -> Self;
    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>>;
    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>>;
}

macro_rules! any_lock {
    ($($lock:ident),*) => {$(
        impl AnyLock for $lock<Fabric> {
            fn make(manager: &Manager<Fabric>) -> Self {
                $lock::with_config(manager, "lock", HOME, LockConfig::default()).unwrap()
            }
            fn lock<'a>(
                &'a self,
                thread: &'a Thread<Fabric>,
                scope: Scope,
            ) -> Result<LockGuard<'a, Self, Fabric>> {
                self.lock(thread, scope)
            }
            fn try_lock<'a>(
                &'a self,
                thread: &'a Thread<Fabric>,
                scope: Scope,
            ) -> Result<Option<LockGuard<'a, Self, Fabric>>> {
                self.try_lock(thread, scope)
            }
        }
    )*};
}
any_lock!(TicketLock, TasLock);

type Ticket = TicketLock<Fabric>;
type Tas = TasLock<Fabric>;

/// Holds the lock, and does nothing.
fn holds<L: AnyLock>(rounds: usize) -> Body<L> {
    Box::new(move |lock, thread| {
        for _ in 0..rounds {
            let guard = lock.lock(thread, Scope::Nothing).unwrap();
            call("hold", || (), |()| "");
            guard.release().unwrap();
        }
    })
}

/// Makes a world with `threads` on each node, of which each holds the lock.
fn exclusion<L: AnyLock>(threads: &'static [usize], rounds: usize) -> impl Fn(&mut World) + Sync {
    move |world| {
        let node = |&threads: &usize| (0..threads).map(|_| holds::<L>(rounds)).collect();
        let bodies = threads.iter().map(node).collect();
        Plan::new(L::make, bodies, spec::mutual_exclusion).build(world);
    }
}

#[test]
fn ticket_lock_of_two_nodes_twice() {
    complete(
        "ticket lock, 2 nodes, 2 acquisitions each",
        exclusion::<Ticket>(&[1, 1], 2),
    );
}

#[test]
fn tas_lock_of_two_nodes_twice() {
    complete(
        "test-and-set lock, 2 nodes, 2 acquisitions each",
        exclusion::<Tas>(&[1, 1], 2),
    );
}

#[test]
fn ticket_lock_with_two_threads_on_a_node() {
    complete(
        "ticket lock, 2 + 1 threads, 1 acquisition each",
        exclusion::<Ticket>(&[2, 1], 1),
    );
}

#[test]
fn tas_lock_with_two_threads_on_a_node() {
    complete(
        "test-and-set lock, 2 + 1 threads, 1 acquisition each",
        exclusion::<Tas>(&[2, 1], 1),
    );
}

/// Adds a thread that tries and another that waits; their calls are those of a lock.
fn tries<L: AnyLock>(world: &mut World) {
    let waits: Body<L> = Box::new(|lock, thread| {
        let guard = call("acquire", || lock.lock(thread, Scope::Nothing).unwrap(), |_| "");
        call("release", || guard.release().unwrap(), |()| "");
    });
    let tries: Body<L> = Box::new(|lock, thread| {
        let shown = |guard: &Option<_>| if guard.is_some() { "acquired" } else { "busy" };
        let guard = call(
            "try_acquire",
            || lock.try_lock(thread, Scope::Nothing).unwrap(),
            shown,
        );
        if let Some(guard) = guard {
            call("release", || guard.release().unwrap(), |()| "");
        }
    });
    Plan::new(L::make, vec![vec![waits], vec![tries]], spec::lock).build(world);
}

#[test]
fn ticket_lock_tried() {
    complete("ticket lock, one waits and one tries", tries::<Ticket>);
}

#[test]
fn tas_lock_tried() {
    complete("test-and-set lock, one waits and one tries", tries::<Tas>);
}

/// A lock and a word that it protects.
struct Counter<L> {
    lock: L,
    word: Channel<Fabric>,
}

fn counter<L: AnyLock>(manager: &Manager<Fabric>) -> Counter<L> {
    let word = Channel::builder(manager, "word")
        .kind("word")
        .region("word", 8)
        .join();
    Counter {
        lock: L::make(manager),
        word: word.unwrap(),
    }
}

impl<L> Counter<L> {
    fn target(&self) -> Target<'_, loco_sim::ModelRemote> {
        let remote = self.word.region("word").unwrap().remote(WORD).unwrap();
        Target { remote, offset: 0 }
    }

    /// Increments by a get and a put, and waits for the put's completion if `waits`. Returns the old value.
    fn increment(&self, thread: &Thread<Fabric>, waits: bool) -> u64 {
        let buffer = thread
            .mem_ref(8)
            .unwrap()
            .get(self.target())
            .unwrap()
            .wait()
            .unwrap();
        let old = buffer.word(0).unwrap();
        let put = thread
            .put_inline(&(old + 1).to_ne_bytes(), self.target())
            .unwrap();
        if waits {
            put.wait(thread).unwrap();
        } else {
            put.forget();
        }
        old
    }
}

/// The way in which the word is made safe before the release.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    /// A fence towards the word's node.
    Fenced,
    /// Nothing, against the paper's warning.
    Unfenced,
    /// A wait for the completion of the put, which only says that the put was sent.
    PolledOnly,
    /// A fence towards the lock's home.
    WrongNode,
}

/// Makes a world in which every thread increments once. The old values tell whether an increment was lost.
fn increments<L: AnyLock>(threads: &'static [usize], release: Release) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |_| -> Body<Counter<L>> {
            Box::new(move |counter, thread| {
                let scope = match release {
                    Release::Fenced => Scope::Pair(WORD),
                    Release::Unfenced | Release::PolledOnly => Scope::Nothing,
                    Release::WrongNode => Scope::Pair(HOME),
                };
                let guard = counter.lock.lock(thread, scope).unwrap();
                let increment = || counter.increment(thread, release == Release::PolledOnly);
                call("add 1", increment, u64::to_string);
                guard.release().unwrap();
            })
        };
        let node = |&threads: &usize| (0..threads).map(body).collect();
        let bodies = threads.iter().map(node).collect();
        Plan::new(counter::<L>, bodies, |o| spec::atomic_variable(o, 0)).build(world);
    }
}

#[test]
fn a_fenced_release_loses_no_update() {
    complete(
        "ticket lock, word",
        increments::<Ticket>(&[1, 1], Release::Fenced),
    );
    complete(
        "test-and-set lock, word",
        increments::<Tas>(&[1, 1], Release::Fenced),
    );
    complete(
        "ticket lock, word, one node",
        increments::<Ticket>(&[2, 0], Release::Fenced),
    );
    complete(
        "test-and-set lock, word, one node",
        increments::<Tas>(&[2, 0], Release::Fenced),
    );
}

#[test]
fn release_without_fence() {
    found(
        "ticket, no fence",
        increments::<Ticket>(&[1, 1], Release::Unfenced),
    );
    found(
        "test-and-set, no fence",
        increments::<Tas>(&[1, 1], Release::Unfenced),
    );
}

#[test]
fn release_when_the_put_has_only_completed() {
    found(
        "ticket, polled",
        increments::<Ticket>(&[1, 1], Release::PolledOnly),
    );
    found(
        "test-and-set, polled",
        increments::<Tas>(&[1, 1], Release::PolledOnly),
    );
}

#[test]
fn fence_towards_the_wrong_node() {
    found(
        "ticket, wrong node",
        increments::<Ticket>(&[1, 1], Release::WrongNode),
    );
    found(
        "test-and-set, wrong node",
        increments::<Tas>(&[1, 1], Release::WrongNode),
    );
}

/// Threads of one node have queue pairs of their own, so handing over needs the fence too.
#[test]
fn hand_over_without_fence() {
    found(
        "ticket, hand-over",
        increments::<Ticket>(&[2, 0], Release::Unfenced),
    );
    found(
        "test-and-set, hand-over",
        increments::<Tas>(&[2, 0], Release::Unfenced),
    );
}

/// Mistakes of the textbook's locks, in a few lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The ticket is drawn by reading and writing.
    DrawReadThenWrite,
    /// A put of this node serves the next ticket, before this node has its turn.
    ServesEarly,
    /// Takes the test-and-set lock by reading and writing.
    TestThenSet,
}

/// Words of the textbook's ticket lock (next ticket, served) and of its test-and-set lock.
struct Textbook(Channel<Fabric>);

impl Textbook {
    fn new(manager: &Manager<Fabric>) -> Textbook {
        let words = Channel::builder(manager, "locks")
            .kind("textbook")
            .region("words", 24)
            .join();
        Textbook(words.unwrap())
    }

    fn word(&self, index: usize) -> Target<'_, loco_sim::ModelRemote> {
        let remote = self.0.region("words").unwrap().remote(HOME).unwrap();
        Target {
            remote,
            offset: 8 * index,
        }
    }

    fn get(&self, thread: &Thread<Fabric>, index: usize) -> u64 {
        let buffer = thread.mem_ref(8).unwrap();
        buffer
            .get(self.word(index))
            .unwrap()
            .wait()
            .unwrap()
            .word(0)
            .unwrap()
    }

    fn put(&self, thread: &Thread<Fabric>, index: usize, value: u64) {
        thread
            .put_inline(&value.to_ne_bytes(), self.word(index))
            .unwrap()
            .forget();
        loco::fence::pair(thread, HOME).unwrap();
    }

    /// Reads a word until it satisfies `wanted`.
    fn until(&self, thread: &Thread<Fabric>, index: usize, wanted: impl Fn(u64) -> bool) {
        loop {
            let found = self.get(thread, index);
            if wanted(found) {
                return;
            }
            let wait = loco::fabric::Wait {
                what: "textbook",
                peers: loco::fabric::Peers::None,
                deadline: None,
            };
            let seen = loco::fabric::Seen {
                at: self.word(index),
                bytes: &found.to_ne_bytes(),
            };
            let pause = std::time::Duration::ZERO;
            loco::fabric::Fabric::pause(thread.fabric(), wait, pause, &seen).unwrap();
        }
    }

    fn ticket(&self, thread: &Thread<Fabric>, mistake: Mistake) {
        let ticket = if mistake == Mistake::DrawReadThenWrite {
            let ticket = self.get(thread, 0);
            self.put(thread, 0, ticket + 1);
            ticket
        } else {
            let buffer = thread.mem_ref(8).unwrap();
            buffer
                .fetch_add(self.word(0), 1)
                .unwrap()
                .wait()
                .unwrap()
                .word(0)
                .unwrap()
        };
        self.until(thread, 1, |serving| serving == ticket);
        if mistake == Mistake::ServesEarly {
            self.put(thread, 1, ticket + 1);
        }
        call("hold", || (), |()| "");
        if mistake != Mistake::ServesEarly {
            self.put(thread, 1, ticket + 1);
        }
    }

    fn test_and_set(&self, thread: &Thread<Fabric>, mistake: Mistake) {
        loop {
            self.until(thread, 2, |word| word == 0);
            if mistake == Mistake::TestThenSet {
                self.put(thread, 2, 1);
                break;
            }
            let buffer = thread.mem_ref(8).unwrap();
            let found = buffer.compare_swap(self.word(2), 0, 1).unwrap().wait().unwrap();
            if found.word(0).unwrap() == 0 {
                break;
            }
        }
        call("hold", || (), |()| "");
        self.put(thread, 2, 0);
    }
}

fn textbook(ticket: bool, mistake: Mistake) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |_| -> Vec<Body<Textbook>> {
            vec![Box::new(move |locks, thread| {
                if ticket {
                    locks.ticket(thread, mistake);
                } else {
                    locks.test_and_set(thread, mistake);
                }
            })]
        };
        let bodies = (0..2).map(body).collect();
        Plan::new(Textbook::new, bodies, spec::mutual_exclusion).build(world);
    }
}

#[test]
fn the_textbooks_locks_pass() {
    complete_on_ibta("textbook ticket lock", textbook(true, Mistake::None));
    complete_on_ibta("textbook test-and-set lock", textbook(false, Mistake::None));
}

#[test]
fn ticket_drawn_by_reading_and_writing() {
    found("drawn", textbook(true, Mistake::DrawReadThenWrite));
}

#[test]
fn next_one_served_before_the_critical_section_is_over() {
    found("served early", textbook(true, Mistake::ServesEarly));
}

#[test]
fn test_and_set_by_reading_and_writing() {
    found("test then set", textbook(false, Mistake::TestThenSet));
}
