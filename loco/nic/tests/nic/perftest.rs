//! Programs of perftest, unchanged.

use crate::support::{World, lacks};

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
