//! Futures of operations, on an executor of one task whose waker counts in a word of the node. A wake-up that is lost leaves the
//! thread waiting for ever, which is a deadlock of the world.

use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loco::fabric::{AtomicCell, Peers};
use loco::{AckFuture, AckKey, Result, Thread};
use loco_sim::ModelAtomic;

use crate::stage::Fabric;

/// The number of times that the task was woken.
struct Woken(ModelAtomic);

impl Woken {
    fn new() -> Arc<Woken> {
        Arc::new(Woken(AtomicCell::<u64>::new(0)))
    }

    fn count(&self) -> u64 {
        self.0.load()
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _: u64 = self.0.fetch_add(1_u64);
    }
}

fn poll(future: Pin<&mut AckFuture<Fabric>>, woken: &Arc<Woken>) -> Poll<Result<()>> {
    future.poll(&mut Context::from_waker(&Waker::from(woken.clone())))
}

/// Awaits the operations.
pub(super) fn until_done(thread: &Thread<Fabric>, key: AckKey<Fabric>) -> Result<()> {
    until_done_beside(thread, key, AckKey::done())
}

/// Awaits the operations. A future of other operations sleeps beside it for a moment, and is then dropped.
pub(super) fn until_done_beside(
    thread: &Thread<Fabric>,
    key: AckKey<Fabric>,
    other: AckKey<Fabric>,
) -> Result<()> {
    let woken = Woken::new();
    let mut future = pin!(key.clone().into_future());
    let mut other = Some(other);
    loop {
        let before = woken.count();
        if let Poll::Ready(outcome) = poll(future.as_mut(), &woken) {
            assert!(key.query(), "a key that was awaited is done");
            return outcome;
        }
        if let Some(other) = other.take() {
            once(other)?;
        }
        let again = || (woken.count() > before).then_some(());
        thread.wait_until("the task to be woken", Peers::None, again)?;
    }
}

/// Polls a future of the operations once, and drops it.
pub(super) fn once(key: AckKey<Fabric>) -> Result<()> {
    let mut future = pin!(key.into_future());
    match poll(future.as_mut(), &Woken::new()) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Ok(()),
    }
}
