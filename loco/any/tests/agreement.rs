//! Tests of the nodes' agreement on a fabric: processes that cannot map one another's memory, and nodes that were told
//! different fabrics. Each test of processes runs its own binary again, once per node.
//!
//! A test that needs what the host lacks says *skipped*; `test.sh` says what must be there (`LOCO_REQUIRE_...`).

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};

use loco_any::{AnyConfig, AnyFabric, FabricChoice};
use loco_conformance::job::Processes;
use loco_conformance::processes::is_node;
use loco_fabric::{Control, Fabric, FabricError, NodeId};
use loco_job::{Job, Mesh, var};
use loco_testing::skipped;

/// Brings up the fabric of the environment in a node's process, and prints its name or the error.
fn play() {
    let mesh = Mesh::connect(&Job::from_env().unwrap()).unwrap();
    let end = mesh.clone();
    match AnyFabric::new(mesh, AnyConfig::from_env().unwrap()) {
        Ok(fabric) => println!("fabric {}.", fabric.caps().name),
        Err(error) => println!("error {error}."),
    }
    end.close();
}

/// Runs `test` as two nodes, the second by means of `wrapper`, and returns what they print.
fn outputs(test: &str, fabric: &str, wrapper: &[&str]) -> Vec<String> {
    let mut processes = Processes::new(test, 2);
    for node in 0..2 {
        let exe = std::env::current_exe().unwrap();
        let mut command = match (node, wrapper) {
            (1, [program, options @ ..]) => {
                let mut command = Command::new(program);
                command.args(options).arg(exe);
                command
            }
            _ => Command::new(exe),
        };
        command
            .args(["--exact", test, "--nocapture"])
            .env(var::FABRIC, fabric);
        processes.start_heard(NodeId(node), &mut command);
    }
    processes.rendezvous();
    processes.finish_well()
}

/// Checks that a node that `wrapper` starts makes all nodes take the network, or, if they must take shared memory, fail
/// with its name.
fn cannot_map(test: &str, wrapper: &[&str]) {
    for output in outputs(test, "shm", wrapper) {
        assert!(output.contains("error node "), "{output}");
        assert!(
            output.contains("cannot use shared memory: mapping the memory of node "),
            "{output}"
        );
        assert!(output.contains("all nodes must run as one user"), "{output}");
    }
    for output in outputs(test, "auto", wrapper) {
        assert!(output.contains("fabric tcp."), "{output}");
    }
}

/// Returns true if this host can start a program by means of `wrapper`.
fn works(wrapper: &[&str]) -> bool {
    let mut command = Command::new(wrapper[0]);
    command
        .args(&wrapper[1..])
        .arg("true")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn nodes_of_two_user_namespaces_take_the_network() {
    if is_node() {
        return play();
    }
    let wrapper = ["unshare", "--user"];
    if !works(&wrapper) {
        return skipped("USER_NAMESPACE", "this host makes no user namespaces");
    }
    cannot_map("nodes_of_two_user_namespaces_take_the_network", &wrapper);
}

#[test]
fn nodes_of_two_users_take_the_network() {
    if is_node() {
        return play();
    }
    let wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !works(&wrapper) {
        return skipped("OTHER_USER", "this process may not start another as another user");
    }
    cannot_map("nodes_of_two_users_take_the_network", &wrapper);
}

#[test]
fn nodes_of_one_user_take_shared_memory() {
    if is_node() {
        return play();
    }
    for output in outputs("nodes_of_one_user_take_shared_memory", "auto", &[]) {
        // A host with an RDMA device takes that.
        let name = output.split("fabric ").nth(1).unwrap_or_default();
        assert!(
            ["shm.", "verbs"].iter().any(|fabric| name.starts_with(fabric)),
            "{output}"
        );
    }
}

#[test]
fn nodes_that_were_told_different_fabrics_hear_so_at_once() {
    let choices = ["shm", "auto", "shm"];
    let errors: Vec<_> = std::thread::scope(|scope| {
        let ups = Mesh::in_process(3)
            .unwrap()
            .into_iter()
            .zip(choices)
            .map(|(mesh, choice)| {
                scope.spawn(move || {
                    let config = AnyConfig::default().choice(choice.parse::<FabricChoice>().unwrap());
                    AnyFabric::new(mesh, config).unwrap_err()
                })
            });
        let ups: Vec<_> = ups.collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    });
    let expected = "the nodes bring up different fabrics: auto on node 1, shm on nodes 0, 2; set the same LOCO_FABRIC on all \
                    nodes (`loco run --fabric`)";
    for error in errors {
        assert_eq!(error, FabricError::Config(expected.to_owned()));
    }
}

/// A node that cannot bring up its fabric, or has no settings, says so before it leaves.
#[test]
fn nodes_hear_why_another_has_no_fabric() {
    let settings: [fn() -> Result<AnyConfig, FabricError>; 2] = [
        || Ok(AnyConfig::default().choice("ofi:no-such-provider".parse()?)),
        || Ok(AnyConfig::default().choice("no-such-fabric".parse()?)),
    ];
    for faulty in settings {
        for others in ["shm", "auto"] {
            let errors: Vec<_> = std::thread::scope(|scope| {
                let ups = Mesh::in_process(3).unwrap().into_iter().map(|mesh| {
                    scope.spawn(move || {
                        let config = match mesh.node() {
                            NodeId(1) => faulty(),
                            _ => Ok(AnyConfig::default().choice(others.parse::<FabricChoice>().unwrap())),
                        };
                        AnyFabric::with_settings(mesh, config).unwrap_err()
                    })
                });
                let ups: Vec<_> = ups.collect();
                ups.into_iter().map(|up| up.join().unwrap()).collect()
            });
            let own = errors[1].to_string();
            assert!(own.contains("no-such-"), "{own}");
            for other in [&errors[0], &errors[2]] {
                let other = other.to_string();
                assert!(other.contains(&format!("node 1 has no fabric: {own}")), "{other}");
                assert!(other.contains("LOCO_FABRIC"), "{other}");
            }
        }
    }
}
