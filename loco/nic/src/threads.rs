//! Starting threads of the NIC's.

use std::io;

/// Starts a thread. It leaves signals to the program's own threads.
///
/// # Errors
/// Fails when the process may have no more threads.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(|| {
        block_signals();
        body();
    });
    started.map(drop)
}

/// Asks for short turns for the calling thread: one that wakes for a moment is then let in at once, before a program that spins has
/// used its own turn up. Linux before 6.12 does not know of it, and nothing else changes if it is refused.
#[allow(unsafe_code)]
pub(crate) fn take_short_turns() {
    /// In nanoseconds. The system gives no shorter ones.
    const TURN: u64 = 100_000;
    // SAFETY: the calls read and write one structure of the size that they are told, about the calling thread.
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let size = libc::c_uint::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) == 0
            && attributes.sched_policy == libc::SCHED_OTHER.cast_unsigned()
        {
            attributes.sched_runtime = TURN;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

/// Blocks all signals in this thread.
#[allow(unsafe_code)]
fn block_signals() {
    // SAFETY: the set is filled by the first call before the second reads it.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
