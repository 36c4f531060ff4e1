//! The frame of a command: log, errors, exit codes, and the job that it is part of.

use std::fmt::Display;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Parser};
use loco::fabric::{AnyFabric, Fabric, Job, Mesh, Platform as _};
use loco::{Error, Manager, Result};
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
    arguments_and_given().0
}

/// Parses the arguments of this process as [`arguments`] does. Also returns which options the command line gives to the
/// innermost subcommand, as `--name`, without those that come from the environment or are defaults.
pub fn arguments_and_given<T: Parser>() -> (T, Vec<String>) {
    let parse = || {
        let matches = T::command().try_get_matches()?;
        Ok((T::from_arg_matches(&matches)?, given(T::command(), &matches)))
    };
    parse().unwrap_or_else(|answer: clap::Error| {
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

/// Returns the options of the innermost subcommand that the command line gives.
fn given(command: Command, mut matches: &ArgMatches) -> Vec<String> {
    let mut command = &command;
    while let Some((name, inner)) = matches.subcommand()
        && let Some(found) = command.find_subcommand(name)
    {
        (command, matches) = (found, inner);
    }
    let is_given =
        |option: &&Arg| matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
    let options = command.get_opts().chain(
        command
            .get_arguments()
            .filter(|option| !option.get_action().takes_values()),
    );
    let names = options
        .filter(is_given)
        .filter_map(|option| Some(format!("--{}", option.get_long()?)));
    names.collect()
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
    Ok(AnyFabric::from_env(Mesh::connect(&job)?)?)
}

/// The time that the nodes have to make their objects. Millions of accounts or keys are memory that is mapped and cleared
/// first.
const SET_UP: Duration = Duration::from_secs(120);

/// Waits until the objects of all nodes are ready, for longer than a usual call: nodes that map much memory take their
/// time, and not all the same.
///
/// # Errors
/// Returns the errors of [`Manager::wait_for_ready`].
pub fn wait_for_ready<F: Fabric>(manager: &Manager<F>) -> Result<()> {
    manager.wait_for_ready_until(manager.fabric().platform().now().after(SET_UP))
}

/// Returns the reader of a whole number in `range`, for arguments. It refuses any other text with the whole range.
///
/// # Panics
/// Panics if the range has numbers that are not of the type, which is a mistake in the declaration of the argument.
pub fn number<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    range: impl RangeBounds<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before + 1,
        Bound::Unbounded => 0,
    };
    let last = match range.end_bound() {
        Bound::Included(&last) => last,
        Bound::Excluded(&after) => after - 1,
        // All bits of the type.
        Bound::Unbounded => u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>()),
    };
    assert!(
        first <= last && T::try_from(last).is_ok(),
        "numbers up to {last} are of the type"
    );
    move |text| {
        let number = text.parse().ok().filter(|number| (first..=last).contains(number));
        let found = number.and_then(|number| T::try_from(number).ok());
        found.ok_or_else(|| format!("not a whole number from {first} to {last}"))
    }
}

/// The longest time that commands take as an argument, in seconds: thirty years, which every clock can count.
pub const SECONDS_MAX: u64 = 1_000_000_000;

/// Reads a number of seconds up to [`SECONDS_MAX`], for arguments.
///
/// # Errors
/// Returns a sentence about the text that was given.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let found = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    found
        .filter(|&time| time <= Duration::from_secs(SECONDS_MAX))
        .ok_or_else(|| format!("not a number of seconds from 0 to {SECONDS_MAX}"))
}

/// Reads a number of seconds in which something is to happen, for arguments.
///
/// # Errors
/// Returns a sentence about the text that was given.
pub fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err(format!("not a number of seconds above 0, up to {SECONDS_MAX}")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_or_refused_with_their_range() {
        let some = number::<u16>(1..);
        assert_eq!((some("1"), some("65535")), (Ok(1), Ok(u16::MAX)));
        for bad in ["", "0", "65536", "-1", "1.5", "NaN", "18446744073709551616"] {
            assert_eq!(
                some(bad),
                Err("not a whole number from 1 to 65535".to_owned()),
                "{bad}"
            );
        }
        let any = number::<u64>(..);
        assert_eq!(any("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(
            any("-1"),
            Err("not a whole number from 0 to 18446744073709551615".to_owned())
        );
        assert_eq!(
            (number::<u32>(..=5)("5"), number::<u32>(3..5)("5").is_err()),
            (Ok(5), true)
        );
    }

    #[test]
    fn seconds_are_read_or_refused() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in [
            "",
            "x",
            "-1",
            "NaN",
            "inf",
            "1e400",
            "1000000001",
            "9223372036854775807",
        ] {
            let refused = seconds(bad);
            assert!(
                refused.is_err_and(|why| why.contains("from 0 to 1000000000")),
                "{bad}"
            );
        }
        assert_eq!(seconds("1000000000"), Ok(Duration::from_secs(SECONDS_MAX)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert!(some_seconds("0").is_err() && some_seconds("1e-10").is_err());
        assert_eq!(some_seconds("0.5"), seconds("0.5"));
    }
}
