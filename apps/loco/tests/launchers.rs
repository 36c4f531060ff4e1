//! Runs our programs under other launchers: `mpirun` itself where it is installed (`test.sh` installs it
//! where it may), and the variables of OpenMPI, PMI and Slurm as these launchers set them.

#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Output, Stdio};

use loco_testing::free_addresses;
use loco_testing::skipped;

const LOCO: &str = env!("CARGO_BIN_EXE_loco");
const SECRET: &str = "a secret for launchers";
const RANKS: usize = 3;

/// Returns the command without the variables that a launcher may have set for this test itself.
fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if ["LOCO_", "OMPI_", "PMI", "SLURM_", "MPI_"]
            .iter()
            .any(|of| name.starts_with(of))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Starts `loco demo-node`, which meets the others, waits at barriers, broadcasts and reads the shared table.
fn node(variables: &[(&str, String)]) -> Child {
    let mut command = clean(LOCO);
    command.arg("demo-node").envs(variables.iter().cloned());
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

/// Checks that all ranks have met and done their work.
fn check(output: &str) {
    for line in [
        "meets 2 others",
        "reads in its table: node 0 heard 0, node 1 heard 200003",
    ] {
        assert_eq!(output.matches(line).count(), RANKS, "{line}: {output}");
    }
    assert!(output.contains("all connected over "), "{output}");
}

/// Starts a process for each rank, with the variables that `of` returns for it.
fn ranks<'a>(of: impl Fn(usize) -> Vec<(&'a str, String)>) {
    let variables = |rank| [of(rank), vec![("LOCO_SECRET", SECRET.to_owned())]].concat();
    let children: Vec<_> = (0..RANKS).map(|rank| node(&variables(rank))).collect();
    let mut all = String::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        all += &String::from_utf8(output.stdout).unwrap();
    }
    check(&all);
}

/// Returns an `mpirun` command; `None` where there is no `mpirun`.
fn mpirun(options: &[&str]) -> Option<Command> {
    let there = Command::new("mpirun").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        skipped("MPI", "there is no mpirun here (Debian: openmpi-bin)");
        return None;
    }
    let mut command = clean("mpirun");
    let ranks = RANKS.to_string();
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks]);
    command.args(options);
    Some(command)
}

#[test]
fn mpirun_starts_nodes() {
    let Some(mut command) = mpirun(&["-x", "LOCO_SECRET", LOCO, "demo-node"]) else {
        return;
    };
    let Output {
        status,
        stdout,
        stderr,
    } = command.env("LOCO_SECRET", SECRET).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    check(&String::from_utf8(stdout).unwrap());
}

#[test]
fn mpirun_without_a_secret_is_told_what_to_set() {
    let Some(mut command) = mpirun(&[LOCO, "demo-node"]) else {
        return;
    };
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("the job has no secret") && errors.contains("LOCO_SECRET"),
        "{errors}"
    );
}

/// Returns the variables that `mpirun` sets.
fn openmpi(rank: usize, job: &str) -> Vec<(&'static str, String)> {
    vec![
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", RANKS.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", RANKS.to_string()),
        ("PMIX_NAMESPACE", job.to_owned()),
    ]
}

#[test]
fn variables_of_openmpi() {
    let job = format!("prterun-{}", std::process::id());
    ranks(|rank| openmpi(rank, &job));
}

/// MPICH's and Intel's `mpiexec` name no job: the ranks know one another by their common parent.
#[test]
fn variables_of_pmi() {
    ranks(|rank| {
        vec![
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", RANKS.to_string()),
            ("MPI_LOCALNRANKS", RANKS.to_string()),
        ]
    });
}

/// Slurm on one host, and on several; the first is that of rank 0.
#[test]
fn variables_of_slurm() {
    for (hosts, list, step) in [("1", "localhost", "0"), ("2", "localhost,elsewhere[01-03]", "1")] {
        let job = std::process::id().to_string();
        ranks(|rank| {
            vec![
                ("SLURM_PROCID", rank.to_string()),
                ("SLURM_NTASKS", RANKS.to_string()),
                ("SLURM_JOB_ID", job.clone()),
                ("SLURM_STEP_ID", step.to_owned()),
                ("SLURM_STEP_NUM_NODES", hosts.to_owned()),
                ("SLURM_STEP_NODELIST", list.to_owned()),
            ]
        });
    }
}

/// Returns what two ranks say and log that give up soon. They differ in the variables that `of` returns.
fn refused(of: impl Fn(usize) -> Vec<(&'static str, String)>) -> [String; 2] {
    let variables = |rank: usize| {
        let rank_of = ("PMI_RANK", rank.to_string());
        let common = [
            ("PMI_SIZE", "2"),
            ("LOCO_CONNECT_TIMEOUT_MS", "1500"),
            ("LOCO_LOG", "warn"),
        ];
        let common = common.map(|(name, value)| (name, value.to_owned()));
        [vec![rank_of], common.to_vec(), of(rank)].concat()
    };
    let children = [0, 1].map(|rank| node(&variables(rank)));
    children.map(|child| {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    })
}

#[test]
fn a_wrong_secret_is_refused_and_logged() {
    let [first, second] = refused(|rank| vec![("LOCO_SECRET", format!("the secret of {rank}"))]);
    assert!(
        second.contains("loco: refused: by the rendezvous at "),
        "{second}"
    );
    assert!(
        second.contains("the secrets differ; give all nodes the same one"),
        "{second}"
    );
    assert!(first.contains("refused a connection"), "not logged: {first}");
    assert!(
        first.contains("waiting for node 1 to come to the rendezvous"),
        "{first}"
    );
}

#[test]
fn a_node_of_another_job_is_refused_and_logged() {
    let secret = ("LOCO_SECRET", SECRET.to_owned());
    let at = free_addresses(&["127.0.0.1"])[0];
    let meeting = ("LOCO_RENDEZVOUS", at.to_string());
    let [first, _] = refused(|rank| {
        vec![
            secret.clone(),
            meeting.clone(),
            ("LOCO_JOB", format!("job {rank}")),
        ]
    });
    assert!(first.contains("refused a connection"), "not logged: {first}");
}

#[test]
fn an_unreachable_peer_is_named() {
    let secret = ("LOCO_SECRET", SECRET.to_owned());
    let dir = tempfile::tempdir().unwrap();
    // There is no process for node 2.
    let at = free_addresses(&["127.0.0.1"; 3]);
    let text = format!("0 {}\n1 {}\n2 {}\n", at[0], at[1], at[2]);
    let path = dir.path().join("hosts.txt");
    std::fs::write(&path, text).unwrap();
    let hosts = ("LOCO_HOSTS", path.to_str().unwrap().to_owned());
    let of = |rank: usize| vec![secret.clone(), hosts.clone(), ("LOCO_NODE", rank.to_string())];
    for said in refused(of) {
        assert!(said.contains("node 2"), "{said}");
    }
}

/// Several launchers may name a rank: `mpirun` inside of a Slurm allocation, `loco run` inside of anything.
#[test]
fn the_nearest_launcher_counts() {
    let job = format!("nested-{}", std::process::id());
    ranks(|rank| {
        let outer = [("PMI_RANK", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
        let outer = outer.map(|(name, value)| (name, value.to_owned()));
        [openmpi(rank, &job), outer.to_vec()].concat()
    });
    let mut command = clean(LOCO);
    command.args(["run", "-n", "3", "--no-prefix", "--", LOCO, "demo-node"]);
    command
        .env("OMPI_COMM_WORLD_RANK", "0")
        .env("OMPI_COMM_WORLD_SIZE", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    check(&String::from_utf8(output.stdout).unwrap());
}
