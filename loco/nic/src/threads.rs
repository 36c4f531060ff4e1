//! Starting threads of the NIC's.

use std::io;
use std::sync::mpsc::channel;

/// Starts a thread, and waits until it runs. It leaves signals to the program's own threads.
///
/// A thread that begins takes memory from the system and gives some back. Libfabric changes the code of `munmap` when it has opened a
/// device, and a thread that is in there then ends the program.
///
/// # Errors
/// Fails when the process may have no more threads.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (begins, begun) = channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        block_signals();
        let _ = begins.send(());
        body();
    })?;
    let _ = begun.recv();
    Ok(())
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
