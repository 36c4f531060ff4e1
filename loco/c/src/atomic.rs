//! The atomic variable: `loco_atomic`.

use loco::AtomicVar;
use loco::fabric::NodeId;

use crate::border::{Need, Out, handle, run};
use crate::status::Status;
use crate::thread::Thread;

/// An atomic variable, as C holds it.
pub struct Atomic(AtomicVar<u64>);

handle! {
    new loco_atomic_new(home: u16) -> atomic: Atomic
        = |parent, name| Atomic(AtomicVar::new(parent, name, NodeId(home))?);
    free loco_atomic_free;
}

/// Implements `loco_atomic_read` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_atomic_read(
    atomic: Option<&Atomic>,
    thread: Option<&Thread>,
    value: Out<'_, u64>,
) -> Status {
    run(|| {
        let out = value.need("value")?;
        let (atomic, access) = (atomic.need("atomic")?, thread.need("thread")?.enter()?);
        out.write(atomic.0.read(access.thread())?);
        Ok(())
    })
}

/// Implements `loco_atomic_write` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_atomic_write(atomic: Option<&Atomic>, thread: Option<&Thread>, value: u64) -> Status {
    change(atomic, thread, None, |atomic, thread| atomic.swap(thread, value))
}

/// Implements `loco_atomic_swap` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_atomic_swap(
    atomic: Option<&Atomic>,
    thread: Option<&Thread>,
    value: u64,
    old: Out<'_, u64>,
) -> Status {
    change(atomic, thread, old, |atomic, thread| atomic.swap(thread, value))
}

/// Implements `loco_atomic_fetch_add` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_atomic_fetch_add(
    atomic: Option<&Atomic>,
    thread: Option<&Thread>,
    add: u64,
    old: Out<'_, u64>,
) -> Status {
    change(atomic, thread, old, |atomic, thread| {
        atomic.fetch_add(thread, add)
    })
}

/// Implements `loco_atomic_compare_swap` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_atomic_compare_swap(
    atomic: Option<&Atomic>,
    thread: Option<&Thread>,
    expected: u64,
    desired: u64,
    old: Out<'_, u64>,
) -> Status {
    change(atomic, thread, old, |atomic, thread| {
        atomic.compare_swap(thread, expected, desired)
    })
}

/// Changes the value and stores the old one in `old`, if that is wanted.
fn change(
    atomic: Option<&Atomic>,
    thread: Option<&Thread>,
    old: Out<'_, u64>,
    change: impl FnOnce(&AtomicVar<u64>, &loco::Thread) -> loco::Result<u64>,
) -> Status {
    run(|| {
        let (atomic, access) = (atomic.need("atomic")?, thread.need("thread")?.enter()?);
        let before = change(&atomic.0, access.thread())?;
        if let Some(old) = old {
            old.write(before);
        }
        Ok(())
    })
}
