//! Makes a child of `fork` a copy of its parent's NIC that reaches nobody.
//!
//! The child has the objects, and no thread that works on them. It gives the descriptors back, so that others see when the parent ends,
//! and the places of the world are free then. Its requests end as those to a dead machine do. Relies on the lock of the NIC, which is
//! taken while the process forks, so that the child finds it free and the state whole; used by [`thread`](super::thread).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::{MutexGuard, OnceLock};

use super::core::{Nic, spare};
use crate::child::becomes_child;

/// Takes the lock of the NIC.
static LOCK: OnceLock<fn() -> MutexGuard<'static, Nic>> = OnceLock::new();

thread_local! {
    /// The lock, while this thread forks.
    static FORKING: RefCell<Option<MutexGuard<'static, Nic>>> = const { RefCell::new(None) };
}

/// Makes children of this process ones that have their own copy of the NIC, whose lock `locked` takes. Call it once, when the NIC has
/// started, and fork with the lock free.
///
/// # Errors
/// Fails when there is no memory for it.
#[allow(unsafe_code)]
pub(super) fn prepare(locked: fn() -> MutexGuard<'static, Nic>) -> io::Result<()> {
    extern "C" fn before() {
        let guard = LOCK.get().map(|locked| locked());
        let _ = FORKING.try_with(|forking| forking.replace(guard));
    }
    extern "C" fn in_parent() {
        drop(FORKING.try_with(RefCell::take));
    }
    extern "C" fn in_child() {
        becomes_child();
        if let Ok(Some(mut nic)) = FORKING.try_with(RefCell::take) {
            nic.cut_off();
        }
    }
    let _ = LOCK.set(locked);
    // SAFETY: the functions take and return nothing, and do not unwind.
    match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
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
