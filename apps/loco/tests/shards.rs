//! The shares of `loco check` are disjoint and make up the whole.

use std::process::{Command, Output};

use serde_json::Value;

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loco"))
        .arg("check")
        .args(["--json", "--strategy", "random", "--executions", "3"])
        .args(arguments)
        .output()
        .expect("the command starts")
}

/// The lines without times, and without the number of runs, which depends on how the workers share them.
fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(|line| {
            let mut value: Value = serde_json::from_str(line).expect("a line is JSON");
            if let Some(stats) = value.get_mut("stats").and_then(Value::as_object_mut) {
                stats.remove("seconds");
                stats.remove("runs");
            }
            value
        })
        .collect()
}

#[test]
fn shares_make_up_the_whole() {
    let whole = lines(&check(&[]));
    assert!(whole.len() > 4);
    let shares: Vec<Vec<Value>> = (1..=2)
        .map(|index| {
            let mut found = lines(&check(&["--shard", &format!("{index}/2")]));
            assert_eq!(found.remove(0)["shard"], format!("{index}/2"));
            found
        })
        .collect();
    // Shares take objects in turn, and each object has a line for each fabric.
    let of_objects: Vec<Vec<&[Value]>> = shares
        .iter()
        .map(|share| share.chunk_by(|a, b| a["object"] == b["object"]).collect())
        .collect();
    let most = of_objects.iter().map(Vec::len).max().unwrap_or(0);
    let joined = (0..most).flat_map(|turn| of_objects.iter().filter_map(move |share| share.get(turn)));
    assert_eq!(joined.copied().flatten().cloned().collect::<Vec<_>>(), whole);
}

#[test]
fn a_share_is_named_rightly_or_refused() {
    for wrong in ["0/2", "3/2", "x"] {
        assert_eq!(check(&["--shard", wrong]).status.code(), Some(2), "{wrong}");
    }
    assert_eq!(check(&["barrier", "--shard", "1/2"]).status.code(), Some(2));
}
