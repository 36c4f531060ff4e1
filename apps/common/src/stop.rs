//! The end of a command that was asked for by SIGINT or SIGTERM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default, register_usize};

/// The number to which shells add that of the signal that ended a program.
const SIGNAL_BASE: usize = 128;

/// The request by SIGINT or SIGTERM to end the command.
///
/// Before [`begin_work`](Stop::begin_work) these signals end the process at once, as they would without a
/// handler: it may be waiting for other nodes and has nothing to finish. Afterwards they only set the flag,
/// so that the command can end its work in order. A second signal then ends the process at once. Clones share the request.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// The signal, or 0 before it comes.
    asked: Arc<AtomicUsize>,
    at_once: Arc<AtomicBool>,
}

impl Stop {
    /// Installs the handlers of the signals.
    ///
    /// # Errors
    /// Returns the system's errors.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop {
            asked: Arc::default(),
            at_once: Arc::new(AtomicBool::new(true)),
        };
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in the order of registration, so the second signal finds the flag that the first
            // has set.
            register_conditional_default(signal, Arc::clone(&stop.at_once))?;
            register(signal, Arc::clone(&stop.at_once))?;
            // Signals have small positive numbers.
            register_usize(signal, Arc::clone(&stop.asked), signal.unsigned_abs() as usize)?;
        }
        Ok(stop)
    }

    /// Makes later signals requests, which [`is_asked`](Stop::is_asked) reports.
    pub fn begin_work(&self) {
        // Relaxed: the flag publishes no other data.
        self.at_once.store(false, Ordering::Relaxed);
        tracing::info!("at work");
    }

    /// Returns whether the command is to end.
    pub fn is_asked(&self) -> bool {
        self.exit_code().is_some()
    }

    /// Returns the exit code of a command that is to end, as shells report it: 130 after SIGINT, 143 after SIGTERM.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        // Relaxed: the number publishes no other data.
        match self.asked.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(u8::try_from(SIGNAL_BASE + signal).unwrap_or(u8::MAX)),
        }
    }
}
