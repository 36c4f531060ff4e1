//! Programs of ibverbs-utils, unchanged.

use crate::support::{Ended, World, lacks, wait_for_port};

#[test]
fn devinfo_shows_a_device_with_an_active_port() {
    if lacks("ibv_devinfo") {
        return;
    }
    let output = World::new("ibta", "none", 0).run("ibv_devinfo", &["-v"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "loco0",
        "PORT_ACTIVE (4)",
        "link_layer:\t\tEthernet",
        "::ffff:",
        "RoCE v2",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

fn ping_pong(program: &str, args: &[&str]) {
    if lacks(program) {
        return;
    }
    for (tier, stress, count) in [
        ("ibta", "none", "1000"),
        ("ibta", "default", "100"),
        ("unordered", "default", "100"),
    ] {
        let mut server = vec!["-g", "1", "-n", count];
        server.extend(args);
        let mut client = server.clone();
        client.push("127.0.0.1");
        let said = World::new(tier, stress, 5).pair(program, &server, &client);
        assert!(said.contains(" iters in "), "{said}");
    }
}

#[test]
fn rc_pingpong_runs_and_checks_its_data() {
    ping_pong("ibv_rc_pingpong", &["-c"]);
}

/// Programs that check their data. `rping` takes a completed write for one that a later message announces, which it is but on
/// `unordered`.
#[test]
fn strict_programs_find_their_data_whole_on_the_tiers_whose_rules_they_keep() {
    if lacks("ibv_rc_pingpong") || lacks("rping") {
        return;
    }
    for tier in ["ibta", "ooo-rw", "ooo-all", "pcie-relaxed", "unordered"] {
        let world = World::new(tier, "default", 5);
        let server = ["-g", "1", "-n", "50", "-c"];
        let client = [&server[..], &["127.0.0.1"]].concat();
        let said = world.pair("ibv_rc_pingpong", &server, &client);
        assert!(said.contains(" iters in "), "{tier}: {said}");
        if tier == "unordered" {
            continue;
        }
        let common = ["-a", "127.0.0.1", "-C", "10", "-V", "-S", "1000"];
        let [server, client] = [["-s"], ["-c"]].map(|side| [&side[..], &common].concat());
        let mut server = Ended(Some(world.start("rping", &server)));
        wait_for_port(&world);
        let client = world.run("rping", &client);
        let server = server.0.take().unwrap().wait_with_output().unwrap();
        assert!(
            client.status.success() && server.status.success(),
            "{tier}: client: {client:?}\nserver: {server:?}"
        );
    }
}

#[test]
fn rc_pingpong_runs_by_events() {
    ping_pong("ibv_rc_pingpong", &["-e"]);
}

#[test]
fn rc_pingpong_runs_by_the_extended_interfaces() {
    ping_pong("ibv_rc_pingpong", &["-N", "-t"]);
}

#[test]
fn uc_pingpong_runs() {
    ping_pong("ibv_uc_pingpong", &[]);
}

#[test]
fn ud_pingpong_runs() {
    ping_pong("ibv_ud_pingpong", &[]);
}

#[test]
fn srq_pingpong_runs() {
    ping_pong("ibv_srq_pingpong", &[]);
}

#[test]
fn an_address_without_a_gid_is_refused_by_name() {
    if lacks("ibv_rc_pingpong") {
        return;
    }
    let world = World::new("ibta", "none", 0);
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    let mut server = Ended(Some(world.start("ibv_rc_pingpong", &["-p", &port])));
    let client = loop {
        let ended = server.0.as_mut().unwrap().try_wait().unwrap();
        assert!(ended.is_none(), "the server has ended: {ended:?}");
        let client = world.run("ibv_rc_pingpong", &["-p", &port, "127.0.0.1"]);
        if !String::from_utf8_lossy(&client.stderr).contains("Couldn't connect") {
            break client;
        }
    };
    let server = server.0.take().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&server.stderr) + String::from_utf8_lossy(&client.stderr);
    assert!(!client.status.success() && !server.status.success());
    assert!(said.contains("GID index"), "{said}");
}
