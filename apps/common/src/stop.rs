//! The end of a command that was asked for by SIGINT or SIGTERM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};

/// Exit code of a run that was interrupted, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Knows whether SIGINT or SIGTERM has asked the command to end.
///
/// Before [`begin_work`](Stop::begin_work) these signals end the process at once, as they would without a handler: it may be
/// waiting for other nodes and has nothing to finish. After it they only set the flag, so that the command can end
/// its work in order; a second signal then ends the process at once.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl Stop {
    /// Takes the signals over.
    ///
    /// # Errors
    /// The system's.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop {
            asked: Arc::default(),
            at_once: Arc::new(AtomicBool::new(true)),
        };
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in the order of registration: the second signal finds what the first has set.
            register_conditional_default(signal, Arc::clone(&stop.at_once))?;
            register(signal, Arc::clone(&stop.at_once))?;
            register(signal, Arc::clone(&stop.asked))?;
        }
        Ok(stop)
    }

    /// From now on a signal is a request that [`is_asked`](Stop::is_asked) reports.
    pub fn begin_work(&self) {
        // Relaxed: the flag publishes no other data.
        self.at_once.store(false, Ordering::Relaxed);
        tracing::info!("at work");
    }

    /// Says whether the command is to end.
    pub fn is_asked(&self) -> bool {
        // Relaxed: the flag carries no other data.
        self.asked.load(Ordering::Relaxed)
    }
}
