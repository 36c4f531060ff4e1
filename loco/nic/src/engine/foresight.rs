//! Whether a call that has found a completion is to look a little longer for what comes next.
//!
//! Two programs that write to each other in turn, and look for the other's data in their memory, make no call while they wait, so that
//! the thread has to be woken for each write. The answer to a write comes right before the other's write, in a call that looks for the
//! completion. If that call looks on for as long as the other takes to write, it carries the write out, and nobody is woken.
//!
//! This learns whether that is so: a request that fills no receive came to the thread soon after a call had found the end of the last
//! request under way. What comes to a call that looks on confirms it. To look on in vain costs more than one such request gains. While it
//! is expected so, requests are left to calls as long as the process has a request of its own under way: then it is to call again. Only a
//! NIC that takes no liberties and has no other hosts learns: with liberties, when something is late is for them to say, and a look at
//! another host's socket takes long.

/// So soon after a completion, in nanoseconds, what comes to the thread might have come to the call. It includes the thread's waking.
const SOON: u64 = 30_000;
/// For so long, in nanoseconds, a call looks on.
const LOOKS_ON: u64 = 2_000;
/// So often it does at least: it may have been away for that time, and what it waits for has come.
const LOOKS: u32 = 16;
/// For so long, in nanoseconds, these looks may take.
const LOOKS_MAX: u64 = 20_000;
/// The most credit that there can be.
const MOST: u32 = 16;
/// The credit that is lost when a call has looked on in vain.
const VAIN: u32 = 4;
/// A request that was left to calls for so long, in nanoseconds, would have come to the thread sooner.
const LATE: u64 = 50_000;
/// The most confirmations that are demanded before anything is expected.
const DEMAND_MAX: u32 = 256;
/// After so many requests that came to a call, half as many confirmations are demanded.
const PROVEN: u32 = 64;

/// Counts the requests of others that have come right after completions, and says whether to expect another one.
pub(super) struct Foresight {
    /// How much speaks for looking on.
    credit: u32,
    /// When a call has last returned a completion, if nothing has come since.
    returned: Option<u64>,
    /// The number of confirmations that are demanded.
    demand: u32,
    /// The number of those that have come.
    confirmed: u32,
    /// The number of requests that came to a call since the demand has changed.
    proven: u32,
    /// Since when requests are left to calls because of this, or when a call has last looked for them.
    left_at: Option<u64>,
}

impl Default for Foresight {
    fn default() -> Foresight {
        Foresight {
            credit: 0,
            returned: None,
            demand: 1,
            confirmed: 0,
            proven: 0,
            left_at: None,
        }
    }
}

impl Foresight {
    /// Returns whether something is expected right after the next completion.
    pub fn expects(&self) -> bool {
        self.credit > 0
    }

    /// Takes note that a call has found a completion. Returns for how long it is to look on, if it is.
    pub fn completed(&mut self, now: u64) -> Option<Patience> {
        self.returned = Some(now);
        self.expects().then_some(Patience { begun: now, looks: 0 })
    }

    /// Takes note that a request has come to the thread.
    pub fn came_to_thread(&mut self, now: u64) {
        if self
            .returned
            .take()
            .is_some_and(|at| now.saturating_sub(at) < SOON)
        {
            self.is_confirmed();
        }
    }

    /// Takes note that a request has come to a call with a completion, or while it looked on.
    pub fn came_to_call(&mut self) {
        self.returned = None;
        self.is_confirmed();
        self.proven += 1;
        if self.proven >= PROVEN {
            self.proven = 0;
            self.demand = (self.demand / 2).max(1);
        }
    }

    fn is_confirmed(&mut self) {
        self.confirmed = self.demand.min(self.confirmed + 1);
        if self.confirmed == self.demand {
            self.credit = MOST.min(self.credit + 1);
        }
    }

    /// Takes note that a call has looked on in vain, or had no reason to.
    pub fn in_vain(&mut self) {
        self.credit = self.credit.saturating_sub(VAIN);
    }

    /// Takes note that a request was left to calls, and none came for long. Twice as much has to speak for it the next time.
    pub fn is_mistaken(&mut self) {
        *self = Foresight {
            demand: DEMAND_MAX.min(self.demand * 2),
            left_at: self.left_at,
            ..Foresight::default()
        };
    }

    /// Takes note that others may leave requests to calls for another reason, or for none.
    pub fn is_overruled(&mut self) {
        self.left_at = None;
    }

    /// Takes note that requests are left to calls because of this.
    pub fn leaves(&mut self, now: u64) {
        self.left_at = Some(now);
    }

    /// Takes note that a call looks for requests that were left to it. Returns true if they may have waited for long.
    pub fn looks(&mut self, now: u64) -> bool {
        let left_at = self.left_at.replace(now);
        left_at.is_some_and(|at| now.saturating_sub(at) > LATE)
    }

    /// Returns whether requests are left to calls because of this.
    pub fn has_left(&self) -> bool {
        self.left_at.is_some()
    }
}

/// For how long a call looks on.
pub(super) struct Patience {
    begun: u64,
    looks: u32,
}

impl Patience {
    /// Returns whether the call is to look once more.
    pub fn lasts(&mut self, now: u64) -> bool {
        self.looks += 1;
        let most = if self.looks <= LOOKS { LOOKS_MAX } else { LOOKS_ON };
        now < self.begun + most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_looks_on_if_a_request_came_soon_after_the_last() {
        let mut foresight = Foresight::default();
        assert!(foresight.completed(1000).is_none());
        foresight.came_to_thread(1000 + SOON);
        assert!(foresight.completed(50_000).is_none());
        foresight.came_to_thread(50_001);
        let mut patience = foresight.completed(60_000).unwrap();
        assert!((0..LOOKS).all(|_| patience.lasts(60_000 + LOOKS_MAX - 1)));
        assert!(patience.lasts(60_000 + LOOKS_ON - 1) && !patience.lasts(60_000 + LOOKS_ON));
        let mut patience = foresight.completed(60_000).unwrap();
        assert!(!patience.lasts(60_000 + LOOKS_MAX));
    }

    #[test]
    fn of_what_comes_after_a_completion_the_first_counts() {
        let mut foresight = Foresight::default();
        assert!(foresight.completed(0).is_none());
        (1..=2 * VAIN).for_each(|at| foresight.came_to_thread(at.into()));
        foresight.in_vain();
        assert!(foresight.completed(100).is_none());
    }

    #[test]
    fn who_looks_on_in_vain_ceases_and_begins_again() {
        let mut foresight = Foresight::default();
        for _ in 0..3 {
            for at in 0..100 {
                let _ = foresight.completed(at);
                foresight.came_to_thread(at);
            }
            for _ in 0..MOST / VAIN {
                assert!(foresight.completed(200).is_some());
                foresight.in_vain();
            }
            assert!(foresight.completed(200).is_none());
        }
    }

    #[test]
    fn each_mistake_doubles_what_is_demanded() {
        let mut foresight = Foresight::default();
        for demand in [1, 2, 4, 8] {
            for _ in 1..demand {
                foresight.came_to_call();
                assert!(!foresight.expects());
            }
            foresight.came_to_call();
            assert!(foresight.expects());
            foresight.is_mistaken();
            assert!(!foresight.expects());
        }
        (0..100).for_each(|_| foresight.is_mistaken());
        (0..DEMAND_MAX).for_each(|_| foresight.came_to_call());
        assert!(foresight.expects());
    }
}
