//! Programs over UCX: its own, and OpenMPI's.
//!
//! UCX looks for a device's file before it opens the device. Here it has one in a mount namespace of each program, for which a user
//! namespace is needed, and no right.

use std::path::{Path, PathBuf};
use std::process::Command;

use loco_testing::skipped;

use crate::support::{Ended, World, lacks, wait_for_listener_of};

/// What UCX is told: the device, and the transports besides the one within a process.
fn told(command: &mut Command, device: &str, transport: &str) {
    command
        .env("UCX_NET_DEVICES", format!("{device}:1"))
        .env("UCX_TLS", format!("{transport},self"))
        .env("UCX_WARN_UNUSED_ENV_VARS", "n");
}

/// Returns a command that runs a program in a mount namespace with the device's file.
fn command(world: &World, folder: &Path, (device, transport): (&str, &str), program: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/devices.sh");
    let devices = tempfile::tempdir_in(folder).unwrap().keep();
    let mut command = world.command("unshare", &["--user", "--map-root-user", "--mount", "sh"]);
    command.arg(script).arg(devices).args(program);
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    command.env("LOCO_NIC_REPORT", report(folder));
    told(&mut command, device, transport);
    command
}

fn report(folder: &Path) -> PathBuf {
    folder.join("report")
}

/// Checks that the NIC has sent something.
fn was_used(folder: &Path) {
    let lines = std::fs::read_to_string(report(folder)).unwrap_or_default();
    let sent = lines
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("sent="));
    let sent: u64 = sent.map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(sent > 0, "the NIC was not used: {lines}");
}

/// Returns true, and reports the calling test as skipped, if something is not there.
fn cannot(programs: &[&str]) -> bool {
    if programs.iter().any(|program| lacks(program)) {
        return true;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "true"]);
    if unshare.output().is_ok_and(|output| output.status.success()) {
        return false;
    }
    skipped(
        "MOUNT_NAMESPACE",
        "`unshare --user --map-root-user --mount` fails",
    );
    true
}

fn measures(device: &str, transport: &str, test: &str, bytes: &str) {
    if cannot(&["ucx_perftest"]) {
        return;
    }
    for (tier, stress, count) in [("ibta", "none", "500"), ("unordered", "default", "50")] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(tier, stress, 5).with("LOCO_NIC_DEVICES", "2");
        let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
        let server = [
            "ucx_perftest",
            "-p",
            &port,
            "-t",
            test,
            "-s",
            bytes,
            "-n",
            count,
            "-w",
            "5",
        ];
        let client = [&server[..], &["127.0.0.1"]].concat();
        let started = command(&world, folder.path(), (device, transport), &server)
            .spawn()
            .unwrap();
        let mut started = Ended(Some(started));
        wait_for_listener_of(started.0.as_ref().unwrap().id(), &port);
        let client = command(&world, folder.path(), (device, transport), &client)
            .output()
            .unwrap();
        let server = started.0.take().unwrap().wait_with_output().unwrap();
        assert!(
            client.status.success(),
            "{tier}: client: {client:?}\nserver: {server:?}"
        );
        let said = String::from_utf8_lossy(&client.stdout).into_owned();
        assert!(said.contains("Final:"), "{said}");
        was_used(folder.path());
    }
}

#[test]
fn ucx_sends_messages_over_connections_and_datagrams() {
    measures("loco0", "rc_v", "tag_lat", "1000");
    measures("loco0", "ud_v", "tag_lat", "1000");
}

#[test]
fn ucx_puts_and_gets_and_adds() {
    measures("loco0", "rc_v", "ucp_put_lat", "1000");
    measures("loco0", "rc_v", "ucp_get", "1000");
    measures("loco0", "rc_v", "ucp_fadd", "8");
}

#[test]
fn ucx_uses_the_device_that_it_is_told() {
    measures("loco1", "rc_v", "tag_lat", "1000");
    measures("loco1", "ud_v", "tag_lat", "1000");
}

/// Processes of OpenMPI over UCX, which check what they get.
#[test]
fn openmpi_runs_over_ucx() {
    if cannot(&["mpirun", "mpicc", "ucx_perftest"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("ring");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/ring.c");
    let mut compiler = Command::new("mpicc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    let built = compiler.arg(&program).arg(source).output().unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let program = program.to_str().unwrap();
    for (tier, stress, transport) in [
        ("ibta", "none", "rc_v"),
        ("ooo-rw", "default", "rc_v"),
        ("ibta", "none", "ud_v"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(tier, stress, 5);
        let all = "mpirun --allow-run-as-root --oversubscribe -n 3 --mca pml ucx --mca osc ucx";
        let words: Vec<&str> = all.split(' ').chain([program]).collect();
        let output = command(&world, folder.path(), ("loco0", transport), &words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{tier}, {transport}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("the ring is closed"), "{said}");
        was_used(folder.path());
    }
}
