//! Hand-made worlds in which an execution fails. Prints what the explorer says.
use loco::fabric::{Memory as _, NodeId, Peers, WordCell as _};
use loco::{Collective, Manager, SharedRegion, Thread};
use loco_sim::{Config, Faults, ModelFabric, Strategy, World, explore};
use std::sync::{Arc, Mutex};
use std::time::Duration;
type F = ModelFabric;
struct Site {
    region: SharedRegion<F>,
    thread: Mutex<Option<Thread<F>>>,
}
fn load(s: &Site, w: usize) -> u64 {
    s.region.local().unwrap().cell::<u64>(8 * w).unwrap().load()
}
fn wait(s: &Site, t: &Thread<F>, mut c: impl FnMut() -> bool) {
    let _ = s;
    t.wait_until("w", Peers::None, || c().then_some(())).unwrap();
}
fn two(
    world: &mut World,
    a: impl FnOnce(&Site, &Thread<F>) + Send + 'static,
    b: impl FnOnce(&Site, &Thread<F>) + Send + 'static,
) {
    let mk = |fabric| {
        let m = Manager::new(fabric).unwrap();
        let region = SharedRegion::new(&m, "data", 64).unwrap();
        m.wait_for_ready().unwrap();
        Arc::new(Site {
            region,
            thread: Mutex::new(Some(m.thread().unwrap())),
        })
    };
    let (na, nb) = (world.node(mk), world.node(mk));
    world.thread(&na, "a", move |s: &Arc<Site>| {
        let t = s.thread.lock().unwrap().take().unwrap();
        a(s, &t)
    });
    world.thread(&nb, "b", move |s: &Arc<Site>| {
        let t = s.thread.lock().unwrap().take().unwrap();
        b(s, &t)
    });
}
fn put(s: &Site, t: &Thread<F>, to: u16, w: usize, v: u64) {
    t.put_inline(&v.to_ne_bytes(), s.region.target(NodeId(to), 8 * w).unwrap())
        .unwrap()
        .forget();
}
fn report(name: &str, config: &Config, build: impl Fn(&mut World) + Sync) {
    for (how, config) in [
        ("reduced", config.clone()),
        (
            "whole",
            Config {
                reduction: false,
                ..config.clone()
            },
        ),
        (
            "random",
            Config {
                strategy: Strategy::Random {
                    executions: 20000,
                    seed: 1,
                },
                ..config.clone()
            },
        ),
    ] {
        match explore(&config, &build) {
            Ok(r) => println!(
                "{name} [{how}]: {:?} failure {:?} states {} seconds {:.2}",
                r.completeness,
                r.failure
                    .map(|f| f.to_string().lines().next().unwrap_or("").to_owned()),
                r.stats.states,
                r.stats.seconds
            ),
            Err(e) => println!("{name} [{how}]: error {e}"),
        }
    }
}
fn main() {
    let c = Config {
        time_max: Some(Duration::from_secs(60)),
        ..Config::default()
    };
    // 1. a condition that remembers a value it saw; the assertion follows at once.
    report("memory-at-once", &c, |w| {
        two(
            w,
            |s, t| {
                let mut saw = false;
                wait(s, t, || {
                    let v = load(s, 0);
                    saw |= v == 1;
                    v == 2
                });
                assert!(!saw);
            },
            |s, t| {
                put(s, t, 0, 0, 1);
                put(s, t, 0, 0, 2);
            },
        )
    });
    // 2. the assertion follows after another wait.
    report("memory-after-another-wait", &c, |w| {
        two(
            w,
            |s, t| {
                let mut saw = false;
                wait(s, t, || {
                    let v = load(s, 0);
                    saw |= v == 1;
                    v == 2
                });
                wait(s, t, || load(s, 1) == 1);
                assert!(!saw);
            },
            |s, t| {
                put(s, t, 0, 0, 1);
                put(s, t, 0, 0, 2);
                put(s, t, 0, 1, 1);
            },
        )
    });
    // 3. number of evaluations matters.
    report("memory-count-after-another-wait", &c, |w| {
        two(
            w,
            |s, t| {
                let mut n = 0;
                wait(s, t, || {
                    n += 1;
                    load(s, 0) >= 3
                });
                wait(s, t, || load(s, 1) == 1);
                assert!(n < 3, "{n}");
            },
            |s, t| {
                for v in 1..=3 {
                    put(s, t, 0, 0, v);
                }
                put(s, t, 0, 1, 1);
            },
        )
    });
    // 4. remembers, and what it remembers matters only in a rare execution at once.
    report("memory-rare", &c, |w| {
        two(
            w,
            |s, t| {
                let mut saw = false;
                wait(s, t, || {
                    let v = load(s, 0);
                    saw |= v == 1;
                    v == 2
                });
                let seen = (load(s, 1), load(s, 2), load(s, 3), load(s, 4));
                if seen == (0, 1, 0, 1) {
                    assert!(!saw);
                }
            },
            |s, t| {
                put(s, t, 0, 0, 1);
                put(s, t, 0, 0, 2);
                for i in 0..12 {
                    put(s, t, 0, 1 + i % 4, 1);
                    put(s, t, 0, 1 + i % 4, 0);
                }
            },
        )
    });
    // 5. shared cell between closures of the same wait: progress kept in an array (legal: keeps progress only).
    report("progress", &c, |w| {
        two(
            w,
            |s, t| {
                let mut left = 3;
                wait(s, t, || {
                    while left > 0 {
                        if load(s, 3 - left) == 0 {
                            return false;
                        }
                        left -= 1;
                    }
                    true
                });
                assert_eq!((load(s, 0), load(s, 1), load(s, 2)), (1, 1, 1), "words went back");
            },
            |s, t| {
                put(s, t, 0, 0, 1);
                put(s, t, 0, 0, 0);
                put(s, t, 0, 1, 1);
                put(s, t, 0, 2, 1);
            },
        )
    });
    // 6. max kept: the wait is over when the largest value seen is 3, although it went back.
    report("largest", &c, |w| {
        two(
            w,
            |s, t| {
                let mut most = 0;
                wait(s, t, || {
                    most = most.max(load(s, 0));
                    most >= 1 && load(s, 1) == 1
                });
                assert_ne!(load(s, 0), 0, "went back");
            },
            |s, t| {
                put(s, t, 0, 0, 1);
                put(s, t, 0, 0, 0);
                put(s, t, 0, 1, 1);
            },
        )
    });
    // 7. spin loop with loads and no waiting primitive, bounded.
    report("spin", &c, |w| {
        two(
            w,
            |s, t| {
                let _ = t;
                let mut n = 0;
                while load(s, 0) == 0 && n < 6 {
                    n += 1;
                }
                if n == 6 {
                    return;
                }
                assert_eq!(load(s, 1), 1);
            },
            |s, t| {
                put(s, t, 0, 1, 1);
                put(s, t, 0, 0, 1);
            },
        )
    });
    report("spin-wrong", &c, |w| {
        two(
            w,
            |s, t| {
                let _ = t;
                let mut n = 0;
                while load(s, 0) == 0 && n < 6 {
                    n += 1;
                }
                if n == 6 {
                    return;
                }
                assert_eq!(load(s, 1), 1);
            },
            |s, t| {
                put(s, t, 0, 0, 1);
                put(s, t, 0, 1, 1);
            },
        )
    });
    // 8. unbounded spin: what does it say?
    report(
        "spin-for-ever",
        &Config {
            steps_max: 2000,
            longer_fails: true,
            time_max: Some(Duration::from_secs(10)),
            ..c.clone()
        },
        |w| {
            two(
                w,
                |s, t| {
                    let _ = t;
                    while load(s, 0) == 0 {}
                    assert_eq!(load(s, 1), 1);
                },
                |s, t| {
                    put(s, t, 0, 0, 1);
                    put(s, t, 0, 1, 1);
                },
            )
        },
    );
    // 9. crash between two puts.
    report(
        "crash-between",
        &Config {
            faults: Faults {
                crashes: 1,
                idle_expiries: true,
                ..Faults::default()
            },
            ..c.clone()
        },
        |w| {
            two(
                w,
                |s, t| {
                    let r = t.wait_until("w", Peers::One(NodeId(1)), || (load(s, 0) == 1).then_some(()));
                    if r.is_err() {
                        assert_ne!(load(s, 0), 1, "arrived after the loss was known");
                    }
                },
                |s, t| {
                    put(s, t, 0, 0, 1);
                },
            )
        },
    );
    // 9b. end checks that a crash before a step breaks.
    let crash = || Config {
        faults: Faults {
            crashes: 1,
            idle_expiries: true,
            ..Faults::default()
        },
        ..c.clone()
    };
    report("crash-before-note", &crash(), |w| {
        two(w, |_, _| loco_sim::note("done"), |_, _| {});
        w.finally(|end| assert!(end.notes().contains(&"done".to_owned()), "no note"));
    });
    report("crash-between-notes", &crash(), |w| {
        two(
            w,
            |_, _| {
                loco_sim::note("one");
                loco_sim::note("two");
            },
            |_, _| {},
        );
        w.finally(|end| assert_ne!(end.notes(), ["one"], "half"));
    });
    report("crash-before-call", &crash(), |w| {
        two(w, |_, _| loco_sim::call("c", || (), |()| "r"), |_, _| {});
        w.finally(|end| assert_ne!(end.histories().len(), 0, "no call"));
    });
    report("crash-in-call", &crash(), |w| {
        two(w, |_, _| loco_sim::call("c", || (), |()| "r"), |_, _| {});
        w.finally(|end| {
            assert!(
                !format!("{:?}", end.histories()).contains("result: None"),
                "no return"
            )
        });
    });
    report("crash-between-stores", &crash(), |w| {
        two(
            w,
            |s, _| {
                for i in 0..2 {
                    s.region.local().unwrap().cell::<u64>(8 * i).unwrap().store(1_u64);
                }
                loco_sim::note("stored");
            },
            |_, _| {},
        );
        w.finally(|end| assert!(end.notes().len() == 1, "crashed"));
    });
    report("crash-after-put-before-second", &crash(), |w| {
        two(
            w,
            |s, t| {
                put(s, t, 1, 0, 1);
                put(s, t, 1, 1, 1);
            },
            |s, t| {
                let r = t.wait_until("w", Peers::One(NodeId(0)), || (load(s, 1) == 1).then_some(()));
                if r.is_err() {
                    assert_ne!(load(s, 0), 1, "only the first arrived");
                }
            },
        )
    });
    report(
        "suspicion-before-note",
        &Config {
            faults: Faults {
                suspicions: 1,
                idle_expiries: true,
                ..Faults::default()
            },
            ..c.clone()
        },
        |w| {
            two(
                w,
                |s, t| {
                    let r = t.put_inline(&1_u64.to_ne_bytes(), s.region.target(NodeId(1), 0).unwrap());
                    if r.is_ok() {
                        loco_sim::note("ok");
                    }
                },
                |_, _| {},
            );
            w.finally(|end| assert!(end.notes().contains(&"ok".to_owned()), "refused"));
        },
    );
    report(
        "expiry-before",
        &Config {
            faults: Faults {
                expiries: 1,
                ..Faults::default()
            },
            ..c.clone()
        },
        |w| {
            two(
                w,
                |s, t| {
                    let r = t.wait_until("w", Peers::None, || (load(s, 0) == 1).then_some(()));
                    assert!(r.is_ok(), "late");
                },
                |s, t| put(s, t, 0, 0, 1),
            )
        },
    );
    report(
        "expiry-although-there",
        &Config {
            faults: Faults {
                expiries: 1,
                ..Faults::default()
            },
            ..c.clone()
        },
        |w| {
            two(
                w,
                |s, t| {
                    let r = t.wait_until("w", Peers::None, || (load(s, 0) == 1).then_some(()));
                    if r.is_err() {
                        assert_eq!(load(s, 0), 0, "there at once after");
                    }
                },
                |s, t| put(s, t, 0, 0, 1),
            )
        },
    );
    // 10. collective
    for (name, faults) in [
        ("none", Faults::default()),
        (
            "expiry",
            Faults {
                expiries: 1,
                ..Faults::default()
            },
        ),
        (
            "crash",
            Faults {
                crashes: 1,
                idle_expiries: true,
                ..Faults::default()
            },
        ),
    ] {
        for nodes in [2_u16, 3] {
            for rounds in [1_u64, 2, 3] {
                for kind in 0..3 {
                    if nodes == 3 && (rounds == 3 || faults != Faults::default()) {
                        continue;
                    }
                    let config = Config {
                        faults,
                        time_max: Some(Duration::from_secs(15)),
                        ..Config::default()
                    };
                    let r = explore(&config, |world| collective(world, nodes, rounds, kind)).unwrap();
                    println!(
                        "collective {} nodes {nodes} rounds {rounds} kind {kind}: {:?} {} states {:.1}s failure {:?}",
                        name,
                        r.completeness,
                        r.stats.states,
                        r.stats.seconds,
                        r.failure
                            .map(|f| f.to_string().lines().next().unwrap_or("").to_owned())
                    );
                }
            }
        }
    }
}
fn collective(world: &mut World, nodes: u16, rounds: u64, kind: u32) {
    for _ in 0..nodes {
        let node = world.node(|fabric| {
            let m = Manager::new(fabric).unwrap();
            let c = Collective::<[u64; 2], F>::new(&m, "c").unwrap();
            m.wait_for_ready().unwrap();
            Arc::new(Mutex::new(Some((c, m.thread().unwrap()))))
        });
        world.thread(
            &node,
            "n",
            move |s: &Arc<Mutex<Option<(Collective<[u64; 2], F>, Thread<F>)>>>| {
                let (mut c, t) = s.lock().unwrap().take().unwrap();
                let me = u64::from(t.node_id().0);
                let v = |node: u64, round: u64| [100 * round + node, 1000 * round + node];
                for round in 1..=rounds {
                    let mut tries = 0;
                    loop {
                        let done = match kind {
                            0 => c.all_gather(&t, v(me, round)).map(|all| {
                                assert_eq!(
                                    all,
                                    (0..u64::from(nodes)).map(|n| v(n, round)).collect::<Vec<_>>()
                                )
                            }),
                            1 => c
                                .broadcast(&t, NodeId((round % u64::from(nodes)) as u16), v(me, round))
                                .map(|got| assert_eq!(got, v(round % u64::from(nodes), round))),
                            _ => c.gather(&t, NodeId(0), v(me, round)).map(|all| {
                                if let Some(all) = all {
                                    assert_eq!(
                                        all,
                                        (0..u64::from(nodes)).map(|n| v(n, round)).collect::<Vec<_>>()
                                    )
                                }
                            }),
                        };
                        match done {
                            Ok(()) => break,
                            Err(e) if e.is_timeout() && tries < 6 => tries += 1,
                            Err(e) if e.lost_peer().is_some() => return,
                            Err(e) => panic!("{e}"),
                        }
                    }
                }
            },
        );
    }
}
