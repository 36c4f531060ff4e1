//! An executor of tasks on one thread of the model. It polls the tasks that were woken, lowest first, and waits when none is.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loco::fabric::{AtomicCell, Fabric as _, Peers, Platform, Wait};

use crate::stage::Fabric;

/// A word of the model that several threads of a node share.
pub(super) type Word = <<Fabric as loco::fabric::Fabric>::Platform as Platform>::AtomicU32;

/// Something to run to its end.
pub(super) type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Not zero while a task is to be polled.
struct Woken(Word);

impl Woken {
    fn is_set(&self) -> bool {
        AtomicCell::<u32>::load(&self.0) != 0
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.swap(1_u32);
    }
}

/// Runs tasks on the calling thread until all have ended.
pub(super) fn run<'a>(fabric: &Fabric, tasks: impl IntoIterator<Item = Task<'a>>) {
    let mut tasks: Vec<_> = tasks
        .into_iter()
        .map(|task| (Some(task), Arc::new(Woken(AtomicCell::new(1_u32)))))
        .collect();
    while tasks.iter().any(|(task, _)| task.is_some()) {
        let mut polled = false;
        for (task, woken) in &mut tasks {
            let Some(running) = task else { continue };
            if !woken.is_set() {
                continue;
            }
            woken.0.swap(0_u32);
            polled = true;
            let waker = Waker::from(woken.clone());
            if running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *task = None;
            }
        }
        if !polled {
            let wait = Wait {
                what: "a task that is woken",
                peers: Peers::None,
                deadline: None,
            };
            let any_woken = || {
                let mut running = tasks.iter().filter(|(task, _)| task.is_some());
                running.any(|(_, woken)| woken.is_set()).then_some(())
            };
            // A node that is lost wakes nobody any more.
            if fabric.wait(wait, any_woken).is_err() {
                return;
            }
        }
    }
}

/// Polls a future once, and drops it if it is not ready, as whoever cancels it does.
pub(super) async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Some(Box::pin(future));
    poll_fn(move |context| {
        let polled = future.as_mut().map(|future| future.as_mut().poll(context));
        future = None;
        Poll::Ready(match polled {
            Some(Poll::Ready(value)) => Some(value),
            _ => None,
        })
    })
    .await
}

/// Polls a future once with a waker that wakes nobody, as a task does that hands it on, and then waits for it.
pub(super) async fn handed_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => future.await,
    }
}
