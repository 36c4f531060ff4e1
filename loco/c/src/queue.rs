//! The shared queue: `loco_queue`.

use std::ffi::c_char;

use loco::fabric::NodeId;
use loco::{Popped, Pushed, SharedQueue};

use crate::border::{Need, New, Out, call, free, run, text};
use crate::node::Node;
use crate::status::{AGAIN, ENDED, OK, Status};
use crate::thread::Thread;

/// A shared queue, as C holds it.
pub struct Queue(SharedQueue<u64>);

/// Implements `loco_queue_new` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_queue_new(
    node: Option<&Node>,
    name: *const c_char,
    home: u16,
    capacity: usize,
    queue: New<'_, Queue>,
) -> Status {
    run(|| {
        let (node, out) = (node.need("node")?, queue.need("queue")?);
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name") }?;
        let queue = SharedQueue::new(&node.parent(), name, NodeId(home), capacity)?;
        out.write(Box::new(Queue(queue)));
        Ok(())
    })
}

/// Implements `loco_queue_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_queue_free(queue: Option<Box<Queue>>) -> Status {
    free(queue)
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
