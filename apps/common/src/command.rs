//! The outside of a command: signals, exit codes, and the job that it is part of.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loco::fabric::{AnyConfig, AnyFabric, Job, Mesh};
use loco::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a run that was interrupted, as shells have it.
const INTERRUPTED: u8 = 130;

/// Has SIGINT and SIGTERM set `stop`, in place of ending the process.
///
/// # Errors
/// The system's.
pub fn stop_on_signals(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// The exit code of the command `name`: that of its outcome, after the error has been printed; 130 if it was stopped.
pub fn exit<E: Display>(
    name: &str,
    stop: &AtomicBool,
    outcome: Result<u8, E>,
    code: impl FnOnce(&E) -> u8,
) -> ExitCode {
    match outcome {
        // Relaxed: the handler writes nothing else.
        Ok(_) if stop.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::from(code(&error))
        }
    }
}

/// The fabric of the job that this process is started in, connected to the other nodes.
///
/// # Errors
/// `Config` if this is no job, with `example` as the remedy; those of the fabric.
pub fn fabric(example: &str) -> Result<AnyFabric> {
    let job =
        Job::from_env().map_err(|error| Error::Config(format!("{error}\nStart it as a job: {example}")))?;
    Ok(AnyFabric::new(Mesh::connect(&job)?, AnyConfig::from_env()?)?)
}

/// Reads a number of seconds, for arguments.
///
/// # Errors
/// A sentence about what was given.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_or_refused() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "x", "-1", "NaN", "1e400"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
