//! Options that have no effect beside what else is asked for are refused: nobody takes an answer for that of another question.
#![allow(clippy::unwrap_used)]

mod support;

use support::{exits, mowgli, stderr, stdout};

/// Checks that the command is refused, that the error names the option, and that nothing is answered.
#[track_caller]
fn refused(args: &[&str], option: &str) {
    let output = mowgli(args);
    exits(&output, 2);
    assert!(stderr(&output).contains(option), "{args:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{args:?}");
}

#[test]
fn a_seed_is_refused_where_nothing_is_drawn() {
    refused(&["refine", "I_SV", "--seed", "7"], "--random");
    refused(&["refine", "I_SV", "--local", "--seed", "7"], "--random");
    let output = mowgli(&["refine", "I_SV", "--seed", "7", "--random", "20", "--calls", "2"]);
    exits(&output, 0);
}

#[test]
fn a_list_of_implementations_takes_nothing_else() {
    for other in [
        &["I_SV"][..],
        &["--calls", "3"],
        &["--json"],
        &["--local"],
        &["--tier", "ooo-rw"],
    ] {
        refused(&[&["refine", "--list"], other].concat(), "--list");
    }
    exits(&mowgli(&["refine", "--list"]), 0);
}

/// Every option of `explain` beside every sort of test. The options without an entry have an effect on all.
#[test]
fn explain_refuses_the_options_of_other_tests() {
    let subjects = ["MP1", "RMA-6", "LOCO-23"];
    let options: [(&[&str], [bool; 3]); 7] = [
        (&["--model", "rdma-wait"], [true, true, false]),
        (&["--rmw", "hca"], [true, false, false]),
        (&["--outcome", "z=1"], [true, true, false]),
        (&["--all"], [true, true, false]),
        (&["--cycle", "1"], [true, true, false]),
        (&["--json"], [true, true, false]),
        (&["--setting", "spec"], [false, false, true]),
    ];
    for (option, effect) in options {
        for (subject, has_effect) in subjects.into_iter().zip(effect) {
            let output = mowgli(&[&["explain", subject], option].concat());
            let error = stderr(&output);
            let is_refused = error.contains(&format!("{} has no effect on ", option[0]));
            assert_eq!(is_refused, !has_effect, "{subject} {option:?}: {error}");
            if is_refused {
                exits(&output, 2);
            }
        }
    }
}
