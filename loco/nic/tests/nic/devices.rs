//! Several devices in each process.

use crate::support::{Ended, World, compiled_of, lacks, wait_for_port};

/// Returns a world where every process has two devices.
fn two(tier: &'static str, stress: &'static str) -> World {
    World::new(tier, stress, 5).with("LOCO_NIC_DEVICES", "2")
}

/// `devices.c` says what is checked.
#[test]
fn every_device_is_itself_and_reaches_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "devices", folder.path()) else {
        return;
    };
    for count in ["1", "3", "8"] {
        let world = World::new("ibta", "none", 1).with("LOCO_NIC_DEVICES", count);
        let output = world.run(&program, &[count]);
        assert!(output.status.success(), "{count}: {output:?}");
    }
}

#[test]
fn a_number_of_devices_that_cannot_be_is_one() {
    if lacks("ibv_devinfo") {
        return;
    }
    for number in ["0", "9", "two"] {
        let output = World::new("ibta", "none", 0)
            .with("LOCO_NIC_DEVICES", number)
            .run("ibv_devinfo", &["-l"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("loco0") && !said.contains("loco1"), "{said}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("is not from 1 to 8"), "{told}");
    }
}

#[test]
fn devinfo_shows_the_device_that_is_asked_for() {
    if lacks("ibv_devinfo") {
        return;
    }
    let output = two("ibta", "none").run("ibv_devinfo", &["-v", "-d", "loco1"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("loco1") && !said.contains("loco0"), "{said}");
    assert!(said.contains("::ffff:127.0.0.2"), "{said}");
}

/// One process has its queue pair on the first device, and the other on the second.
#[test]
fn processes_meet_from_one_device_to_another() {
    let measured = ["-x", "1", "-F", "-n", "200", "-s", "4096"];
    let pairs = [
        ("ibv_rc_pingpong", &["-g", "1", "-n", "100", "-c"][..]),
        ("ibv_ud_pingpong", &["-g", "1", "-n", "100"]),
        ("ib_write_bw", &measured),
    ];
    for (program, common) in pairs {
        if lacks(program) {
            return;
        }
        for (tier, stress) in [("ibta", "none"), ("unordered", "default")] {
            for (here, there) in [("loco0", "loco1"), ("loco1", "loco1")] {
                let server = [&["-d", here], common].concat();
                let client = [&["-d", there], common, &["127.0.0.1"]].concat();
                let said = two(tier, stress).pair(program, &server, &client);
                assert!(said.contains(" iters in ") || said.contains("#bytes"), "{said}");
            }
        }
    }
}

/// An identifier of librdmacm has the device whose address it is given, or by whose address somebody connects.
#[test]
fn connections_use_the_device_that_has_the_address() {
    if lacks("rping") {
        return;
    }
    for (listens, connects) in [
        ("127.0.0.2", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.1"),
    ] {
        let world = two("ibta", "default");
        let common = ["-C", "10", "-V", "-S", "1000"];
        let server = [&["-s", "-a", listens][..], &common].concat();
        let client = [&["-c", "-a", connects][..], &common].concat();
        // The server of rdma-core 44 frees its event channel while a thread of its own may be about to wait there (later versions join
        // that thread first), so that how it ends says nothing. The client checks what it reads back.
        let _server = Ended(Some(world.start("rping", &server)));
        wait_for_port(&world);
        let client = world.run("rping", &client);
        assert!(client.status.success(), "{listens}, {connects}: {client:?}");
    }
}
