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
    // A placement is noted after its words are stored. Then the program may have ended: it has seen the flag, and its data not or
    // torn. All requests of earlier rounds were placed before this one was sent.
    let flag: u64 = flag.parse().unwrap();
    let placed = (0..flag - 1).map(|earlier| format!("placement {earlier}"));
    for name in [format!("sent {flag}"), format!("write {flag}")]
        .into_iter()
        .chain(placed)
    {
        assert!(names.contains(&name.as_str()), "{name}: {text}");
    }
}
