//! Tests grants that arrive later than those of later tickets, and tickets that a node keeps after an error.
//!
//! Relies on the state machine of an acquisition, which stands still wherever a test wants.

use loco_fabric::{AtomicCell, Fabric, Peers, Wait, WordCell};

use super::slot::{Announcement, Slot};
use super::{Acquisition, NEXT, Progress, Release, TicketLock};
use crate::fabric::{AnyConfig, AnyFabric, FabricChoice};
use crate::fence::Scope;
use crate::objects::locks::guard::LockGuard;
use crate::operations::shown;
use crate::{Barrier, Manager, Result, Thread, testing};

/// Waits until something that arrives has made `arrived` true.
fn wait_for(lock: &TicketLock, thread: &Thread, arrived: impl Fn() -> bool) -> Result<()> {
    let wait = Wait {
        what: lock.channel.name(),
        peers: Peers::None,
        deadline: Some(thread.deadline()),
    };
    Ok(thread
        .fabric()
        .wait_for_arrival(wait, || arrived().then_some(()))?)
}

/// Takes the steps of `acquisition` that need no other node.
fn end_steps(
    lock: &TicketLock,
    thread: &Thread,
    acquisition: &mut Acquisition<AnyFabric>,
    mut progress: Progress,
) -> Result<Progress> {
    while acquisition.is_in_step() && matches!(progress, Progress::UnderWay) {
        acquisition.wait_for_step(thread)?;
        progress = acquisition.go_on(lock, thread);
    }
    Ok(progress)
}

/// Takes steps of `acquisition` until the lock is held.
fn hold(lock: &TicketLock, thread: &Thread, acquisition: &mut Acquisition<AnyFabric>) -> Result<()> {
    loop {
        let progress = acquisition.go_on(lock, thread);
        match end_steps(lock, thread, acquisition, progress)? {
            Progress::UnderWay => wait_for(lock, thread, || acquisition.has_ended(lock))?,
            Progress::Holds(false) => return Ok(()),
            _ => panic!("nobody is lost"),
        }
    }
}

/// Begins to take the lock, which another node holds. Returns when the ticket is claimed.
fn claim(lock: &TicketLock, thread: &Thread) -> Result<Acquisition<AnyFabric>> {
    let (mut acquisition, begun) = Acquisition::begin(lock, thread)?;
    let claimed = end_steps(lock, thread, &mut acquisition, begun)?;
    assert!(
        matches!(claimed, Progress::UnderWay),
        "another node holds the lock"
    );
    Ok(acquisition)
}

/// Releases the lock to another node.
fn release(lock: &TicketLock, thread: &Thread, mut acquisition: Acquisition<AnyFabric>) -> Result<()> {
    let begun = acquisition.release(lock, thread, Release::Placed { announced: false });
    let released = end_steps(lock, thread, &mut acquisition, begun)?;
    assert!(matches!(released, Progress::Over(Ok(()))));
    acquisition.end(thread);
    Ok(())
}

/// Begins to release the lock, up to where the next ticket is served and its grant is not sent.
fn serve(lock: &TicketLock, thread: &Thread, acquisition: &mut Acquisition<AnyFabric>) -> Result<()> {
    let next = AtomicCell::load(&lock.mine.held);
    let mut released = acquisition.release(lock, thread, Release::Placed { announced: false });
    loop {
        assert!(
            matches!(released, Progress::UnderWay),
            "the exchange is under way"
        );
        acquisition.wait_for_step(thread)?;
        let slot = Slot::from_word(lock.words.read(thread, lock.slot(next))?);
        if slot.turn_of(next).is_some() {
            return Ok(());
        }
        // It has expected that nobody waits.
        released = acquisition.go_on(lock, thread);
    }
}

/// Returns the ticket that the node has drawn last.
fn drawn(lock: &TicketLock) -> u64 {
    AtomicCell::load(&lock.mine.drawn) - 1
}

/// Returns true if the grant of `ticket` is the last that has arrived.
fn is_granted(lock: &TicketLock, ticket: u64) -> bool {
    lock.grant.load() >> 1 == ticket + 1
}

/// Lets node 1 wait for a ticket that node 2 serves, while node 0 owes it the grant of the ticket before. That grant arrives after the other
/// if `covers`, and otherwise before it. Node 1 waits by steps, or within a call.
fn with_a_late_grant(covers: bool, by_steps: bool) {
    // Over shared memory a release is over at once.
    let config = AnyConfig::default().choice(FabricChoice::Tcp);
    let bring_up = |mesh| AnyFabric::new(mesh, config.clone());
    testing::run_on(3, bring_up, |fabric| {
        let manager = Manager::new(fabric)?;
        // What node 0 does there has ended only when its thread has waited.
        let lock = TicketLock::new(&manager, "lock", manager.nodes()[1])?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        for _ in 0..10 {
            match manager.node().0 {
                0 => {
                    let (mut mine, begun) = Acquisition::begin(&lock, &thread)?;
                    let held = end_steps(&lock, &thread, &mut mine, begun)?;
                    assert!(matches!(held, Progress::Holds(false)), "the lock is free");
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // node 1 has claimed the next ticket
                    serve(&lock, &thread, &mut mine)?;
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // node 2 has claimed the ticket after it
                    bar.wait(&thread)?; // node 1 has released the lock, and claimed a ticket again
                    if covers {
                        bar.wait(&thread)?; // the grant of node 2 has arrived
                    }
                    let progress = mine.go_on(&lock, &thread);
                    let released = end_steps(&lock, &thread, &mut mine, progress)?;
                    assert!(matches!(released, Progress::Over(Ok(()))));
                    mine.end(&thread);
                    if !covers {
                        bar.wait(&thread)?;
                    }
                }
                1 => {
                    bar.wait(&thread)?;
                    let mut mine = claim(&lock, &thread)?;
                    let late = drawn(&lock);
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // the ticket is served
                    bar.wait(&thread)?; // node 2 has claimed the next one
                    assert!(!mine.has_ended(&lock), "the grant is not sent");
                    let now = thread.now();
                    let given_up = mine.give_up(&lock, &thread, (now, now));
                    assert!(matches!(given_up, Progress::Holds(false)), "it is served");
                    release(&lock, &thread, mine)?;

                    let mut again = match by_steps {
                        true => Some(claim(&lock, &thread)?),
                        false => {
                            assert!(lock.turn.try_enter());
                            lock.prepare(&thread)?;
                            assert_eq!(lock.draw(&thread)?.1, None, "node 2 holds the lock");
                            None
                        }
                    };
                    let ticket = drawn(&lock);
                    bar.wait(&thread)?;
                    if covers {
                        wait_for(&lock, &thread, || is_granted(&lock, ticket))?;
                        bar.wait(&thread)?;
                    }
                    wait_for(&lock, &thread, || is_granted(&lock, late))?;
                    if !covers {
                        if let Some(again) = &mut again {
                            let progress = again.go_on(&lock, &thread);
                            let looked = end_steps(&lock, &thread, again, progress)?;
                            assert!(matches!(looked, Progress::UnderWay), "node 2 holds the lock");
                            assert!(!again.has_ended(&lock), "it looks once");
                        }
                        bar.wait(&thread)?;
                    }
                    match again {
                        Some(mut again) => {
                            hold(&lock, &thread, &mut again)?;
                            release(&lock, &thread, again)?;
                        }
                        None => {
                            let recovered = lock.wait_for_turn(&thread, ticket, None, None)?;
                            lock.got(ticket, recovered);
                            shown::hold(lock.channel.shown());
                            LockGuard::new(&lock, &thread, Scope::Nothing, recovered).release()?;
                        }
                    }
                }
                _ => {
                    bar.wait(&thread)?;
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // node 1 is served
                    let mut mine = claim(&lock, &thread)?;
                    bar.wait(&thread)?;
                    hold(&lock, &thread, &mut mine)?;
                    bar.wait(&thread)?; // node 1 has claimed a ticket again
                    if !covers {
                        bar.wait(&thread)?; // the grant of node 0 has arrived
                    }
                    release(&lock, &thread, mine)?;
                    if covers {
                        bar.wait(&thread)?;
                    }
                }
            }
            for _ in 0..3 {
                lock.lock(&thread, Scope::Nothing)?.release()?;
            }
            bar.wait(&thread)?;
        }
        Ok(())
    });
}

#[test]
fn a_grant_that_is_covered_is_found_by_steps() {
    with_a_late_grant(true, true);
}

#[test]
fn a_grant_that_is_covered_is_found_by_a_call() {
    with_a_late_grant(true, false);
}

#[test]
fn a_grant_that_covers_nothing_is_passed_over_by_steps() {
    with_a_late_grant(false, true);
}

#[test]
fn a_grant_that_covers_nothing_is_passed_over_by_a_call() {
    with_a_late_grant(false, false);
}

/// How a ticket is kept and taken up.
#[derive(Clone, Copy)]
struct Kept {
    /// Whether its claim has succeeded.
    claimed: bool,
    /// Whether it has the turn before it is taken up.
    served: bool,
    /// Whether it is taken up by a try.
    by_try: bool,
}

/// Lets node 1 keep a ticket, as after an outage, while node 0 holds the lock, and take it up.
fn takes_up(kept: Kept) {
    let config = AnyConfig::default().choice(FabricChoice::Tcp);
    let bring_up = |mesh| AnyFabric::new(mesh, config.clone());
    testing::run_on(2, bring_up, |fabric| {
        let manager = Manager::new(fabric)?;
        let lock = TicketLock::new(&manager, "lock", manager.nodes()[0])?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        for _ in 0..5 {
            if manager.node().0 == 0 {
                let guard = lock.lock(&thread, Scope::Nothing)?;
                bar.wait(&thread)?;
                bar.wait(&thread)?; // node 1 keeps the ticket
                if !kept.served {
                    bar.wait(&thread)?; // and waits with it again
                }
                guard.release()?;
                bar.wait(&thread)?;
            } else {
                bar.wait(&thread)?;
                let ticket = match kept.claimed {
                    true => {
                        let mine = claim(&lock, &thread)?;
                        let ticket = drawn(&lock);
                        lock.keep(ticket);
                        mine.abandon(&lock);
                        mine.end(&thread);
                        ticket
                    }
                    false => {
                        lock.announce(&thread, Announcement::Drawing)?;
                        let ticket = lock.words.fetch_add(&thread, NEXT, 1)?;
                        lock.keep(ticket);
                        ticket
                    }
                };
                bar.wait(&thread)?;
                if kept.served {
                    bar.wait(&thread)?;
                    let guard = match kept.by_try {
                        true => lock.try_lock(&thread, Scope::Nothing)?.expect("it is served"),
                        false => lock.lock(&thread, Scope::Nothing)?,
                    };
                    assert_eq!(AtomicCell::load(&lock.mine.held), ticket + 1);
                    guard.release()?;
                    // Else others could recover nothing after a loss.
                    let announced = lock.words.peek(&thread, lock.own_announcement)?;
                    assert_eq!(Announcement::from_word(announced), Announcement::Drew(ticket));
                } else {
                    let mut mine = claim(&lock, &thread)?;
                    bar.wait(&thread)?;
                    hold(&lock, &thread, &mut mine)?;
                    assert_eq!(AtomicCell::load(&lock.mine.held), ticket + 1);
                    release(&lock, &thread, mine)?;
                    bar.wait(&thread)?;
                }
            }
            lock.lock(&thread, Scope::Nothing)?.release()?;
            bar.wait(&thread)?;
        }
        Ok(())
    });
}

#[test]
fn a_ticket_that_was_kept_waits_again() {
    for claimed in [true, false] {
        takes_up(Kept {
            claimed,
            served: false,
            by_try: false,
        });
    }
}

#[test]
fn a_ticket_that_was_kept_and_is_served_is_used() {
    for (claimed, by_try) in [(true, true), (true, false), (false, true), (false, false)] {
        takes_up(Kept {
            claimed,
            served: true,
            by_try,
        });
    }
}
