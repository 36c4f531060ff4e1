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

use crate::output::{OUTPUT_CLOSED, OutputError, complain};
use crate::stop::Stop;

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
    loco::log_to_stderr();
    match stop {
        Ok(stop) => exit(name, &stop, work(&stop), code),
        Err(error) => exit(name, &Stop::default(), Err(error), |_| 1),
    }
}

/// Returns the exit code of the command `name`. It is that of the command's outcome, whose error is printed
/// first, or 130 or 143 if SIGINT or SIGTERM has stopped the command. If the reader of the output has gone, no message is printed.
pub fn exit<E: Display>(
    name: &str,
    stop: &Stop,
    outcome: Result<u8, E>,
    code: impl FnOnce(&E) -> u8,
) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(stop.exit_code().unwrap_or(code)),
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

/// Reads a time such as `500ms`, `10s`, `2m` or `1h`, up to [`SECONDS_MAX`], for arguments. A number alone counts seconds.
///
/// # Errors
/// Returns a sentence about the text that was given.
pub fn time(text: &str) -> Result<Duration, String> {
    read_time(text, 1.0).ok_or_else(|| not_a_time("0s"))
}

/// Reads a [`time`] in which something is to happen, for arguments.
///
/// # Errors
/// Returns a sentence about the text that was given.
pub fn some_time(text: &str) -> Result<Duration, String> {
    let found = read_time(text, 1.0).filter(|&time| time > Duration::ZERO);
    found.ok_or_else(|| not_a_time("above 0s"))
}

/// Reads a time such as `200ms` or `3s` as a number of milliseconds from 1 to `last`, for arguments. A number alone counts
/// milliseconds.
pub fn milliseconds(last: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let found = read_time(text, 1e-3).and_then(|time| u64::try_from(time.as_millis()).ok());
        found
            .filter(|milliseconds| (1..=last).contains(milliseconds))
            .ok_or_else(|| format!("not a time such as 200ms or 3s, from 1ms to {}s", last / 1000))
    }
}

/// Reads a number with a unit, or of `alone` seconds each.
fn read_time(text: &str, alone: f64) -> Option<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "" => alone,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let time = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
    (time <= Duration::from_secs(SECONDS_MAX)).then_some(time)
}

fn not_a_time(from: &str) -> String {
    format!("not a time such as 500ms, 10s, 2m or 1h, from {from} to {SECONDS_MAX}s")
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
    fn times_are_read_with_their_units_or_refused() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        for (text, expected) in [
            ("0.5", 500),
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1.5h", 5_400_000),
            ("3000us", 3),
            ("0", 0),
        ] {
            assert_eq!(time(text), ms(expected), "{text}");
        }
        for bad in [
            "",
            "x",
            "s",
            "5 s",
            "5d",
            "-1",
            "-1s",
            "NaN",
            "inf",
            "1e400",
            "1000000001",
            "300000h",
            "9223372036854775807",
        ] {
            let refused = time(bad);
            assert!(
                refused.is_err_and(|why| why.contains("from 0s to 1000000000s")),
                "{bad}"
            );
        }
        assert_eq!(time("1000000000"), Ok(Duration::from_secs(SECONDS_MAX)));
        assert!(some_time("0").is_err() && some_time("1e-10").is_err());
        assert_eq!(some_time("0.5"), time("0.5"));
        let short = milliseconds(60_000);
        assert_eq!(
            (short("200"), short("3s"), short("1m")),
            (Ok(200), Ok(3000), Ok(60_000))
        );
        for bad in ["0", "0.5ms", "61s", "2d", ""] {
            assert!(
                short(bad).is_err_and(|why| why.contains("from 1ms to 60s")),
                "{bad}"
            );
        }
    }
}
