//! A process that is killed at a random moment: what the other is left with, and what is left in the folder of the world.

use crate::support::{World, compiled_of};

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

#[test]
fn requests_to_a_killed_process_fail_as_to_a_dead_machine() {
    is_survived("verbs");
}

#[test]
fn connections_to_a_killed_process_end() {
    is_survived("manager");
}
