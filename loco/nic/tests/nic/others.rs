//! Programs of rdmacm-utils and of libfabric, unchanged.

use std::process::Output;

use crate::support::{Ended, World, lacks, wait_for_listener, wait_for_port};

/// Tiers whose rules these programs keep: they take a completion of a receive for what it announces, and poll no memory.
const TIERS: [(&str, &str); 3] = [("ibta", "none"), ("ooo-rw", "default"), ("unordered", "default")];

/// Runs a client, and checks that it and its server succeed.
fn both(world: &World, mut server: Ended, program: &str, args: &[&str]) -> Output {
    let client = world.run(program, args);
    let server = server.0.take().unwrap().wait_with_output().unwrap();
    assert!(client.status.success(), "client: {client:?}\nserver: {server:?}");
    assert!(server.status.success(), "server: {server:?}");
    client
}

fn connects(program: &str) {
    if lacks(program) {
        return;
    }
    for (tier, stress) in TIERS {
        let world = World::new(tier, stress, 5);
        let server = Ended(Some(world.start(program, &["-c", "4", "-C", "20"])));
        wait_for_port(&world);
        let args = ["-s", "127.0.0.1", "-c", "4", "-C", "20"];
        let said = both(&world, server, program, &args);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("data transfers complete"), "{said}");
    }
}

#[test]
fn ucmatose_connects_and_sends() {
    connects("ucmatose");
}

#[test]
fn udaddy_sends_datagrams() {
    connects("udaddy");
}

/// Runs libfabric's ping-pong over its verbs provider, which checks its data.
fn over_libfabric(endpoint: &str) {
    if lacks("fi_pingpong") {
        return;
    }
    for (tier, stress) in TIERS {
        let world = World::new(tier, stress, 5);
        let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
        let common = ["-p", "verbs", "-e", endpoint, "-c", "-I", "20", "-S", "1024"];
        let server = [&["-B", &port], &common[..]].concat();
        let server = Ended(Some(world.start("fi_pingpong", &server)));
        wait_for_listener(&port);
        let client = [&["-P", &port], &common[..], &["127.0.0.1"]].concat();
        both(&world, server, "fi_pingpong", &client);
    }
}

#[test]
fn libfabric_runs_over_connections() {
    over_libfabric("msg");
}

#[test]
fn libfabric_runs_over_datagrams() {
    over_libfabric("dgram");
}
