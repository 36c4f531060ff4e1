//! Makes a child of `fork` a copy of its parent's NIC that reaches nobody.
//!
//! The child has the objects, and no thread that works on them. It gives the descriptors back, so that others see when the parent ends,
//! and the places of the world are free then. Its requests end as those to a dead machine do. Relies on the locks of the NIC and of its
//! start, which are taken while the process forks, so that the child finds them free and the state whole; used by [`thread`](super::thread).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, OnceLock};

use super::core::{Nic, spare};
use crate::child::becomes_child;

/// Holds the locks that keep the NIC still while the process forks.
pub(super) struct Stopped {
    /// The lock of the NIC, if there is one. It is given back before the other.
    pub nic: Option<MutexGuard<'static, Nic>>,
    /// The lock of who starts it: a child has a NIC that has started, or none.
    pub _starting: MutexGuard<'static, ()>,
}

/// Stops the NIC.
static STOP: OnceLock<fn() -> Stopped> = OnceLock::new();
/// True once children are taken care of.
static PREPARED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What stands still while this thread forks.
    static FORKING: RefCell<Option<Stopped>> = const { RefCell::new(None) };
}

/// Makes children of this process ones that have their own copy of the NIC, which `stop` stops. Does nothing if that is done already.
/// Call it before the NIC starts, and fork without its locks.
///
/// # Errors
/// Fails when there is no memory for it.
#[allow(unsafe_code)]
pub(super) fn prepare(stop: fn() -> Stopped) -> io::Result<()> {
    extern "C" fn before() {
        let stopped = STOP.get().map(|stop| stop());
        let _ = FORKING.try_with(|forking| forking.replace(stopped));
    }
    extern "C" fn in_parent() {
        drop(FORKING.try_with(RefCell::take));
    }
    extern "C" fn in_child() {
        // A child that was made before there was a NIC may have one of its own.
        if let Ok(Some(mut stopped)) = FORKING.try_with(RefCell::take)
            && let Some(nic) = &mut stopped.nic
        {
            becomes_child();
            nic.cut_off();
        }
    }
    let _ = STOP.set(stop);
    if PREPARED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    // SAFETY: the functions take and return nothing, and do not unwind.
    match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        error => {
            PREPARED.store(false, Ordering::Release);
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

impl Nic {
    /// Makes this copy one that reaches nobody, without a word to others or to the system about what is the parent's.
    fn cut_off(&mut self) {
        let ids: Vec<u64> = self.links.keys().copied().collect();
        for id in ids {
            if let Some(link) = self.links.get_mut(&id) {
                link.leave_memory();
            }
            self.drop_link(id);
        }
        // No file and no free descriptor is needed for it: the spare one does, and the links have left some.
        let nothing = self.spare.take().or_else(spare);
        let own = [
            self.world.listener.as_fd(),
            self.world.lock(),
            self.poller.as_fd(),
            self.doorbell.as_fd(),
            self.look_in.as_fd(),
        ];
        for descriptor in own {
            // With none left, a copy of the last one, on which nobody waits but the parent's thread that looks in, stands for the others.
            replace(
                descriptor,
                nothing
                    .as_ref()
                    .map_or(self.look_in.as_fd(), |spare| spare.as_fd()),
            );
        }
    }
}

/// Makes a descriptor, which stays open, one of something else.
#[allow(unsafe_code)]
fn replace(descriptor: BorrowedFd<'_>, by: BorrowedFd<'_>) {
    // SAFETY: both are open, and who has the first reads and writes it as before.
    unsafe { libc::dup3(by.as_raw_fd(), descriptor.as_raw_fd(), libc::O_CLOEXEC) };
}
