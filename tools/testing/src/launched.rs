//! Starts applications as nodes of a job.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Returns the launcher, which cargo puts beside `program`. It is built here if the program's package is
/// tested alone.
pub fn launcher(program: &str) -> PathBuf {
    let loco = Path::new(program).with_file_name("loco");
    if !loco.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "loco-rdma-cli"])
            .status()
            .unwrap();
        assert!(built.success());
    }
    loco
}

/// Returns a command without input that knows of no job.
pub fn alone(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Checks that the command calls itself `name` when it is asked for its version.
pub fn gives_its_name(program: &str, name: &str) {
    let output = alone(program).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with(&format!("{name} ")), "{said}");
}

/// Checks that the command, after the arguments `before`, refuses `value` as that of `option`, and names the option.
pub fn refuses(program: &str, before: &[&str], option: &str, value: &str) {
    let output = alone(program)
        .args(before)
        .args([option, value])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{option}: {output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(option),
        "{output:?}"
    );
}

/// Checks that two nodes of `program` fail that differ in `option`, and that they are told both values, `first` and the next.
/// Returns what was said.
pub fn refuses_different(program: &str, args: &str, option: &str, first: u32) -> String {
    let script = format!("exec $0 {args} {option} $((LOCO_NODE + {first}))");
    let output = launched(program, 2, "sh")
        .args(["-c", &script, program])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for value in [first, first + 1] {
        assert!(said.contains(&format!("{option} {value}")), "{said}");
    }
    said
}

/// Returns a command that runs `program` on so many nodes, without input.
pub fn job(program: &str, nodes: usize, args: &[&str]) -> Command {
    let mut command = launched(program, nodes, program);
    command.args(args);
    command
}

/// Returns a command that runs `runs` on so many nodes over shared memory, by the launcher that is beside `program`.
pub fn launched(program: &str, nodes: usize, runs: &str) -> Command {
    launched_over("shm", program, nodes, runs)
}

/// Returns a command that runs `runs` on so many nodes over a fabric, by the launcher that is beside `program`.
pub fn launched_over(fabric: &str, program: &str, nodes: usize, runs: &str) -> Command {
    let mut command = alone(launcher(program));
    command
        .args(["run", "--timeout", "300", "--fabric", fabric, "--no-prefix", "-n"])
        .arg(nodes.to_string())
        .arg("--")
        .arg(runs)
        // A machine with much else to do may let nodes wait for one another.
        .env("LOCO_CONNECT_TIMEOUT_MS", "120000");
    command
}

/// Starts the command, interrupts it when all of its nodes are at work, and waits for its end. The standard
/// error in the result is what was printed after that.
pub fn interrupted(mut command: Command, nodes: usize) -> Output {
    let mut child: Child = command
        .env("LOCO_LOG", "loco_app=info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    while seen.matches("at work").count() < nodes {
        assert!(said.read_line(&mut seen).unwrap() > 0, "it ended early: {seen}");
    }
    signal("-INT", child.id());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    said.read_to_end(&mut stderr).unwrap();
    Output {
        status: child.wait().unwrap(),
        stdout,
        stderr,
    }
}

/// Sends a signal to a process.
pub fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([name, &process.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}
