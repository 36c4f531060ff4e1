//! Tries every option of a command that takes a number with numbers beyond all reason. The options come from the command's own
//! description, so that new ones are tried, too. Relies on `clap`.

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command};

/// Numbers that no option but a seed takes.
const BEYOND: [&str; 5] = [
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "NaN",
    "inf",
];

/// Checks that options refuse such numbers with an error that names option, value and range. Options of `any` take every
/// whole number of 64 bits.
pub fn are_refused(command: &Command, any: &[&str]) {
    let mut tried = 0;
    each(
        command,
        &mut vec![command.get_name().to_owned()],
        &mut |path, option| {
            let Some(name) = option.get_long().filter(|_| is_number(command, path, option)) else {
                return;
            };
            tried += 1;
            for value in BEYOND.into_iter().chain(["-1", "-9223372036854775808", ""]) {
                let said = refusal(command, path, name, value);
                if value == "18446744073709551615" && any.contains(&name) {
                    assert_eq!(said, None, "{path:?} --{name} {value}");
                    continue;
                }
                let said = said.unwrap_or_else(|| panic!("{path:?} takes --{name} {value}"));
                assert!(said.contains(&format!("--{name}")), "{said}");
                assert!(value.is_empty() || said.contains(value), "{said}");
                assert!(
                    said.contains(" from ") || said.contains(" up to "),
                    "no range: {said}"
                );
            }
            // An option that refuses everything would pass the above.
            assert_eq!(refusal(command, path, name, "1"), None);
            // 0 is taken or refused, and does no harm to the parser.
            let _ = refusal(command, path, name, "0");
        },
    );
    assert!(tried > 0, "{} has options with numbers", command.get_name());
}

/// Calls `try_out` with each option and the way to its subcommand.
fn each(command: &Command, path: &mut Vec<String>, try_out: &mut impl FnMut(&[String], &Arg)) {
    for option in command.get_opts() {
        try_out(path, option);
    }
    for inner in command.get_subcommands() {
        path.push(inner.get_name().to_owned());
        each(inner, path, try_out);
        path.pop();
    }
}

/// Returns whether an option takes numbers, and not everything.
fn is_number(command: &Command, path: &[String], option: &Arg) -> bool {
    let takes = |value| {
        option
            .get_long()
            .is_some_and(|name| refusal(command, path, name, value).is_none())
    };
    takes("1") && !takes("x")
}

/// Returns the error by which the value of an option is refused. Whatever else is wrong with the command line does not count.
fn refusal(command: &Command, path: &[String], option: &str, value: &str) -> Option<String> {
    let words = path.iter().cloned().chain([format!("--{option}={value}")]);
    let error = command.clone().try_get_matches_from(words).err()?;
    let is_of_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue)
        && error.get(ContextKind::InvalidArg).is_some();
    is_of_value.then(|| error.to_string())
}
