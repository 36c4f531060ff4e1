//! Neighbours that send garbage.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::support::{Ended, World, compiled, compiled_of, wait_for_listener};

#[test]
fn garbage_is_refused_and_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("completion_as_placement", folder.path()) else {
        return;
    };
    let world = World::new("ibta", "none", 0);
    let mut child = world
        .command(&program, &["mended", "20000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let socket = loop {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it has ended: {ended:?}");
        let sockets = std::fs::read_dir(world.meeting()).into_iter().flatten().flatten();
        let mut sockets = sockets.map(|entry| entry.path());
        if let Some(socket) = sockets.find(|path| path.extension().is_some_and(|it| it == "sock")) {
            break socket;
        }
        std::thread::yield_now();
    };
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[0; 200]] {
        // The socket is bound a moment before it listens.
        let mut stream = loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                break stream;
            }
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it has ended: {ended:?}");
            std::thread::yield_now();
        };
        let _ = stream.write_all(garbage);
        let _ = stream.write_all(&[0; 4096]);
        let mut end = Vec::new();
        // The other side closes the connection and sends nothing.
        let _ = stream.read_to_end(&mut end);
        assert!(end.is_empty());
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("closed a connection").count(), 3, "{said}");
    assert_eq!(std::fs::read_dir(world.meeting()).unwrap().count(), 0);
}

#[test]
fn garbage_in_the_folder_is_stepped_over() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "killed", folder.path()) else {
        return;
    };
    let world = World::new("ibta", "none", 0);
    let meeting = world.meeting();
    std::fs::create_dir(&meeting).unwrap();
    // Ports that the program uses, with nobody behind them: a text that is no address, a folder, and a process that is gone.
    std::fs::write(meeting.join("nic-7.port-106-20000"), [0xff; 100_000]).unwrap();
    std::fs::create_dir(meeting.join("nic-8.port-106-20001")).unwrap();
    std::fs::write(meeting.join("nic-9.port-106-20002"), "127.0.0.1").unwrap();
    std::fs::create_dir(meeting.join("nic-10.lock")).unwrap();
    std::fs::write(meeting.join("notes.txt"), "somebody else's").unwrap();
    let output = world.run(&program, &["manager", "5", "6"]);
    assert!(output.status.success(), "{output:?}");
    let mut left: Vec<_> = std::fs::read_dir(&meeting)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["nic-10.lock", "nic-8.port-106-20001", "notes.txt"]);
}

/// A process that has no descriptor left for a connection says so, with the remedy, and closes it: its side does not wait without end.
#[test]
fn a_connection_for_which_no_descriptor_is_left_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let world = World::new("ibta", "none", 0);
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    let target = world.start(&program, &["short", "127.0.0.1", &port]);
    let mut target = Ended(Some(target));
    wait_for_listener(&port);
    let writer = world.run(&program, &["lost", "127.0.0.1", &port, "0"]);
    let said = String::from_utf8_lossy(&writer.stdout).into_owned();
    assert!(writer.status.success(), "{writer:?}");
    assert!(
        said.contains("transport retry counter exceeded") && said.contains("after 0 successes"),
        "{said}"
    );
    let target = target.0.take().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&target.stderr).into_owned();
    assert!(
        target.status.success() && said.contains("ulimit -n"),
        "{target:?}"
    );
}

/// Data that was lost with a connection, for which the target had no descriptor, and a flag behind it, for which it has one.
#[test]
fn nothing_is_carried_out_behind_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let world = World::new("ibta", "none", 0);
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    let target = world.start(&program, &["reopens", "127.0.0.1", &port]);
    let mut target = Ended(Some(target));
    wait_for_listener(&port);
    let writer = world.run(&program, &["behind", "127.0.0.1", &port, "0"]);
    assert!(writer.status.success(), "{writer:?}");
    let target = target.0.take().unwrap().wait_with_output().unwrap();
    assert!(target.status.success(), "{target:?}");
}

/// `forked.c` says what is checked. The child reports nothing, and removes nothing of its parent's.
#[test]
fn a_child_of_a_process_with_the_device_has_a_copy_that_reaches_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "forked", folder.path()) else {
        return;
    };
    for stress in ["none", "default"] {
        let world = World::new("ibta", stress, 1);
        let report = world.meeting().with_extension("report");
        let output = world
            .command(&program, &[])
            .env("LOCO_NIC_REPORT", &report)
            .output()
            .unwrap();
        assert!(output.status.success(), "{stress}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("a device in a child of `fork`"), "{said}");
        let lines = std::fs::read_to_string(&report).unwrap();
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert_eq!(std::fs::read_dir(world.meeting()).unwrap().count(), 0);
    }
}
