//! Applications as nodes of a job: what their tests have in common, each of which includes this file.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The launcher, which cargo puts beside `program`. It is built here if the program's package is tested alone.
fn launcher(program: &str) -> PathBuf {
    let loco = Path::new(program).with_file_name("loco");
    if !loco.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "loco-cli"])
            .status()
            .unwrap();
        assert!(built.success());
    }
    loco
}

/// A command without input that knows of no job.
pub fn alone(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// `program` on so many nodes, without input.
pub fn job(program: &str, nodes: usize, args: &[&str]) -> Command {
    let mut command = alone(launcher(program));
    command
        .args(["run", "--timeout", "60", "--fabric", "shm", "--no-prefix", "-n"])
        .arg(nodes.to_string())
        .arg("--")
        .arg(program)
        .args(args);
    command
}

/// Starts it, interrupts it when it has run for two seconds, and waits for its end.
pub fn interrupted(mut command: Command) -> Output {
    let child: Child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    child.wait_with_output().unwrap()
}
