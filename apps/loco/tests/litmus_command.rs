//! `loco litmus` as a command: processes that it starts itself or `loco run` starts, results that are kept, and what is
//! said of them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use loco_testing::free_addresses;
use loco_testing::skipped;

const LOCO: &str = env!("CARGO_BIN_EXE_loco");

fn loco(arguments: &[&str]) -> Output {
    let mut command = Command::new(LOCO);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .env("LOCO_FABRIC", "shm")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn histograms_have_the_verdicts_of_the_model() {
    for nodes in ["1", "2"] {
        let output = loco(&["litmus", "run", "MP1", "SB1", "--runs", "100", "--nodes", nodes]);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(out.contains("Test MP1 Allowed\nHistogram ("), "{out}");
        assert!(
            out.contains("allowed, seen ") && out.contains("Observation SB1 "),
            "{out}"
        );
        assert!(!out.contains("FORBIDDEN"), "{out}");
    }
}

#[test]
fn a_job_of_the_launcher_runs_tests_and_the_same_command_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, model) = (folder.path().join("r.jsonl"), folder.path().join("m.cat"));
    let path = kept.to_str().unwrap();
    let first = [
        "run",
        "-n",
        "2",
        "--no-prefix",
        "--",
        LOCO,
        "litmus",
        "run",
        "tables",
        "--runs",
        "50",
        "-q",
        "-o",
        path,
    ];
    assert!(loco(&first).status.success());
    let there = lines(&kept);
    assert_eq!(there, 8);
    // A crash in the middle of a line: the rest of the line is lost, and its test is made again.
    let whole = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, &whole[..whole.len() - 30]).unwrap();
    let output = loco(&first);
    assert!(text(&output.stdout).contains("7 tests left out"), "{output:?}");
    assert_eq!(lines(&kept), there);

    let table = loco(&["litmus", "table", path]);
    assert!(text(&table.stdout).contains("tables"), "{table:?}");
    let inferred = loco(&["litmus", "infer", path, "--model", model.to_str().unwrap()]);
    assert!(
        text(&inferred.stdout).contains("never contradicted"),
        "{inferred:?}"
    );
    // The model judges tests in its turn.
    let judged = loco(&[
        "litmus",
        "run",
        "MP1",
        "--runs",
        "10",
        "--model",
        model.to_str().unwrap(),
    ]);
    assert!(text(&judged.stdout).contains("Observation MP1"), "{judged:?}");
}

/// The leader tells one node after the other that the job is over. Neither it nor a node that hears of it late takes the end of a
/// quicker one for a loss.
#[test]
fn nodes_end_one_after_the_other_in_peace() {
    for _ in 0..10 {
        let output = loco(&[
            "litmus", "run", "ST6", "--runs", "100", "--nodes", "3", "--fabric", "tcp", "--stress", "none",
            "-q",
        ]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// Operations on shared memory leave no completions to poll. On TCP they do.
#[test]
fn a_switch_without_effect_on_the_fabric_is_named() {
    for (fabric, stress, count) in [
        ("shm", "completions=3", 1),
        ("shm", "completions=0", 0),
        ("tcp", "completions=3", 0),
    ] {
        let output = loco(&[
            "litmus", "run", "SB1", "--runs", "20", "--nodes", "2", "--fabric", fabric, "--stress", stress,
        ]);
        assert!(output.status.success(), "{output:?}");
        let said = text(&output.stderr)
            .matches("completions=3 changes nothing")
            .count();
        assert_eq!(said, count, "{fabric}, {stress}: {output:?}");
    }
}

#[test]
fn mistakes_are_reported_once_and_name_the_remedy() {
    for (arguments, said) in [
        (
            &["litmus", "run", "NOWHERE"][..],
            "NOWHERE is no file, no folder, and no test of the catalogue",
        ),
        (
            &["litmus", "run", "MP1", "--stress", "pin=nowhere"],
            "expected one of free, together, apart, near, far",
        ),
        (&["litmus", "run", "MP1", "--model", "vax"], "unknown model 'vax'"),
        (
            &["litmus", "run", "MP1", "--model", "rdma-tso+ooo"],
            "unknown tier 'ooo': expected one of ibta, ooo-rw,",
        ),
        (
            &["litmus", "run", "MP+relaxed", "--runs", "10", "--fabric", "shm"],
            "leave `relaxed` out of the test",
        ),
        (
            &["litmus", "table", "/nowhere.jsonl"],
            "/nowhere.jsonl: No such file",
        ),
        (
            &["litmus", "infer", "/dev/null/x"],
            "/dev/null/x: Not a directory",
        ),
        (&["litmus", "table", "/dev/null"], "no result in /dev/null"),
        (&["litmus", "infer", "/dev/null"], "no result in /dev/null"),
    ] {
        let output = loco(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert_eq!(error.matches(said).count(), 1, "{arguments:?}: {error}");
    }
}

/// Returns `loco litmus run` of all tests of the catalogue, each for a fifth of a second, with results in `kept`.
fn long_run(kept: &Path) -> Command {
    let mut command = alone(LOCO);
    command
        .args([
            "litmus",
            "run",
            "catalogue",
            "--time",
            "0.2",
            "--runs",
            "1000000000",
        ])
        .args(["--fabric", "shm", "-q", "-o"])
        .arg(kept)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn alone(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if ["LOCO_", "OMPI_", "PMI", "SLURM_"]
            .iter()
            .any(|of| name.starts_with(of))
        {
            command.env_remove(name);
        }
    }
    command.env("LOCO_SECRET", "a secret for litmus tests");
    command
}

/// Waits until the first result is in the file. The job must be running.
fn first_result(kept: &Path, job: &mut Child) {
    while !kept.exists() || lines(kept) == 0 {
        assert!(job.try_wait().unwrap().is_none(), "the job ended early");
        std::thread::yield_now();
    }
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn an_interrupted_run_prints_the_table_of_what_was_run() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("r.jsonl");
    let mut job = long_run(&kept).args(["--nodes", "2"]).spawn().unwrap();
    first_result(&kept, &mut job);
    signal("-INT", job.id());
    let output = job.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let out = text(&output.stdout);
    let all = out.lines().find(|line| line.contains(" all ")).unwrap();
    let tests: usize = all.split_whitespace().nth(3).unwrap().parse().unwrap();
    // One may have been cut short, which the table counts and the file does not.
    let whole = lines(&kept);
    assert!(whole > 0 && (whole..=whole + 1).contains(&tests), "{out}");
}

/// Starts two nodes as `mpirun` does. The first one leads.
fn ranks(mut of: impl FnMut() -> Command) -> [Child; 2] {
    let job = format!("litmus-{}-{:?}", std::process::id(), std::thread::current().id());
    [0, 1].map(|rank: usize| {
        of().env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", "2")
            .env("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
            .env("PMIX_NAMESPACE", &job)
            .spawn()
            .unwrap()
    })
}

#[test]
fn a_node_that_is_killed_ends_the_job_with_the_name_of_the_test() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("r.jsonl");
    let [mut leader, other] = ranks(|| long_run(&kept));
    first_result(&kept, &mut leader);
    signal("-KILL", other.id());
    other.wait_with_output().unwrap();
    let output = leader.wait_with_output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("loco: test ") && error.contains("node 1 is lost"),
        "{error}"
    );
    // What was done is there, and the same command goes on with the rest.
    assert!(lines(&kept) > 0);
}

/// Checks that a job of two nodes has run the tests of a folder and that its leader alone has printed.
fn both_ran(out: &str) {
    assert_eq!(out.matches("fabric  ").count(), 1, "{out}");
    let all = out.lines().find(|line| line.contains(" all ")).unwrap();
    let fields: Vec<_> = all.split_whitespace().collect();
    assert_eq!(fields[..5], ["shm", "default", "all", "8", "400"], "{out}");
}

const TABLES: [&str; 8] = ["litmus", "run", "tables", "--runs", "50", "-q", "--fabric", "shm"];

#[test]
fn mpirun_starts_the_nodes_of_a_run() {
    let there = Command::new("mpirun").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        skipped("MPI", "there is no mpirun here (Debian: openmpi-bin)");
        return;
    }
    let output = alone("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", "2"])
        .args(["-x", "LOCO_SECRET", LOCO])
        .args(TABLES)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    both_ran(&text(&output.stdout));
}

#[test]
fn a_launcher_s_variables_start_the_nodes_of_a_run() {
    let nodes = ranks(|| {
        let mut command = alone(LOCO);
        command.args(TABLES).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    let [first, second] = nodes.map(|node| node.wait_with_output().unwrap());
    assert!(
        first.status.success() && second.status.success(),
        "{first:?} {second:?}"
    );
    both_ran(&text(&first.stdout));
    assert_eq!(text(&second.stdout), "");
}

#[test]
fn a_hosts_file_names_the_nodes_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = free_addresses(&["127.0.0.1"; 2]);
    let hosts = folder.path().join("hosts.txt");
    std::fs::write(&hosts, format!("0 {}\n1 {}\n", at[0], at[1])).unwrap();
    let nodes = ["0", "1"].map(|node| {
        alone(LOCO)
            .args(TABLES)
            .env("LOCO_HOSTS", &hosts)
            .env("LOCO_NODE", node)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let [first, second] = nodes.map(|node| node.wait_with_output().unwrap());
    assert!(
        first.status.success() && second.status.success(),
        "{first:?} {second:?}"
    );
    both_ran(&text(&first.stdout));
}

#[test]
fn random_walks_of_the_model_show_nothing_that_it_forbids() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("r.jsonl");
    let path = kept.to_str().unwrap();
    let run = [
        "litmus",
        "run",
        "rdma-tso24",
        "--fabric",
        "model",
        "--runs",
        "200",
        "-q",
        "-o",
        path,
    ];
    let output = loco(&run);
    assert!(output.status.success(), "{output:?}");
    let out = text(&output.stdout);
    assert!(out.contains("model   none    rdma-tso24"), "{out}");
    assert!(!out.contains("FORBIDDEN"), "{out}");
    // Walks see what the model allows: the weak state of SB3, too.
    let shown = loco(&["litmus", "run", "SB3", "--fabric", "model", "--runs", "500"]);
    assert!(
        text(&shown.stdout).contains("Observation SB3 Sometimes"),
        "{shown:?}"
    );
    let again = loco(&run);
    assert!(text(&again.stdout).contains("46 tests left out"), "{again:?}");
}

/// No fabric has messages: tests with them are named and counted, never dropped without a word. The model's machine has them.
#[test]
fn tests_with_messages_are_refused_by_name_on_fabrics() {
    let tests = mowgli::catalogue::entries()
        .iter()
        .filter(|e| e.folder == "messages");
    let names: Vec<&str> = tests.map(|entry| entry.name).collect();
    assert!(names.len() > 3, "{names:?}");
    let output = loco(&[
        "litmus", "run", "messages", "--fabric", "shm", "--runs", "5", "-q",
    ]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    for name in &names {
        let refused =
            format!("{name} is left out: it has messages (`send`, `recv`, `imm`), which no fabric has");
        assert!(said.contains(&refused), "{name}: {said}");
    }
    let counted = format!("{} tests left out: they cannot be run here", names.len());
    assert!(text(&output.stdout).contains(&counted), "{output:?}");
    // Beside a test that runs, they are counted, and the command ends well.
    let mixed = loco(&[
        "litmus", "run", names[0], "SB3", "--fabric", "shm", "--runs", "5", "-q",
    ]);
    assert_eq!(mixed.status.code(), Some(0), "{mixed:?}");
    assert!(text(&mixed.stdout).contains("1 test left out"), "{mixed:?}");

    let walked = loco(&[
        "litmus", "run", "messages", "--fabric", "model", "--runs", "20", "-q",
    ]);
    assert!(walked.status.success(), "{walked:?}");
    assert!(!text(&walked.stdout).contains("left out"), "{walked:?}");
}
