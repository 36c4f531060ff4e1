//! What a timeline shows of a run in which a request overtook another.

use crate::support::{World, compiled};

#[test]
fn a_timeline_shows_what_was_overtaken() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("flag_before_data", folder.path()) else {
        return;
    };
    let world = World::new("ooo-rw", "default", 1);
    let trace = folder.path().join("trace");
    let output = world
        .command(&program, &["mistake", "100000"])
        .env("LOCO_NIC_TRACE", &trace)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = std::fs::read_to_string(&trace).unwrap();
    let names: Vec<&str> = text
        .lines()
        .map(|line| {
            line.strip_prefix("{\"name\":\"")
                .unwrap()
                .split('"')
                .next()
                .unwrap()
        })
        .collect();
    let mut overtaking = names.iter().filter_map(|name| name.strip_prefix("overtakes "));
    // Flags are the requests with odd numbers, each after its data.
    let flag = overtaking.next_back().unwrap();
    assert_eq!(flag.parse::<u64>().unwrap() % 2, 1, "{flag}");
    // It was asked for, served and placed. The program has ended before its data was placed, or has seen it torn.
    for (name, count) in [("sent", 1), ("write", 1), ("placement", 1)] {
        let name = format!("{name} {flag}");
        let found = names.iter().filter(|other| **other == name).count();
        assert!(found >= count, "{name}: {text}");
    }
}
