//! The shared queue: `loco_queue`.

use loco::fabric::NodeId;
use loco::{Popped, Pushed, SharedQueue};

use crate::border::{Need, Out, call, handle, run};
use crate::status::{AGAIN, ENDED, OK, Status};
use crate::thread::Thread;

/// A shared queue, as C holds it.
pub struct Queue(SharedQueue<u64>);

handle! {
    new loco_queue_new(home: u16, capacity: usize) -> queue: Queue
        = |parent, name| Queue(SharedQueue::new(parent, name, NodeId(home), capacity)?);
    free loco_queue_free;
}

/// Implements `loco_queue_push` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_queue_push(queue: Option<&Queue>, thread: Option<&Thread>, value: u64) -> Status {
    push(queue, thread, |queue, thread| queue.push(thread, value))
}

/// Implements `loco_queue_try_push` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_queue_try_push(queue: Option<&Queue>, thread: Option<&Thread>, value: u64) -> Status {
    push(queue, thread, |queue, thread| queue.try_push(thread, value))
}

fn push(
    queue: Option<&Queue>,
    thread: Option<&Thread>,
    push: impl FnOnce(&SharedQueue<u64>, &loco::Thread) -> loco::Result<Pushed<u64>>,
) -> Status {
    call(|| {
        let (queue, access) = (queue.need("queue")?, thread.need("thread")?.enter()?);
        Ok(match push(&queue.0, access.thread())? {
            Pushed::Done => OK,
            Pushed::Full(_) => AGAIN,
            Pushed::Closed(_) => ENDED,
        })
    })
}

/// Implements `loco_queue_pop` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_queue_pop(
    queue: Option<&Queue>,
    thread: Option<&Thread>,
    value: Out<'_, u64>,
) -> Status {
    pop(queue, thread, value, SharedQueue::pop)
}

/// Implements `loco_queue_try_pop` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_queue_try_pop(
    queue: Option<&Queue>,
    thread: Option<&Thread>,
    value: Out<'_, u64>,
) -> Status {
    pop(queue, thread, value, SharedQueue::try_pop)
}

fn pop(
    queue: Option<&Queue>,
    thread: Option<&Thread>,
    value: Out<'_, u64>,
    pop: impl FnOnce(&SharedQueue<u64>, &loco::Thread) -> loco::Result<Popped<u64>>,
) -> Status {
    call(|| {
        // Before anything is taken out.
        let out = value.need("value")?;
        let (queue, access) = (queue.need("queue")?, thread.need("thread")?.enter()?);
        Ok(match pop(&queue.0, access.thread())? {
            Popped::Value(value) => {
                out.write(value);
                OK
            }
            Popped::Empty => AGAIN,
            Popped::Closed => ENDED,
        })
    })
}

/// Implements `loco_queue_close` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_queue_close(queue: Option<&Queue>, thread: Option<&Thread>) -> Status {
    run(|| {
        let (queue, access) = (queue.need("queue")?, thread.need("thread")?.enter()?);
        Ok(queue.0.close(access.thread())?)
    })
}
