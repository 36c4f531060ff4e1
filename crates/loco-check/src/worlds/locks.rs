//! The locks (LOCO'25 5.4): one thread of all nodes holds a lock at a time; who gets it next sees what the holder did while
//! it held the lock, to the memory of whichever node, as far as the scope of the release says; a try never waits.
//!
//! The worlds keep a counter under the lock: each holder reads it, finds the number of acquisitions before its own, and
//! puts the number after. A lock that is held twice, or released before the put is placed, shows up as a number that two
//! holders found.

use std::sync::Arc;

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{
    LockConfig, LockGuard, Manager, OnLoss, Result, SharedRegion, SharedVar, TasLock, Thread, TicketLock,
    Unlock,
};
use loco_sim::{World, call, note, spec};

use crate::methods::did;
use crate::rung::Rung;
use crate::stage::{
    Fabric, get_word, here, is_loss, must, nodes, notes, promise, put_word, put_words, run, unless_lost,
    until_in_time,
};

/// What the worlds ask of either lock.
trait Lock: Unlock<Fabric> + Sized + Send + Sync + 'static {
    fn new(manager: &Manager<Fabric>, home: NodeId, config: LockConfig) -> Result<Self>;
    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>>;
    fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<LockGuard<'a, Self, Fabric>>;
    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>>;
}

impl Lock for TicketLock<Fabric> {
    fn new(manager: &Manager<Fabric>, home: NodeId, config: LockConfig) -> Result<Self> {
        TicketLock::with_config(manager, "lock", home, config)
    }

    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TicketLock::lock");
        self.lock(thread, scope)
    }

    fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TicketLock::lock_until");
        self.lock_until(thread, scope, thread.deadline())
    }

    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>> {
        did("TicketLock::try_lock");
        self.try_lock(thread, scope)
    }
}

impl Lock for TasLock<Fabric> {
    fn new(manager: &Manager<Fabric>, home: NodeId, config: LockConfig) -> Result<Self> {
        TasLock::with_config(manager, "lock", home, config)
    }

    fn lock<'a>(&'a self, thread: &'a Thread<Fabric>, scope: Scope) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TasLock::lock");
        self.lock(thread, scope)
    }

    fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<LockGuard<'a, Self, Fabric>> {
        did("TasLock::lock_until");
        self.lock_until(thread, scope, thread.deadline())
    }

    fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<Fabric>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, Self, Fabric>>> {
        did("TasLock::try_lock");
        self.try_lock(thread, scope)
    }
}

struct Objects<L> {
    lock: L,
    /// Shared, so that sections that run on other threads can take it along.
    data: Arc<SharedRegion<Fabric>>,
    flag: SharedVar<u64, Fabric>,
}

fn make<L: Lock>(
    home: u16,
    config: LockConfig,
) -> impl Fn(&Manager<Fabric>) -> Result<Objects<L>> + Clone + Send {
    move |manager| {
        Ok(Objects {
            lock: L::new(manager, NodeId(home), config)?,
            data: Arc::new(SharedRegion::new(manager, "data", 64)?),
            flag: SharedVar::new(manager, "flag")?,
        })
    }
}

/// How a thread asks for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Lock,
    Until,
    Try,
    /// Released by dropping the guard.
    Drop,
}

/// A world of holders.
#[derive(Clone, Copy)]
struct Shape {
    nodes: u16,
    threads: usize,
    acquisitions: u64,
    /// The node of the lock's words.
    home: u16,
    /// The node of the counter.
    data: u16,
    scope: fn(NodeId) -> Scope,
    ask: Ask,
    hand_overs: u32,
    /// The counter is put from registered memory.
    from_memory: bool,
}

const PLAIN: Shape = Shape {
    nodes: 2,
    threads: 1,
    acquisitions: 1,
    home: 0,
    data: 0,
    scope: |_| Scope::Thread,
    ask: Ask::Lock,
    hand_overs: 16,
    from_memory: false,
};

/// What a holder does: counts on, on the node of the data and, for the threads of one node, on its own.
fn section<L: Lock>(objects: &Objects<L>, thread: &Thread<Fabric>, shape: Shape) {
    let me = thread.node_id().0;
    call("hold", || (), |()| "");
    let offset = 8 * usize::from(me) + 8;
    let local = here(&objects.data, offset);
    let count = match shape.data == me {
        true => here(&objects.data, 0),
        false => get_word(thread, &objects.data, shape.data, 0),
    };
    note(format!("count {count}"));
    note(format!("local {me} {local}"));
    must(objects.data.write(offset, &(local + 1).to_ne_bytes()));
    if shape.data == me {
        must(objects.data.write(0, &(count + 1).to_ne_bytes()));
    } else if shape.from_memory {
        put_words(thread, &objects.data, shape.data, 0, &[count + 1]);
    } else {
        put_word(thread, &objects.data, shape.data, 0, count + 1);
    }
}

fn holders<L: Lock>(shape: Shape) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig {
            on_loss: OnLoss::Recover,
            local_hand_overs_max: shape.hand_overs,
        };
        let at = nodes(world, shape.nodes, shape.threads, make::<L>(shape.home, config));
        for node in 0..shape.nodes {
            for own in 0..shape.threads {
                let name = format!("node {node} thread {own}");
                run(
                    world,
                    &at[usize::from(node)],
                    own,
                    &name,
                    move |objects, thread| {
                        let scope = (shape.scope)(NodeId(shape.data));
                        for _ in 0..shape.acquisitions {
                            let guard = match shape.ask {
                                Ask::Lock | Ask::Drop => Some(must(objects.lock.lock(thread, scope))),
                                Ask::Until => Some(must(objects.lock.lock_until(thread, scope))),
                                Ask::Try => must(objects.lock.try_lock(thread, scope)),
                            };
                            let Some(guard) = guard else { continue };
                            assert!(!guard.recovered(), "nobody was lost");
                            section(objects, thread, shape);
                            match shape.ask {
                                Ask::Drop => drop(guard),
                                _ => must(guard.release()),
                            }
                        }
                    },
                );
            }
        }
        promise(world, spec::mutual_exclusion);
        let all = u64::from(shape.nodes) * shape.threads as u64 * shape.acquisitions;
        notes(world, move |lines| {
            distinct(lines, "count", (shape.ask != Ask::Try).then_some(all));
            for node in 0..shape.nodes {
                distinct(lines, &format!("local {node}"), None);
            }
        });
    }
}

/// What goes wrong in a world of holders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// A wait ends by its deadline; the holder asks again.
    Expiry,
    /// A wait ends by its deadline; the holder goes away.
    GiveUp,
    /// A node stops, or is declared lost.
    Loss,
}

/// Holders that each count on under the lock, on the home's memory, and look that nobody else does meanwhile.
fn faulty<L: Lock>(shape: Shape, wrong: Wrong) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig {
            on_loss: OnLoss::Recover,
            local_hand_overs_max: shape.hand_overs,
        };
        let at = nodes(world, shape.nodes, shape.threads, make::<L>(shape.home, config));
        for node in 0..shape.nodes {
            for own in 0..shape.threads {
                let name = format!("node {node} thread {own}");
                run(
                    world,
                    &at[usize::from(node)],
                    own,
                    &name,
                    move |objects, thread| {
                        for _ in 0..shape.acquisitions {
                            let asked = match wrong {
                                Wrong::Expiry => until_in_time(|| objects.lock.lock(thread, Scope::Thread)),
                                _ => objects.lock.lock(thread, Scope::Thread),
                            };
                            let guard = match asked {
                                Err(error) if wrong == Wrong::GiveUp && error.is_timeout() => continue,
                                Err(error) if wrong == Wrong::Loss && is_loss(&error) => return,
                                asked => must(asked),
                            };
                            if alone(objects, thread, shape).is_none() {
                                assert!(wrong == Wrong::Loss);
                                return;
                            }
                            match guard.release() {
                                Err(error) if wrong == Wrong::Loss && is_loss(&error) => return,
                                // The fence was late: the lock is released all the same.
                                Err(error) if error.is_timeout() => {}
                                released => must(released),
                            }
                        }
                    },
                );
            }
        }
        if wrong != Wrong::Loss {
            notes(world, |lines| distinct(lines, "count", None));
        }
    }
}

/// Counts on, and finds the count as it left it: nobody else holds the lock. Nothing if a node is lost.
fn alone<L: Lock>(objects: &Objects<L>, thread: &Thread<Fabric>, shape: Shape) -> Option<()> {
    let get = || {
        unless_lost(until_in_time(|| {
            let target = objects.data.target(NodeId(shape.data), 0)?;
            thread.mem_ref(8)?.get(target)?.wait()?.word(0)
        }))
    };
    let count = get()?;
    note(format!("count {count}"));
    let target = unless_lost(objects.data.target(NodeId(shape.data), 0))?;
    unless_lost(thread.put_inline(&(count + 1).to_ne_bytes(), target))?.forget();
    let again = get()?;
    assert_eq!(again, count + 1, "nobody else counts while the lock is held");
    Some(())
}

/// The numbers that holders found are all those from 0, each once: nobody overwrote another's, or missed it.
fn distinct(lines: &[String], what: &str, count: Option<u64>) {
    let mut found: Vec<u64> = lines
        .iter()
        .filter_map(|line| line.strip_prefix(what)?.trim().parse().ok())
        .collect();
    found.sort_unstable();
    let expected: Vec<u64> = (0..found.len() as u64).collect();
    assert_eq!(
        found, expected,
        "each holder sees what the one before it did ({what})"
    );
    if let Some(count) = count {
        assert_eq!(found.len() as u64, count, "every thread got the lock");
    }
}

/// One thread tries while another holds: it is told at once, and when the lock is free a try succeeds.
fn tries<L: Lock>(world: &mut World) {
    let at = nodes(world, 2, 2, make::<L>(0, LockConfig::default()));
    run(world, &at[0], 0, "holder", |objects, thread| {
        let guard = must(objects.lock.lock(thread, Scope::Thread));
        call("hold", || (), |()| "");
        must(guard.release());
        must(loco::fence::thread(thread));
        objects.flag.write(1);
        must(objects.flag.bcast_all(thread)).forget();
    });
    run(world, &at[1], 0, "tries", |objects, thread| {
        if let Some(guard) = must(objects.lock.try_lock(thread, Scope::Thread)) {
            call("hold", || (), |()| "");
            must(guard.release());
        }
        must(objects.flag.wait_until(thread, |flag| flag == 1));
        match must(objects.lock.try_lock(thread, Scope::Thread)) {
            Some(guard) => must(guard.release()),
            None => panic!("the lock is free, and nobody else wants it"),
        }
    });
    promise(world, spec::mutual_exclusion);
}

/// Threads of two nodes run sections by `combine`; each section runs once.
fn combined(threads: usize) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(
            world,
            2,
            threads,
            make::<TasLock<Fabric>>(0, LockConfig::default()),
        );
        for (node, at) in at.iter().enumerate() {
            for own in 0..threads {
                run(
                    world,
                    at,
                    own,
                    &format!("node {node} thread {own}"),
                    move |objects, thread| {
                        did("TasLock::combine");
                        // The section may run on another thread of the node, so it takes what it needs along.
                        let data = Arc::clone(&objects.data);
                        let ran = must(objects.lock.combine(thread, Scope::Thread, move |runner| {
                            let count = match runner.node_id().0 {
                                0 => here(&data, 0),
                                _ => get_word(runner, &data, 0, 0),
                            };
                            match runner.node_id().0 {
                                0 => must(data.write(0, &(count + 1).to_ne_bytes())),
                                _ => put_word(runner, &data, 0, 0, count + 1),
                            }
                            count
                        }));
                        note(format!("count {ran}"));
                    },
                );
            }
        }
        let all = 2 * threads as u64;
        notes(world, move |lines| distinct(lines, "count", Some(all)));
    }
}

fn rungs<L: Lock>() -> Vec<Rung> {
    vec![
        Rung::new("two-nodes", holders::<L>(PLAIN)),
        Rung::new("two-nodes-glob", holders::<L>(PLAIN)).glob(),
        Rung::new(
            "pair",
            holders::<L>(Shape {
                scope: Scope::Pair,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "node-scope",
            holders::<L>(Shape {
                scope: |_| Scope::Node,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "memory",
            holders::<L>(Shape {
                data: 1,
                from_memory: true,
                ..PLAIN
            }),
        ),
        Rung::new(
            "dropped",
            holders::<L>(Shape {
                ask: Ask::Drop,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "until",
            holders::<L>(Shape {
                ask: Ask::Until,
                home: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "tries",
            holders::<L>(Shape {
                ask: Ask::Try,
                acquisitions: 2,
                ..PLAIN
            }),
        ),
        Rung::new("try-when-free", tries::<L>),
        Rung::new(
            "twice",
            holders::<L>(Shape {
                acquisitions: 2,
                ..PLAIN
            }),
        ),
        Rung::new(
            "expiry",
            faulty::<L>(
                Shape {
                    acquisitions: 2,
                    ..PLAIN
                },
                Wrong::Expiry,
            ),
        )
        .expiries(1),
        Rung::new(
            "give-up",
            faulty::<L>(
                Shape {
                    acquisitions: 2,
                    ..PLAIN
                },
                Wrong::GiveUp,
            ),
        )
        .expiries(1),
        Rung::new("crash", faulty::<L>(PLAIN, Wrong::Loss)).crash(),
        Rung::new(
            "crash-of-three",
            faulty::<L>(Shape { nodes: 3, ..PLAIN }, Wrong::Loss),
        )
        .crash(),
        Rung::new("suspicion", faulty::<L>(PLAIN, Wrong::Loss)).suspicion(),
        Rung::new(
            "suspicion-of-three",
            faulty::<L>(Shape { nodes: 3, ..PLAIN }, Wrong::Loss),
        )
        .suspicion(),
        Rung::new(
            "two-threads-give-up",
            faulty::<L>(Shape { threads: 2, ..PLAIN }, Wrong::GiveUp),
        )
        .expiries(1),
        Rung::new(
            "crash-twice",
            faulty::<L>(
                Shape {
                    acquisitions: 2,
                    ..PLAIN
                },
                Wrong::Loss,
            ),
        )
        .crash(),
        Rung::new("two-threads", holders::<L>(Shape { threads: 2, ..PLAIN })),
        Rung::new("two-threads-glob", holders::<L>(Shape { threads: 2, ..PLAIN })).glob(),
        Rung::new(
            "two-threads-no-hand-over",
            holders::<L>(Shape {
                threads: 2,
                hand_overs: 0,
                data: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "two-threads-one-hand-over",
            holders::<L>(Shape {
                threads: 2,
                hand_overs: 1,
                home: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "three-nodes",
            holders::<L>(Shape {
                nodes: 3,
                data: 2,
                ..PLAIN
            }),
        ),
        Rung::new(
            "three-nodes-data-apart",
            holders::<L>(Shape {
                nodes: 3,
                data: 1,
                home: 2,
                ..PLAIN
            }),
        ),
        Rung::new(
            "two-threads-twice",
            holders::<L>(Shape {
                threads: 2,
                acquisitions: 2,
                hand_overs: 1,
                ..PLAIN
            }),
        ),
        Rung::new(
            "two-threads-tries",
            holders::<L>(Shape {
                threads: 2,
                ask: Ask::Try,
                ..PLAIN
            }),
        ),
    ]
}

/// The worlds of the ticket lock.
pub(crate) fn ticket_rungs() -> Vec<Rung> {
    rungs::<TicketLock<Fabric>>()
}

/// The worlds of the test-and-set lock.
pub(crate) fn tas_rungs() -> Vec<Rung> {
    let mut all = rungs::<TasLock<Fabric>>();
    all.push(Rung::new("combine", combined(1)));
    all.push(Rung::new("combine-two-threads", combined(2)));
    all
}
