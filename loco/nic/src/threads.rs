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
