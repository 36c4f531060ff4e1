//! The service thread of a node: it executes what peers ask for while no thread of the program waits.
//!
//! It sleeps until a socket is readable. Threads that wait look by themselves, and would only be disturbed, so it stands back
//! from their first wait on: it naps, and returns when a nap has passed without one. During a long wait it naps until the wait is
//! over.
//!
//! Relies on `shared`. Used by `node`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use loco_fabric::{FabricError, Result};

use crate::shared::Shared;

/// The longest sleep by the sockets. It bounds how late a connection that stays broken is given up.
const SLEEP: Duration = Duration::from_millis(500);
/// The first and the longest nap while threads wait now and then. They bound how long a peer's operation waits when the threads
/// of the program begin to compute. If there are more nodes than cores, naps are longer by as much.
const NAPS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(400));
/// The number of naps after which the thread naps until nobody waits.
const NAPS_MAX: u32 = 10;
/// The longest such nap.
const LONG_NAP: Duration = Duration::from_millis(500);

/// The running thread, which ends when this is dropped.
pub(crate) struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts the thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Service> {
        let its = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("loco-tcp".to_owned())
            .spawn(move || run(&its))
            .map_err(|e| FabricError::os("starting the thread that serves peers", &e))?;
        Ok(Service {
            shared: Arc::clone(shared),
            thread: Some(thread),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // The thread is not in this process.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves peers panicked");
        }
    }
}

fn run(shared: &Shared) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crowd = u32::try_from(shared.job.mesh.nodes().len().div_ceil(cores)).unwrap_or(1);
    let (first, longest) = (NAPS.0 * crowd, NAPS.1 * crowd);
    let (mut nap, mut naps) = (first, 0);
    let mut waits_seen = 0;
    while !shared.is_stopped() {
        // Relaxed: a hint.
        let waits = shared.waits.load(Ordering::Relaxed);
        if waits == waits_seen && !shared.is_attended() {
            (nap, naps) = (first, 0);
            shared.serve(SLEEP);
            continue;
        }
        waits_seen = waits;
        naps += 1;
        if naps < NAPS_MAX {
            shared.nap(nap);
            nap = (2 * nap).min(longest);
        } else {
            naps = 0;
            shared.nap_while_attended(LONG_NAP);
        }
    }
}
