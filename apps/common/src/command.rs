//! The frame of a command: log, errors, exit codes, and the job that it is part of.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use loco::fabric::{AnyConfig, AnyFabric, Job, Mesh};
use loco::{Error, Result};
use tracing_subscriber::EnvFilter;

use crate::output::{OUTPUT_CLOSED, OutputError, complain};
use crate::stop::{INTERRUPTED, Stop};

/// The environment variable that selects what is logged.
const LOG: &str = "LOCO_LOG";

/// Logs to standard error what `LOCO_LOG` asks for, and nothing without that variable. For example,
/// `LOCO_LOG=loco_job=debug` shows how nodes meet, and `LOCO_LOG=loco_app=info` when they begin to work.
///
/// A value that is not a filter is reported on standard error, and nothing is logged.
pub fn init_logging() {
    let wanted = std::env::var(LOG).unwrap_or_default();
    let filter = match wanted.is_empty() {
        true => EnvFilter::new("off"),
        false => EnvFilter::try_new(&wanted).unwrap_or_else(|error| {
            complain(format_args!("{LOG}=`{wanted}` is ignored: {error}"));
            EnvFilter::new("off")
        }),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
}

/// Parses the arguments of this process. Ends the process with 2 after a mistake in them, and with 0 after `--help` and
/// `--version`, whose text that cannot be written is an error like other output.
pub fn arguments<T: Parser>() -> T {
    T::try_parse().unwrap_or_else(|answer| {
        let code = match answer.print().map_err(OutputError::from) {
            Err(error) if !answer.use_stderr() => {
                let code = error.exit_code();
                if code != OUTPUT_CLOSED {
                    complain(format_args!("{}: {error}", T::command().get_name()));
                }
                code.into()
            }
            _ => answer.exit_code(),
        };
        std::process::exit(code)
    })
}

/// Runs the command `name`: begins to log, does the `work`, and returns the exit code as [`exit`] does. A `stop` that
/// could not be had is an error, and nothing is done.
pub fn run<E: Display>(
    name: &str,
    stop: io::Result<Stop>,
    work: impl FnOnce(&Stop) -> Result<u8, E>,
    code: impl FnOnce(&E) -> u8,
) -> ExitCode {
    init_logging();
    match stop {
        Ok(stop) => exit(name, &stop, work(&stop), code),
        Err(error) => exit(name, &Stop::default(), Err(error), |_| 1),
    }
}

/// Returns the exit code of the command `name`. It is that of the command's outcome, whose error is printed
/// first, or 130 if the command was stopped. If the reader of the output has gone, no message is printed.
pub fn exit<E: Display>(
    name: &str,
    stop: &Stop,
    outcome: Result<u8, E>,
    code: impl FnOnce(&E) -> u8,
) -> ExitCode {
    match outcome {
        Ok(_) if stop.is_asked() => ExitCode::from(INTERRUPTED),
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = code(&error);
            if code != OUTPUT_CLOSED {
                complain(format_args!("{name}: {error}"));
            }
            ExitCode::from(code)
        }
    }
}

/// Returns the fabric of the job that this process is started in, connected to the other nodes.
///
/// # Errors
/// Returns `Config` if this process is not part of a job, with `example` as the remedy; otherwise the errors
/// of the fabric.
pub fn fabric(example: &str) -> Result<AnyFabric> {
    let job =
        Job::from_env().map_err(|error| Error::Config(format!("{error}\nStart it as a job: {example}")))?;
    Ok(AnyFabric::new(Mesh::connect(&job)?, AnyConfig::from_env()?)?)
}

/// Reads a number of seconds, for arguments.
///
/// # Errors
/// Returns a sentence about the text that was given.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Reads a number of seconds in which something is to happen, for arguments.
///
/// # Errors
/// Returns a sentence about the text that was given.
pub fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("give a time longer than nothing".to_owned()),
        time => Ok(time),
    }
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
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert!(some_seconds("0").is_err() && some_seconds("1e-10").is_err());
        assert_eq!(some_seconds("0.5"), seconds("0.5"));
    }
}
