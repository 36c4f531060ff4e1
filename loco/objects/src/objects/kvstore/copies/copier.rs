//! New copies after a loss, made in the background by a thread of each node.
//!
//! *Who copies.* The value of a key is copied by the node that is the first to have it in the view: what it reads is its own memory. If
//! that node is lost meanwhile, the next one is the first then, and begins anew with the next view.
//!
//! *How.* The copier takes the key's lock in the view, as a writer does, so nobody writes the value meanwhile and a write that comes
//! after goes to the new copy, too. It places the value, then sets the valid bit. Lookups go on, and writers wait for
//! one value at most. It brings every later copy to the first one's value, nearest first: a writer that was lost before it came to the first copy
//! has left a newer value in later ones, which would be shown and then taken back if one of them came first after the other.
//!
//! *When it is done.* Calls of earlier views are over when all have turned, so each key that is present is in this node's index by then.
//! Later calls write to the new copies themselves. When each key has been looked at, the node announces the view as *done*
//! ([`DONE`]). All copies are whole when all nodes that are left have.
//!
//! *Goodbyes.* A node that leaves with a goodbye has dropped the store, which says that all are done with it. So its copies are not made again
//! for that alone, but with the next loss.
//!
//! Relies on the views and the locks of the calls that write, and on the store's monitor, which takes losses into the view. Used by
//! [`KvStore::wait_until_whole`] and the statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, Memory, NodeId, Peers, RwLock, Time, Wait};

use crate::channels::service::{self, RETRY_MIN};
use crate::operations::counts::Count;
use crate::operations::panics;
use crate::{Channel, Error, Parent, Result, Thread};

use super::super::slot::{Found, Location, open};
use super::super::tracker::FAILED;
use super::super::value::Encode;
use super::super::{KvStore, Shared};
use super::slot::{Backup, Presence};
use super::views::{View, Views};
use super::words::Words;
use super::writes::Ended;
use super::{Copies, Holder};

/// The name of the region of the views after which nodes have made all copies: a word of each, by position.
pub(in super::super) const DONE: &str = "copied";

/// The time that the copier waits for a lock before it goes on with another key.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// The number of bursts a second. The copier pauses after each.
const BURSTS_PER_SECOND: u32 = 100;

/// The progress of this node's copier, and what this node knows of the others'.
pub(in super::super) struct Again<F: Fabric> {
    /// The views after which nodes have made all copies. [`FAILED`] says that a node never will.
    done: Words<F>,
    /// Statistics. Nobody depends on them, so the model need not see them.
    due: AtomicU64,
    made: AtomicU64,
    short: AtomicU64,
}

/// Says how many copies of a key's value are there after the copier has looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It has all copies, or is not there, or another node is the first to have it; so many were made.
    Whole(u64),
    /// It has fewer copies than it should have: no other home is left. So many were made.
    Short(u64),
    /// All nodes that had its value are lost, or its value cannot be read.
    Lost,
}

impl<F: Fabric> Again<F> {
    pub(super) fn new(channel: &Channel<F>, views: &Views<F>) -> Result<Again<F>> {
        Ok(Again {
            done: Words::new(channel, DONE, views.here())?,
            due: AtomicU64::new(0),
            made: AtomicU64::new(0),
            short: AtomicU64::new(0),
        })
    }

    /// Announces a view as done, or [`FAILED`], to all who are left in `view`.
    fn announce(&self, thread: &Thread<F>, views: &Views<F>, view: View, word: u64) -> Result<()> {
        let is_gone = |node: NodeId| view.has(views.position(node));
        self.done.announce(thread, word, is_gone)
    }

    /// Returns the numbers of values that this node still has to look at, of copies that it has made, and of values that it found short of
    /// copies after the last loss.
    pub(in super::super) fn progress(&self) -> (u64, u64, u64) {
        // Relaxed: numbers that publish nothing.
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (of(&self.due), of(&self.made), of(&self.short))
    }
}

impl<F: Fabric> Copies<F> {
    /// Returns the progress of new copies; `None` if the store makes none.
    pub(in super::super) fn again(&self) -> Option<&Again<F>> {
        self.again.as_ref()
    }

    /// Returns true if the value at `at` has lost a copy in `view`, and this node is the first of those that are left, or of all nodes if
    /// none is.
    fn is_due_here(&self, at: Location, view: View) -> bool {
        let (nodes, first) = (self.views.nodes(), self.views.position(at.node));
        let has_lost = (0..self.count).any(|copy| view.has((first + copy) % nodes.len()));
        let holder = self.holders(at, view).first().map(|holder| holder.node);
        // Somebody has to count what all have lost.
        let first_left = || {
            (0..nodes.len())
                .find(|&left| !view.has(left))
                .map(|left| nodes[left])
        };
        has_lost && holder.or_else(first_left) == Some(nodes[self.views.here()])
    }
}

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Waits until all nodes that are left have made all copies that were lost with those that this node knows to be lost. The loss of `copies - 1`
    /// more then takes no value with it, apart from those that are short of copies.
    ///
    /// It returns also when values are lost, or keep fewer copies because too few homes are left:
    /// [`KvStats::copies_short`](super::super::KvStats::copies_short) of each node counts those. Where the store has as many copies as there are
    /// participants, there is never a home for another: it then waits until all have turned away from the lost nodes, and `copies_short`
    /// stays 0. Locks get no further homes: a key can be written until all `copies + spare_homes` homes of its lock are lost.
    ///
    /// A node that has left with a goodbye is not lost. Its copies are made again with the next loss.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if the store has one copy of each value or was made without [spare
    /// homes](super::super::KvConfig::spare_homes), [`Refused`](crate::Error::Refused) if a node will not be done, because its
    /// copier or its monitor has failed for good (the others go on once it is lost, too), [`DeclaredLost`](crate::ErrorKind::DeclaredLost) on a node that is lost itself, and
    /// [`Timeout`](crate::ErrorKind::Timeout), which names the nodes that are not done.
    ///
    /// # After a timeout
    /// The copies are being made all the same. Wait again.
    pub fn wait_until_whole(&self, thread: &Thread<F>) -> Result<()> {
        let shared = &self.shared;
        let _call = thread.call(shared.channel.name(), "wait_until_whole");
        let copies = shared.copies.as_ref().filter(|_| shared.config.spare_homes > 0);
        let copies = copies.ok_or_else(|| {
            Error::Config(format!(
                "key-value store `{}` makes no copies after a loss; it needs `copies` of 2 or more and `spare_homes`",
                shared.channel.name()
            ))
        })?;
        shared.check_monitor()?;
        let Some(again) = &copies.again else {
            copies.views.all_have_turned_away(thread)?;
            return thread.still_in();
        };
        let late = "not made all copies again yet";
        let view = copies.views.all_are_at(thread, &again.done, late)?;
        for (position, &node) in copies.views.nodes().iter().enumerate() {
            if !view.has(position) && again.done.of(position)? == FAILED {
                return Err(Error::Refused {
                    channel: shared.channel.name().to_owned(),
                    peer: node,
                    reason: "it makes no copies any more; its log tells why".to_owned(),
                });
            }
        }
        thread.still_in()
    }
}

/// Makes copies until the store is dropped, or this fails for good.
pub(in super::super) fn copier<F: Fabric, K: Encode + Eq>(shared: &Arc<Shared<F, K>>) {
    let Some(copies) = &shared.copies else { return };
    let Some(again) = &copies.again else { return };
    let platform = shared.channel.manager().fabric().platform().clone();
    let name = shared.channel.name();
    let error = match panics::catch(&platform, || run(shared, copies, again)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(payload) => panics::error(
            format!("the key type of store `{name}`, on its copier,"),
            &*payload,
        ),
    };
    tracing::error!(store = name, %error, "the copier ends: copies that are lost are not made again");
    let stopped = || shared.stop.load() != 0;
    let mut pause = RETRY_MIN;
    // Others wait for this copier until they hear of its end.
    while let Err(error) = shared
        .channel
        .manager()
        .thread()
        .and_then(|thread| again.announce(&thread, &copies.views, copies.views.view(), FAILED))
    {
        tracing::warn!(store = name, %error, "the end of the copier was not announced");
        if !service::may_pass(&error) || stopped() {
            return;
        }
        service::pause(&shared.channel, &mut pause, stopped);
    }
}

fn run<F: Fabric, K: Encode + Eq>(shared: &Shared<F, K>, copies: &Copies<F>, again: &Again<F>) -> Result<()> {
    let views = &copies.views;
    let fabric = shared.channel.manager().fabric();
    // Made after the first loss: most stores never need it.
    let mut thread = None;
    let mut done = View::default();
    let mut pause = RETRY_MIN;
    loop {
        let next = || {
            if shared.stop.load() != 0 {
                return Some(Ok(None));
            }
            let view = views.view();
            if view == done {
                return None;
            }
            match views.is_settled(view, done) {
                Ok(false) => None,
                // A node whose monitor has failed never turns. It is out of the next view if it is lost.
                Err(Error::Refused { .. }) => None,
                settled => Some(settled.map(|_| Some(view))),
            }
        };
        let wait = Wait {
            what: shared.channel.name(),
            peers: Peers::None,
            deadline: None,
        };
        let Some(view) = fabric.wait(wait, next)?? else {
            return Ok(());
        };
        let is_lost = views.has_lost_since(fabric, view, done);
        let make = |thread: &Thread<F>| match is_lost {
            true => shared.copy_all(copies, again, thread, view),
            false => again.announce(thread, views, view, view.word()).map(|()| true),
        };
        let made = match &thread {
            Some(thread) => make(thread),
            None => shared
                .channel
                .manager()
                .thread()
                .and_then(|made| make(thread.insert(made))),
        };
        match made {
            Ok(true) => {
                done = view;
                pause = RETRY_MIN;
            }
            // There is another view.
            Ok(false) => {}
            // It is refused if a node never turns to the next view, but that one may be lost, too.
            Err(error) if service::may_pass(&error) || matches!(error, Error::Refused { .. }) => {
                tracing::warn!(store = shared.channel.name(), %error, "making copies is tried again");
                service::pause(&shared.channel, &mut pause, || shared.stop.load() != 0);
            }
            Err(error) => return Err(error),
        }
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Makes the copies that are lost in `view`, to which all have turned, of the values that this node is the first to have, and announces
    /// that. Returns false if it has not, since there is another view or the store is being dropped.
    ///
    /// # Errors
    /// Returns the first error of a key. The others were looked at, unless it is for good.
    fn copy_all(&self, copies: &Copies<F>, again: &Again<F>, thread: &Thread<F>, view: View) -> Result<bool> {
        let due: Vec<K> = {
            let index = self.index.read();
            let due = index.entries().filter(|&(at, _)| copies.is_due_here(at, view));
            due.map(|(_, key)| key).collect()
        };
        again.due.store(due.len() as u64, Ordering::Relaxed);
        again.short.store(0, Ordering::Relaxed);
        let mut pace = Pace::new(thread.now(), self.config.copies_per_second);
        let (mut lost, mut failed) = (0_u64, Ok(()));
        for key in &due {
            if !pace.keep(thread, self) || copies.views.view() != view {
                return Ok(false);
            }
            let outcome = match self.copy_key(copies, thread, key) {
                // All homes of the key's lock are lost, so nobody writes it any more.
                Err(error) if copies.is_out(&error) => Outcome::Short(0),
                Err(error) if service::may_pass(&error) => {
                    failed = failed.and(Err(error));
                    continue;
                }
                outcome => outcome?,
            };
            let made = match outcome {
                Outcome::Whole(made) | Outcome::Short(made) => made,
                Outcome::Lost => {
                    lost += 1;
                    0
                }
            };
            if !matches!(outcome, Outcome::Whole(_)) {
                again.short.fetch_add(1, Ordering::Relaxed);
            }
            again.due.fetch_sub(1, Ordering::Relaxed);
            again.made.fetch_add(made, Ordering::Relaxed);
            let counts = self.channel.manager().network().counts();
            counts.add(Count::CopiesMade, made);
        }
        failed?;
        let short = again.short.load(Ordering::Relaxed);
        if short > 0 {
            let counts = self.channel.manager().network().counts();
            counts.add(Count::CopiesShort, short);
        }
        let store = self.channel.name();
        if short > lost {
            tracing::error!(
                store,
                values = short - lost,
                copies = copies.count,
                "values have too few copies: no home is left for more, or none of their locks; a store with more `spare_homes` has room"
            );
        }
        if lost > 0 {
            tracing::error!(
                store,
                values = lost,
                "values are lost with all nodes that had them, or cannot be read: `delete` ends the errors of their keys"
            );
        }
        again.announce(thread, &copies.views, view, view.word())?;
        Ok(true)
    }

    /// Makes the copies of the value of `key` that are missing, if this node is the first to have it.
    fn copy_key(&self, copies: &Copies<F>, thread: &Thread<F>, key: &K) -> Result<Outcome> {
        thread.until(thread.now().after(LOCK_PATIENCE), || {
            self.under_lock(copies, thread, key, |view, _| {
                self.copy_key_in(copies, thread, view, key).map(Ended::Done)
            })
        })
    }

    fn copy_key_in(&self, copies: &Copies<F>, thread: &Thread<F>, view: View, key: &K) -> Result<Outcome> {
        let Some(at) = self.find(key) else {
            return Ok(Outcome::Whole(0));
        };
        let holders = copies.holders(at, view);
        let Some((&first, later)) = holders.split_first() else {
            return Ok(Outcome::Lost);
        };
        if first.node != self.channel.node() {
            return Ok(Outcome::Whole(0));
        }
        let made = match self.presence(copies, thread, first, at)? {
            Presence::Unknown => return Ok(Outcome::Lost),
            Presence::Present => match self.value_here(copies, thread, first, at) {
                Ok(value) => self.copy_value(copies, thread, later, at, &value)?,
                Err(Error::Torn { .. }) => return Ok(Outcome::Lost),
                Err(error) => return Err(error),
            },
            // A writer was lost before it was done. No later copy says otherwise then, whichever of them comes first.
            Presence::Absent => {
                self.clear(copies, thread, later, at)?;
                return Ok(Outcome::Whole(0));
            }
            // The owner had heard of the delete, and this node has not.
            Presence::Over => return Ok(Outcome::Whole(0)),
        };
        Ok(match holders.len() < copies.count {
            true => Outcome::Short(made),
            false => Outcome::Whole(made),
        })
    }

    /// Gives the value of the first copy to each of `later` that does not have it, the nearest one first: if this node is lost meanwhile, the next
    /// one has it. Returns how many copies were made.
    pub(super) fn copy_value(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        later: &[Holder],
        at: Location,
        value: &[u8],
    ) -> Result<u64> {
        // Ignores the deadline, as a write does.
        thread.to_the_end(|| {
            let each = later.iter();
            each.map(|&holder| self.make_copy(copies, thread, (holder, at), value).map(u64::from))
                .sum()
        })
    }

    /// Returns the value of a key that is present, of which this node has the copy of `first`. Its lock is held. Writes a value that a
    /// lost writer left torn in the slot of the primary again.
    fn value_here(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        first: Holder,
        at: Location,
    ) -> Result<Vec<u8>> {
        if first.copy == 0 {
            let mut slot = vec![0; self.slot_bytes];
            self.data.local()?.read(self.offset(at.slot), &mut slot)?;
            if let Found::Value(value) = open(&slot, at.counter, self.config.value_bytes_max) {
                return Ok(value.to_vec());
            }
        }
        let backup = copies.read(thread, first, at)?;
        let value = Backup::new(&backup, at.counter).value();
        let value = value.ok_or_else(|| self.torn())?;
        if first.copy == 0 {
            thread.to_the_end(|| self.write_slot(thread, at, value))?;
        }
        Ok(value.to_vec())
    }
}

/// Keeps the copier to a number of values a second: it pauses after every burst that was faster.
struct Pace {
    /// The time at which the burst begins that is under way.
    begin: Time,
    per_second: u32,
    values: u64,
}

impl Pace {
    fn new(begin: Time, per_second: u32) -> Pace {
        Pace {
            begin,
            per_second,
            values: 0,
        }
    }

    /// Returns the time before which the next value is not copied, `now` at the earliest; `None` in the middle of a burst. What was late is
    /// not made up for.
    fn next(&mut self, now: Time) -> Option<Time> {
        let burst = u64::from((self.per_second / BURSTS_PER_SECOND).max(1));
        let begins = self.values > 0 && self.values.is_multiple_of(burst);
        self.values += 1;
        begins.then(|| {
            let takes = (burst * 1_000_000_000).div_ceil(u64::from(self.per_second.max(1)));
            self.begin = self.begin.after(Duration::from_nanos(takes)).max(now);
            self.begin
        })
    }

    /// Waits until the next value may be copied. Returns false if the store is dropped meanwhile.
    fn keep<F: Fabric, K: Encode + Eq>(&mut self, thread: &Thread<F>, shared: &Shared<F, K>) -> bool {
        let is_stopped = || shared.stop.load() != 0;
        if let Some(deadline) = self.next(thread.now()) {
            let wait = Wait {
                what: shared.channel.name(),
                peers: Peers::None,
                deadline: Some(deadline),
            };
            // The end of the pause is no error.
            let _ = thread.fabric().wait(wait, || is_stopped().then_some(()));
        }
        !is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_values_a_second_than_allowed() {
        for per_second in [1, 7, 100, 20_000, u32::MAX] {
            let mut pace = Pace::new(Time(5), per_second);
            let burst = u64::from((per_second / BURSTS_PER_SECOND).max(1));
            assert_eq!(pace.next(Time(5)), None, "the first value goes at once");
            let mut earliest = Time(5);
            for values in 1..=3 * burst.min(100_000) {
                earliest = pace.next(earliest).unwrap_or(earliest);
                let bursts = values / burst;
                let of_rate = Time(5).after(Duration::from_nanos(
                    bursts * (burst * 1_000_000_000).div_ceil(u64::from(per_second)),
                ));
                assert_eq!(earliest, of_rate, "{values} values at {per_second} a second");
            }
        }
    }

    #[test]
    fn a_late_copier_does_not_make_up_for_it() {
        // Ten values in every 10 ms.
        let mut pace = Pace::new(Time(0), 1000);
        let late = Time(0).after(Duration::from_secs(30));
        let mut begins = (0..31).filter_map(|_| pace.next(late));
        let after = |millis| late.after(Duration::from_millis(millis));
        assert_eq!(
            begins.next(),
            Some(late),
            "the burst after the delay begins at once"
        );
        assert_eq!(begins.next(), Some(after(10)));
        assert_eq!(begins.next(), Some(after(20)));
    }
}
