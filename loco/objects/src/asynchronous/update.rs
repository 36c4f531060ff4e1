//! Updates of the key-value store that a task starts, and completes individually.

use std::sync::Arc;

use loco_fabric::Fabric;

use crate::asynchronous::call_queue::Place;
use crate::asynchronous::shared::Async;
use crate::asynchronous::thread::{AsyncThread, unless_it_waits};
use crate::fabric::AnyFabric;
use crate::objects::kvstore::Kept;
use crate::{Encode, Error, KvStore, Result, Thread};

/// An update under way, which [`Async<KvStore>::update_start`](Async::update_start) has started. Unlike
/// [`PendingUpdate`](crate::PendingUpdate) it owns its parts, so tasks may keep it across waits and send it to other threads.
///
/// Dropping it takes the update back if its lock is not held yet: the value is the old one. Otherwise the update goes on to its end. The
/// drop does not wait for that.
#[must_use = "wait for the update: dropped, it is taken back if it has not begun"]
pub struct AsyncUpdate<K, V, F = AnyFabric>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    /// `None` once it is waited for.
    under_way: Option<UnderWay<K, V, F>>,
}

/// The parts of an update under way.
struct UnderWay<K, V, F>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    store: Arc<KvStore<K, V, F>>,
    thread: AsyncThread<F>,
    kept: Kept,
}

impl<K, V, F> Async<KvStore<K, V, F>>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    /// Starts an update, so that many of one `AsyncThread` overlap, each completed by its [`wait`](AsyncUpdate::wait):
    /// [`KvStore::update_start`], which says in what order they take effect, when they go on, and when to wait.
    ///
    /// The calls of an `AsyncThread` run one at a time, so the outcomes are told in the order in which their waits were begun.
    ///
    /// # Errors
    /// See [`KvStore::update_start`]. Where the update is over when it is started, this also returns the errors of [`KvStore::update`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`KvStore::update`]. If the future was dropped, the update may also have succeeded.
    pub async fn update_start(
        &self,
        thread: &AsyncThread<F>,
        key: K,
        value: V,
    ) -> Result<AsyncUpdate<K, V, F>> {
        let waits = thread.is_synchronous() || self.starts_wait();
        let (store, own) = (self.share(), thread.clone());
        let start = move |thread: &Thread<F>| {
            let kept = store.update_start(thread, &key, &value)?.keep();
            // What is over and has failed may be repeated where nothing waits.
            let kept = match kept {
                Kept::Over(Err(error)) => return Err(error),
                kept => kept,
            };
            // An outcome that nobody takes settles the update when it is dropped.
            Ok(AsyncUpdate {
                under_way: Some(UnderWay {
                    store: store.clone(),
                    thread: own.clone(),
                    kept,
                }),
            })
        };
        if !waits {
            return thread.with(start).await;
        }
        let at_once = |start: &_, thread: &Thread<F>| match thread.reads_at_once() {
            true => unless_it_waits(thread, start),
            // Under way, it would be late from the beginning.
            false => None,
        };
        thread.begin(start, at_once, true).await
    }
}

impl<K, V, F> AsyncUpdate<K, V, F>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    /// Waits for the update. Returns false, and has changed nothing, if the key is absent.
    ///
    /// # Errors
    /// Returns the errors of [`KvStore::update`]. The deadline is that of the thread when the update was started.
    ///
    /// # After a timeout, or if the future was dropped
    /// After a timeout nothing has changed; with copies, the value may have. If the future was dropped after its first poll, the update goes
    /// on to its end or its deadline, and the later calls of its `AsyncThread` come after that.
    ///
    /// The update also gives up, with `Timeout`, if another call of the same `AsyncThread` is given up while it waits.
    pub async fn wait(mut self) -> Result<bool> {
        if let Some(UnderWay { store, thread, kept }) = &mut self.under_way {
            // Needs no stack of its own if the wait for another update has ended this one, too.
            thread.unless_in_use(|thread| kept.look(store, thread));
        }
        let Some(UnderWay { store, thread, kept }) = self.under_way.take() else {
            return Err(Error::Closed); // not reached: only `wait` and `drop` take it
        };
        let kept = match kept {
            Kept::Over(outcome) => return outcome,
            under_way => under_way,
        };
        let wait = move |thread: &Thread<F>| store.take_up(thread, kept).wait();
        // Given up, the wait would end the other updates of the thread, too.
        thread.begin_at(Place::Last, wait, |_, _| None, false).await
    }
}

impl<K, V, F> Drop for AsyncUpdate<K, V, F>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    fn drop(&mut self) {
        let Some(UnderWay { store, thread, kept }) = self.under_way.take() else {
            return;
        };
        if matches!(kept, Kept::Over(_)) {
            return;
        }
        let settle = move |thread: &Thread<F>| {
            drop(store.take_up(thread, kept));
            Ok(())
        };
        drop(thread.begin_at(Place::Last, settle, |_, _| None, false));
    }
}
