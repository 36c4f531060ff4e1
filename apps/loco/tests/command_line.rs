//! Tests what `docs/command-line.md` says of `loco`: the program of a job, times, colours, completions and manual pages; and
//! `loco doctor` on a machine without RDMA.

#![allow(clippy::unwrap_used)]

use std::process::Output;

use loco_testing::launched::alone;

/// Runs the command with these arguments.
fn loco(arguments: &[&str]) -> Output {
    alone(env!("CARGO_BIN_EXE_loco"))
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_program_of_a_job_needs_no_dashes_before_it() {
    let prints = |arguments: &[&str]| {
        let (code, out, err) = said(&loco(&[&["run", "-n", "1"], arguments].concat()));
        assert_eq!(code, Some(0), "{err}");
        out
    };
    assert_eq!(prints(&["echo", "-n", "--json", "3"]), "[0] --json 3\n");
    assert_eq!(prints(&["--", "echo", "--color", "x"]), "[0] --color x\n");
    // Dashes after the program are the program's.
    assert_eq!(prints(&["echo", "a", "--", "b"]), "[0] a -- b\n");
    assert_eq!(prints(&["--", "echo", "a", "--", "b"]), "[0] a -- b\n");
    // An option before the program is that of this command.
    let (code, _, err) = said(&loco(&["run", "-n", "1", "--tiemout", "3", "echo"]));
    assert_eq!(code, Some(2));
    assert!(
        err.contains("'--tiemout'") && err.contains("'--timeout'"),
        "{err}"
    );
    // The library may not be built; the program is taken all the same.
    let (_, _, err) = said(&loco(&["nic", "--seed", "1", "false", "--quiet"]));
    assert!(!err.contains("unexpected argument"), "{err}");
}

#[test]
fn times_have_units() {
    for time in ["0.2", "200ms", "0.2s"] {
        let (code, _, err) = said(&loco(&["run", "-n", "1", "--timeout", time, "sleep", "300"]));
        assert_eq!(code, Some(124), "{time}: {err}");
    }
    for (arguments, range) in [
        (&["run", "-n", "1", "--timeout", "5x", "true"][..], "from 0s to"),
        (&["bench", "lock", "--duration", "0s"], "from above 0s to"),
        (&["stress", "kv", "--kill", "5d"], "from 1ms to"),
    ] {
        let (code, _, err) = said(&loco(arguments));
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(
            err.contains("not a time such as") || err.contains("and not a time such as"),
            "{err}"
        );
        assert!(err.contains(range), "{err}");
    }
}

#[test]
fn colours_are_as_they_are_asked_for() {
    let prints = |arguments: &[&str], no_color: &str| {
        let mut command = alone(env!("CARGO_BIN_EXE_loco"));
        command.args(arguments).env("NO_COLOR", no_color);
        let (code, out, err) = said(&command.output().unwrap());
        assert_eq!(code, Some(0), "{err}");
        out.contains('\u{1b}')
    };
    let job = ["run", "-n", "1", "echo"];
    assert!(!prints(&job, ""), "a pipe is no terminal");
    assert!(prints(&[&["--color", "always"], &job[..]].concat(), "1"));
    assert!(prints(&["run", "--color=always", "-n", "1", "echo"], ""));
    assert!(!prints(&[&["--color", "never"], &job[..]].concat(), ""));
}

#[test]
fn a_machine_without_rdma_is_usable() {
    let (code, out, err) = said(&loco(&["doctor"]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.ends_with("\nshared memory works on this machine\n"), "{out}");
    for check in [
        "shared memory: done",
        "loopback: ",
        "localhost: is ",
        "name of this host: ",
        "user namespace: ",
        "system calls: ",
        "open files: ",
        "size of files: ",
        "address space: ",
        "/dev/shm: ",
        "network verbs: ",
        "network tcp: usable",
        "network ofi: ",
    ] {
        assert!(out.contains(&format!(" {check}")), "{check}: {out}");
    }
    let (code, out, _) = said(&loco(&["doctor", "--json"]));
    assert_eq!(code, Some(0));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["usable"], true, "{out}");

    let (code, out, _) = said(&loco(&["doctor", "--fabric", "shm"]));
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("shm is usable on this machine"), "{out}");
}

#[test]
fn a_limit_that_keeps_jobs_from_working_is_named_with_its_remedy() {
    let script = "ulimit -f 64; exec \"$0\" doctor";
    let mut shell = alone("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_loco")]);
    let (code, out, err) = said(&shell.output().unwrap());
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("FAILED  shared memory: "), "{out}{err}");
    assert!(
        out.ends_with("\nshared memory does not work on this machine\n"),
        "{out}"
    );
    assert!(out.contains("warning size of files: at most "), "{out}{err}");
    assert!(out.contains("`ulimit -f unlimited` before the job"), "{out}");
}

#[test]
fn shells_have_completions_and_readers_have_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, err) = said(&loco(&["completions", shell]));
        assert_eq!(code, Some(0), "{err}");
        assert!(script.contains("keep-going"), "{shell}");
        // The scripts for the other two have no values of options.
        let has_values = !matches!(shell, "elvish" | "powershell");
        assert_eq!(script.contains("zipf"), has_values, "{shell}");
    }
    let (_, script, _) = said(&loco(&["completions", "bash"]));
    assert!(
        !script.contains("demo-node"),
        "subcommands for internal use are not typed"
    );
    let (code, page, err) = said(&loco(&["man"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(
        page.contains(".TH loco 1") && page.contains("loco\\-run(1)"),
        "{page}"
    );

    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man1");
    let (code, _, err) = said(&loco(&["man", "--out", folder.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{err}");
    let mut pages: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort_unstable();
    for page in ["loco.1", "loco-run.1", "loco-litmus-run.1", "loco-new.1"] {
        assert!(pages.contains(&page.to_owned()), "{pages:?}");
    }
    // Subcommands for internal use have no page.
    assert!(
        !pages
            .iter()
            .any(|page| page.contains("__") || page.contains("-node.1")),
        "{pages:?}"
    );
}
