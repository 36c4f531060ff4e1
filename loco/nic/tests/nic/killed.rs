//! A process that is killed at a random moment: what the other is left with, and what is left in the folder of the world.

use std::process::Stdio;

use crate::support::{
    Ended, World, compiled_of, is_lost, wait_for_listener, wait_until, wait_until_it_writes,
};

/// Kills of a test. `LOCO_NIC_KILLS` makes it more.
fn kills() -> String {
    std::env::var("LOCO_NIC_KILLS").unwrap_or_else(|_| "12".to_owned())
}

/// Kills one of two processes again and again: `killed.c` says how, and what the other must see.
fn is_survived(mode: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "killed", folder.path()) else {
        return;
    };
    for (tier, stress) in [("ibta", "none"), ("unordered", "default")] {
        for seed in 1..=2 {
            let world = World::new(tier, stress, seed);
            let output = world.run(&program, &[mode, &seed.to_string(), &kills()]);
            assert!(
                output.status.success(),
                "{tier}, {stress}, seed {seed}: {output:?}"
            );
            println!(
                "{mode} on {tier}, {stress}: {}",
                String::from_utf8_lossy(&output.stdout)
            );
            let left = std::fs::read_dir(world.meeting()).unwrap().flatten();
            let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// `stopped.c` says what is checked: memory, rest, and how all of it ends.
#[test]
fn a_stopped_process_is_waited_for_at_rest_and_with_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "stopped", folder.path()) else {
        return;
    };
    for (tier, stress) in [("ibta", "none"), ("ibta", "default"), ("ooo-rw", "default")] {
        let output = World::new(tier, stress, 1).run(&program, &[]);
        assert!(output.status.success(), "{tier}, {stress}: {output:?}");
        print!("{tier}, {stress}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Returns how many children a process has.
fn children_of(id: u32) -> usize {
    let id = id.to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // The number of the parent is the second word behind the name, which is in parentheses.
    let of = stats.filter(|stat| {
        let behind = stat.rsplit_once(')').map(|(_, behind)| behind);
        behind.and_then(|behind| behind.split_whitespace().nth(1)) == Some(id.as_str())
    });
    of.count()
}

/// A child that runs on with what it has inherited, and one that is another program, keep nobody from seeing that their parent is gone.
#[test]
fn a_killed_process_is_gone_also_if_it_has_children() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled_of("programs", "apart", folder.path()) else {
        return;
    };
    let world = World::new("ibta", "none", 1);
    let port = loco_testing::free_addresses(&["127.0.0.1"])[0].port().to_string();
    let mut parent = world.command(&program, &["forks", "127.0.0.1", &port]);
    let parent = parent.stdin(Stdio::piped()).spawn().unwrap();
    let mut parent = Ended(Some(parent));
    wait_for_listener(&port);
    let mut writer = world.start(&program, &["lost", "127.0.0.1", &port, "0"]);
    let said = wait_until_it_writes(&mut writer);
    // The children live until the pipe is closed.
    let process = parent.0.as_mut().unwrap();
    let children = process.stdin.take().unwrap();
    let id = process.id();
    wait_until(|| children_of(id) == 2);
    process.kill().unwrap();
    process.wait().unwrap();
    is_lost(writer, said);
    // Its place is free, so that its files go with those of the writer.
    let left = std::fs::read_dir(world.meeting()).unwrap().count();
    drop(children);
    assert_eq!(left, 0);
}

#[test]
fn requests_to_a_killed_process_fail_as_to_a_dead_machine() {
    is_survived("verbs");
}

#[test]
fn connections_to_a_killed_process_end() {
    is_survived("manager");
}
