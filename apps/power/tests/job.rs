//! Tests the `power` command: as nodes of a job in real time, and its messages on mistakes.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use loco_testing::launched::{alone, interrupted};

fn job(nodes: usize, args: &[&str]) -> Command {
    loco_testing::launched::job(env!("CARGO_BIN_EXE_power"), nodes, &[&["run"], args].concat())
}

/// Returns the deviations by period from the printed table.
fn deviations(table: &str) -> Vec<(u64, f64)> {
    let rows = table
        .lines()
        .filter(|row| row.trim_start().starts_with(|first: char| first.is_ascii_digit()));
    rows.map(|row| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        (columns[0].parse().unwrap(), columns[2].parse().unwrap())
    })
    .collect()
}

/// The times are stretched so far that a busy machine keeps up. If it still stalls, the system gets further attempts.
#[test]
fn in_real_time_a_short_period_is_stable_and_a_long_one_is_not() {
    let folder = std::env::temp_dir().join(format!("loco-power-job-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (csv, svg) = (folder.join("volts.csv"), folder.join("volts.svg"));
    let args = [
        "--periods",
        "20,100",
        "--converters",
        "5",
        "--duration",
        "6",
        "--slow-down",
        "400",
        "--csv",
        csv.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
    ];
    let mut seen = Vec::new();
    let shown = (0..5).any(|_| {
        let output = job(3, &args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        seen = deviations(&String::from_utf8_lossy(&output.stdout));
        let [(20, stable), (100, unstable)] = seen[..] else {
            panic!("{output:?}")
        };
        stable < 3.0 && unstable > 10.0
    });
    assert!(shown, "{seen:?}");
    let text = std::fs::read_to_string(&csv).unwrap();
    let samples = |period: &str| text.lines().filter(|line| line.starts_with(period)).count();
    // The time is 6 ms, less the missed iterations.
    assert!(samples("20,") > 30 && samples("100,") > 6, "{text}");
    let plot = std::fs::read_to_string(&svg).unwrap();
    for label in ["20 us", "100 us"] {
        assert!(plot.lines().any(|line| line.trim() == label), "{label}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_interrupted_run_ends_in_time() {
    let args = [
        "--periods",
        "20",
        "--converters",
        "2",
        "--duration",
        "100",
        "--slow-down",
        "500",
    ];
    let output = interrupted(job(2, &args), 2);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("period (us)"),
        "{output:?}"
    );
}

#[test]
fn nodes_with_different_options_are_told_so() {
    loco_testing::launched::refuses_different(
        env!("CARGO_BIN_EXE_power"),
        "run --converters 2 --periods 20 --duration 1",
        "--slow-down",
        100,
    );
}

#[test]
fn mistakes_are_told() {
    let power = |args: &[&str]| alone(env!("CARGO_BIN_EXE_power")).args(args).output().unwrap();
    let help = power(&["run", "--help"]);
    assert!(help.status.success() && !help.stdout.is_empty());
    assert_eq!(power(&["run", "--slow-down", "0"]).status.code(), Some(2));
    let alone = power(&["run"]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&alone.stderr).contains("loco run"),
        "{alone:?}"
    );
    let single = job(1, &[]).output().unwrap();
    assert_eq!(single.status.code(), Some(1), "{single:?}");
    assert!(
        String::from_utf8_lossy(&single.stderr).contains("two at least"),
        "{single:?}"
    );
}

#[test]
fn the_command_gives_its_own_name_as_that_of_the_version() {
    loco_testing::launched::gives_its_name(env!("CARGO_BIN_EXE_power"), "power");
}

#[test]
fn numbers_beyond_all_reason_are_refused() {
    for (option, value) in [
        ("--periods", "0"),
        ("--converters", "99999999999"),
        ("--duration", "0"),
        ("--duration", "18446744073709551615"),
        ("--delay", "18446744073709551615"),
        ("--jitter", "18446744073709551615"),
    ] {
        loco_testing::launched::refuses(env!("CARGO_BIN_EXE_power"), &["simulate"], option, value);
    }
}

#[test]
fn a_simulation_whose_output_goes_nowhere_says_so() {
    let simulate = |output: std::process::Stdio| {
        let mut command = alone(env!("CARGO_BIN_EXE_power"));
        command.args(["simulate", "--duration", "1"]).stdout(output);
        let ended = command.stderr(std::process::Stdio::piped()).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (code, said) = simulate(full.into());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("power: writing the output: No space left"),
        "{said}"
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(simulate(writer.into()), (Some(128 + 13), String::new()));
}

/// The second way to the printed figures is the file with the samples.
#[test]
fn the_printed_figures_are_those_of_the_samples() {
    let csv = std::env::temp_dir().join(format!("loco-power-figures-{}.csv", std::process::id()));
    let mut command = alone(env!("CARGO_BIN_EXE_power"));
    command
        .args(["simulate", "--periods", "40,60", "--csv"])
        .arg(&csv);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&csv).unwrap();
    std::fs::remove_file(&csv).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    for row in table.lines().skip(1) {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let number = |column: usize| columns[column].parse::<f64>().unwrap();
        let start = format!("{},", columns[0]);
        let volts: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with(&start))
            .map(|line| line.rsplit_once(',').unwrap().1.parse().unwrap())
            .collect();
        let reference = 240.0;
        let late = volts[volts.len() / 2..].iter().map(|v| (v - reference).abs());
        let deviation = late.fold(0.0, f64::max) / reference * 100.0;
        let overshoot = (volts.iter().copied().fold(0.0, f64::max) / reference - 1.0) * 100.0;
        assert!((number(2) - deviation).abs() < 1e-3, "{row}: {deviation}");
        assert!((number(4) - overshoot).abs() < 0.1, "{row}: {overshoot}");
    }
}

/// Without time under way, messages are as fast as nothing in a stretched model, and the output says what they take.
#[test]
fn a_run_says_what_time_messages_take() {
    let args = [
        "--periods",
        "20",
        "--converters",
        "2",
        "--duration",
        "1",
        "--slow-down",
        "100",
        "--delay",
        "3",
    ];
    let output = job(2, &args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("A message takes 3 us of the model's time each way"),
        "{said}"
    );
    assert!(said.contains("divided by 100"), "{said}");
}
