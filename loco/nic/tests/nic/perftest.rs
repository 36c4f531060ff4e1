//! Programs of perftest, unchanged.

use crate::support::{Ended, World, lacks, wait_for_port};

fn measures(program: &str, args: &[&str]) {
    if lacks(program) {
        return;
    }
    // Perftest says little of sizes that it cannot measure the CPU for; `-F` makes it go on.
    let mut server = vec!["-d", "loco0", "-x", "1", "-F", "-n", "200"];
    server.extend(args);
    let mut client = server.clone();
    client.push("127.0.0.1");
    for (tier, stress) in [("ibta", "none"), ("ibta", "default")] {
        let said = World::new(tier, stress, 5).pair(program, &server, &client);
        assert!(said.contains("#bytes"), "{said}");
    }
}

#[test]
fn writes_are_measured() {
    measures("ib_write_lat", &[]);
    measures("ib_write_bw", &["-s", "65536"]);
}

#[test]
fn reads_are_measured() {
    measures("ib_read_lat", &[]);
    measures("ib_read_bw", &["-s", "65536"]);
}

#[test]
fn sends_are_measured() {
    measures("ib_send_lat", &[]);
    measures("ib_send_bw", &["-s", "4096"]);
    measures("ib_send_lat", &["-c", "UD"]);
    measures("ib_send_lat", &["-c", "UC"]);
}

#[test]
fn atomics_are_measured() {
    measures("ib_atomic_lat", &[]);
    measures("ib_atomic_bw", &["-A", "FETCH_AND_ADD"]);
}

/// Measures over connections of librdmacm. A client asks for its second one when the server is about to listen.
#[test]
fn connections_are_measured() {
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    for args in [&["ib_write_bw", "-s", "4096"][..], &["ib_send_lat", "-c", "UD"]] {
        if lacks(args[0]) {
            return;
        }
        let common = ["-R", "-d", "loco0", "-x", "1", "-F", "-n", "200", "-p", &port];
        let world = World::new("ibta", "none", 5);
        let server = world.start(args[0], &[&common[..], &args[1..]].concat());
        let mut server = Ended(Some(server));
        wait_for_port(&world);
        let client = world.run(args[0], &[&common[..], &args[1..], &["127.0.0.1"]].concat());
        let server = server.0.take().unwrap().wait_with_output().unwrap();
        assert!(client.status.success(), "client: {client:?}\nserver: {server:?}");
        assert!(server.status.success(), "server: {server:?}");
    }
}
