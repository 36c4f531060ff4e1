//! Tests the exact bound of fairness. A node that has drawn its ticket is overtaken by another node's threads
//! only as often as those may hand the lock to one another, however eager they are.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use super::{NEXT, TicketLock};
use crate::fence::Scope;
use crate::{Barrier, LockConfig, Manager, Result, Thread, testing};

/// The number of times that the other node gets the lock while it is watched.
const TURNS: u32 = 100;
/// The number of overtakings that counts as unbounded.
const ENOUGH: u32 = 1000;

/// The knowledge of the eager node's threads and the waiting node. Only the holder of the lock changes it.
#[derive(Default)]
struct Watch {
    /// Set when a thread of the eager node has found the other node's ticket drawn.
    waits: AtomicBool,
    /// The acquisitions of the eager node since then.
    overtaken: AtomicU32,
    /// The most acquisitions in one turn.
    most: AtomicU32,
    over: AtomicBool,
}

impl Watch {
    /// Makes one acquisition of the eager node. Keeps the lock until the other node has drawn its ticket and
    /// there is a thread to hand the lock to.
    fn overtake(&self, thread: &Thread, lock: &TicketLock) -> Result<()> {
        let guard = lock.lock(thread, Scope::Nothing)?;
        let over = || self.over.load(SeqCst);
        if self.waits.load(SeqCst) && !over() {
            let overtaken = self.overtaken.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(overtaken, SeqCst);
            if overtaken == ENOUGH {
                self.over.store(true, SeqCst);
            }
        }
        // The number is one more than the ticket, which is the next ticket to be drawn.
        let next = lock.mine.held.load(SeqCst);
        while !over() && lock.words.peek(thread, NEXT)? == next {
            std::thread::yield_now();
        }
        self.waits.store(true, SeqCst);
        while !over() && !lock.turn.may_stay(u32::MAX) {
            std::thread::yield_now();
        }
        guard.release()
    }

    /// Makes one acquisition of the other node. Returns whether it was seen to wait.
    fn turn(&self, thread: &Thread, lock: &TicketLock) -> Result<bool> {
        let guard = lock.lock(thread, Scope::Nothing)?;
        let waited = self.waits.swap(false, SeqCst);
        self.overtaken.store(0, SeqCst);
        guard.release()?;
        Ok(waited)
    }
}

/// Returns the most times that the waiting node is overtaken when the other node's three threads keep the
/// lock as long as they may.
fn overtaken(local_hand_overs_max: u32) -> u32 {
    let watch = Watch::default();
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = LockConfig::default().local_hand_overs_max(local_hand_overs_max);
        let home = manager.nodes()[0];
        let lock = TicketLock::with_config(&manager, "lock", home, config)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        if manager.node() != home {
            let thread = manager.thread()?;
            let mut turns = 0;
            while turns < TURNS && !watch.over.load(SeqCst) {
                turns += u32::from(watch.turn(&thread, &lock)?);
            }
            watch.over.store(true, SeqCst);
            return end.wait(&thread);
        }
        std::thread::scope(|scope| {
            let eager = || -> Result<()> {
                let thread = manager.thread()?;
                while !watch.over.load(SeqCst) {
                    watch.overtake(&thread, &lock)?;
                }
                Ok(())
            };
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(eager)).collect();
            threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
        })?;
        end.wait(&manager.thread()?)
    });
    watch.most.into_inner()
}

#[test]
fn who_has_a_ticket_is_overtaken_by_as_many_hand_overs_as_are_allowed() {
    for bound in [0, 1, 4, 16] {
        assert_eq!(overtaken(bound), bound);
    }
}

/// Without the bound, hand-overs starve the other node, and the test above would notice it.
#[test]
fn hand_overs_without_bound_starve_the_other_node() {
    assert_eq!(overtaken(u32::MAX), ENOUGH);
}
