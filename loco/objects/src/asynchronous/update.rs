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
/// Between the calls of its [`AsyncThread`] nobody moves an update on, and it may hold its lock meanwhile. So begin its
/// [`wait`](AsyncUpdate::wait) soon: a call on another thread that wants the same lock waits for it.
///
/// It gives up with `Timeout` if it still waits for its lock when another call of its `AsyncThread` is given up while that call waits: its
/// future was dropped.
///
/// Dropping it leaves to the driver to settle it, in turn among the calls of its `AsyncThread`, and does not wait for that. If it has
/// not begun to write when that turn comes, the update is taken back: the value is the old one. Otherwise the update goes on to its end, also if
/// it had not begun at the drop. If there is no memory for a stack then, later calls of the `AsyncThread` move it on, or its end does.
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
    /// The calls of an `AsyncThread` run one at a time, so the outcomes are told in the order in which their waits were begun. Between the
    /// calls, updates stand still, perhaps with their locks held. If another of these calls is given up while it waits, those that still
    /// wait for a lock give up, too: see [`AsyncUpdate`].
    ///
    /// # Errors
    /// See [`KvStore::update_start`]. Where the update is over when it is started, this also returns the errors of [`KvStore::update`]. Returns
    /// [`Os`](crate::fabric::FabricError::Os) when there is no memory for a stack; nothing is started then.
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`KvStore::update`]. If the future was dropped, the update may also have succeeded.
    pub async fn update_start(
        &self,
        thread: &AsyncThread<F>,
        key: K,
        value: V,
    ) -> Result<AsyncUpdate<K, V, F>> {
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
        let at_once = |start: &_, thread: &Thread<F>| match thread.reads_at_once() {
            true => unless_it_waits(thread, start),
            // Under way, it would be late from the beginning.
            false => None,
        };
        // Over a network the driver starts it: it may have to open queue pairs, or to end what is under way.
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
    /// Returns the errors of [`KvStore::update`]. The deadline is that of the thread when the update was started. Returns `Timeout` before it if
    /// another call of the same `AsyncThread` was given up while it waited, and the update still waited for its lock.
    ///
    /// Returns [`Os`](crate::fabric::FabricError::Os) when there is no memory for a stack. The update is still under way then, and its outcome
    /// is lost: later calls of its `AsyncThread` move it on, or its end does.
    ///
    /// # After a timeout, or if the future was dropped
    /// After a timeout nothing has changed; with copies, the value may have. If the future was dropped after its first poll, the update goes
    /// on to its end or its deadline, and the later calls of its `AsyncThread` come after that.
    pub async fn wait(mut self) -> Result<bool> {
        self.take_if_over();
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

    /// Takes the outcome if the update is over, perhaps by the wait for another one: then it needs no stack of its own. Moves nothing on, since
    /// steps may wait for the network and the caller may be an executor.
    fn take_if_over(&mut self) {
        if let Some(UnderWay { store, thread, kept }) = &mut self.under_way {
            thread.unless_in_use(|thread| kept.take_if_over(store, thread));
        }
    }
}

impl<K, V, F> Drop for AsyncUpdate<K, V, F>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    fn drop(&mut self) {
        self.take_if_over();
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
