//! Tests of every option that takes a number: what is out of range is refused with the option, the value and the range.

use std::any::TypeId;
use std::num::NonZeroUsize;

use clap::Parser;
use clap::error::ErrorKind;

use crate::{Cli, command};

/// Command, option, least and most.
const NUMBERS: &[(&str, &str, u64, u64)] = &[
    ("explain", "query", 1, 1_000_000),
    ("explain", "cycle", 1, 1_000_000),
    ("generate", "size", 1, 32),
    ("generate", "larger", 0, 32),
    ("generate", "processes", 1, 12),
    ("generate", "nodes", 1, 8),
    ("generate", "locations", 1, 8),
    ("generate", "threads", 1, 1024),
    ("distinguish", "size", 1, 12),
    ("distinguish", "processes", 1, 12),
    ("distinguish", "nodes", 1, 8),
    ("distinguish", "locations", 1, 8),
    ("distinguish", "threads", 1, 1024),
    ("faults", "size", 1, 12),
    ("faults", "processes", 1, 12),
    ("faults", "nodes", 1, 8),
    ("faults", "locations", 1, 8),
    ("faults", "threads", 1, 1024),
    ("bench", "repeat", 1, 1000),
    ("refine", "calls", 1, 32),
    ("refine", "threads", 1, 4),
    ("refine", "nodes", 1, 4),
    ("refine", "objects", 1, 4),
    ("refine", "random", 1, u64::MAX),
    ("refine", "seed", 0, u64::MAX),
    ("serve", "port", 0, 65535),
];

/// Options whose text has numbers in it, with the commands that have them: a text out of range, and what the error says of
/// the range.
const TEXTS: &[(&[&str], &str, &str, &str)] = &[
    (LIMITED, "limit", "time=-1s", "from 0 to 1000000h"),
    (LIMITED, "limit", "total=1e99h", "from 0 to 1000000h"),
    (LIMITED, "limit", "time=NaNs", "from 0 to 1000000h"),
    (LIMITED, "limit", "memory=-1G", "from 0 to 17179869183G"),
    (LIMITED, "limit", "memory=17179869184G", "from 0 to 17179869183G"),
    (LIMITED, "limit", "states=-1", "from 0 to 18446744073709551615"),
    (
        LIMITED,
        "limit",
        "states=18446744073709551616",
        "from 0 to 18446744073709551615",
    ),
    (&["robust"], "cost", "poll=-1", "from 1 to 1000000"),
    (&["robust"], "cost", "poll=0", "from 1 to 1000000"),
    (
        &["robust"],
        "cost",
        "poll=18446744073709551616",
        "from 1 to 1000000",
    ),
    (&["star"], "server", "-1", "from 0 or P0, the first, to the last"),
    (
        &["star"],
        "server",
        "18446744073709551616",
        "from 0 or P0, the first, to the last",
    ),
    (SHARED, "shard", "0/4", "I from 1 to N"),
    (SHARED, "shard", "5/4", "I from 1 to N"),
    (SHARED, "shard", "1/18446744073709551616", "I from 1 to N"),
    (SHARED, "shard", "-1/4", "I from 1 to N"),
];
const LIMITED: &[&str] = &[
    "check", "explain", "compare", "bench", "outcomes", "refine", "robust", "serve",
];
const SHARED: &[&str] = &["check", "generate", "distinguish", "refine", "robust"];

/// Returns what the option says about a value.
fn refused(command: &str, option: &str, value: &str) -> String {
    let option = format!("--{option}={value}");
    let error = Cli::try_parse_from(["mowgli", command, &option]).expect_err("it is out of range");
    assert_eq!(
        error.kind(),
        ErrorKind::ValueValidation,
        "{command} {option}: {error}"
    );
    error.to_string()
}

#[test]
fn numbers_out_of_range_are_refused_with_option_value_and_range() {
    for &(command, option, least, most) in NUMBERS {
        let mut values = ["-1", "-9223372036854775809", "1.5", "1e3", "many"]
            .map(str::to_owned)
            .to_vec();
        values.extend(least.checked_sub(1).map(|n| n.to_string()));
        values.push((u128::from(most) + 1).to_string());
        values.push("18446744073709551616".to_owned());
        values.push("9".repeat(60));
        for value in values {
            let error = refused(command, option, &value);
            let range = format!("from {least} to {most}");
            assert!(
                error.contains(&format!("'{value}'"))
                    && error.contains(&format!("--{option}"))
                    && error.contains(&range),
                "{command} --{option} {value}: {error}"
            );
            // The value may also be a word of its own.
            let option = format!("--{option}");
            let separate =
                Cli::try_parse_from(["mowgli", command, &option, &value]).expect_err("it is out of range");
            assert_eq!(separate.to_string(), error);
        }
    }
    for &(commands, option, value, range) in TEXTS {
        for command in commands {
            let error = refused(command, option, value);
            assert!(
                error.contains(&format!("'{value}'"))
                    && error.contains(&format!("--{option}"))
                    && error.contains(range),
                "{command} --{option} {value}: {error}"
            );
        }
    }
}

/// A new option with a number must come into the table.
#[test]
fn every_option_with_a_number_is_in_the_table() {
    let numbers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
        TypeId::of::<f64>(),
        TypeId::of::<NonZeroUsize>(),
    ];
    let mut found = Vec::new();
    for command in command().get_subcommands() {
        for arg in command.get_arguments() {
            let takes = arg.get_value_parser().type_id();
            if arg.get_action().takes_values() && numbers.iter().any(|n| takes == *n) {
                let option = arg.get_long().expect("numbers have long names");
                found.push((command.get_name().to_owned(), option.to_owned()));
            }
            let texts = TEXTS.iter().filter(|text| Some(text.1) == arg.get_long());
            assert!(
                texts.into_iter().all(|text| text.0.contains(&command.get_name())),
                "{} --{:?}",
                command.get_name(),
                arg.get_long()
            );
        }
    }
    found.sort_unstable();
    let mut listed: Vec<_> = NUMBERS.iter().map(|n| (n.0.to_owned(), n.1.to_owned())).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}
