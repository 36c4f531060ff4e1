//! Tests the text, the page and the data of a check that failed or was ended by a limit.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use loco_history::spec::*;
use loco_history::{Exhausted, History, Limits, Operation, Outcome, ThreadId, Verdict, check};

fn thread(thread: u16) -> ThreadId {
    ThreadId { node: 0, thread }
}

/// Returns a history in which a read misses a write that is over: key 2 is bad, key 1 is not.
fn stale_read() -> History<KeyValueCall<u8, u8>, KeyValueRet<u8>> {
    use KeyValueCall::{Get, Insert, Update};
    use KeyValueRet::{Done, Found};
    History::from(vec![
        Operation::new(thread(0), Insert(1, 10), 0, Done, 5),
        Operation::new(thread(0), Insert(2, 20), 10, Done, 15),
        Operation::new(thread(0), Update(2, 21), 20, Done, 25),
        Operation::new(thread(1), Get(1), 2, Found(10), 28),
        Operation::new(thread(1), Get(2), 30, Found(20), 35),
        Operation::new(thread(1), Get(2), 40, Found(21), 45),
    ])
}

#[test]
fn a_violation_names_the_response_the_state_and_the_reason() {
    let (spec, history) = (KeyValue::new(), stale_read());
    let report = check(&spec, &history, &Limits::default());
    assert_eq!(report.verdict(), Verdict::Violation);
    let expected = "\
NOT LINEARIZABLE: 6 operations in 2 partitions: 1 ok, 1 violated, 0 unknown; 4 configurations visited

partition 2: violation; 4 operations, the longest legal order has 2
  no order leads past the response of
    [4] thread 0.1, 30..35: Get(2) -> Found(20)
  an order that explains all earlier responses (0 operations before):
    [1] thread 0.0, 10..15: Insert(2, 20) -> Done   => Some(20)
    [2] thread 0.0, 20..25: Update(2, 21) -> Done   => Some(21)
  what could come next in state Some(21):
    [4] thread 0.1, 30..35: Get(2) -> Found(20)   not legal in this state
";
    assert_eq!(report.text(), expected);
}

#[test]
fn the_page_is_self_contained_and_holds_the_bad_partitions() {
    let (spec, history) = (KeyValue::new(), stale_read());
    let page = check(&spec, &history, &Limits::default()).html();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for outside in ["http:", "https:", "src=", "href=", "@import"] {
        // The name of the SVG namespace is the one address in it, and nothing loads it.
        assert!(
            !page.replace("http://www.w3.org/2000/svg", "").contains(outside),
            "{outside}"
        );
    }
    let data = page_data(&page);
    assert_eq!(data["partitions"].as_array().unwrap().len(), 1);
    let part = &data["partitions"][0];
    assert_eq!(
        (part["name"].as_str(), part["verdict"].as_str()),
        (Some("2"), Some("violation"))
    );
    // Places are positions in the partition: the third of its operations is the blocked one.
    assert_eq!(part["blocked"], 2);
    assert_eq!(part["orders"][0]["operations"], serde_json::json!([0, 1]));
    assert_eq!(
        part["orders"][0]["states"],
        serde_json::json!(["Some(20)", "Some(21)"])
    );
}

#[test]
fn a_page_of_an_accepted_history_shows_its_order() {
    let history = generate::<QueueObject>(
        &mut rng(3),
        Shape {
            operations: 30,
            reach: 2,
            pending_percent: 0,
        },
    );
    let spec = QueueObject::spec();
    let data = page_data(&check(&spec, &history, &Limits::default()).html());
    assert_eq!(data["partitions"][0]["verdict"], "ok");
    assert_eq!(
        data["partitions"][0]["orders"][0]["operations"]
            .as_array()
            .unwrap()
            .len(),
        30
    );
}

#[test]
fn text_in_a_history_cannot_end_the_script() {
    let spec = Register::new(String::new());
    let evil = "</script><script>alert(1)</script>".to_owned();
    let history = History::from(vec![Operation::new(
        thread(0),
        RegisterCall::Read,
        0,
        RegisterRet::Value(evil),
        1,
    )]);
    let page = check(&spec, &history, &Limits::default()).html();
    assert_eq!(page.matches("</script>").count(), 1);
}

fn page_data(page: &str) -> serde_json::Value {
    let line = page
        .lines()
        .find(|line| line.starts_with("const data = "))
        .unwrap();
    serde_json::from_str(line.trim_start_matches("const data = ").trim_end_matches(';')).unwrap()
}

/// Returns concurrent writes of distinct values and a read of none of them, so that every order must be
/// tried.
fn hard(writes: u8) -> History<RegisterCall<u8>, RegisterRet<u8>> {
    let write = |v: u8| {
        Operation::new(
            thread(v.into()),
            RegisterCall::Write(v),
            0,
            RegisterRet::Written,
            100,
        )
    };
    let mut operations: Vec<_> = (1..=writes).map(write).collect();
    operations.push(Operation::new(
        thread(0),
        RegisterCall::Read,
        50,
        RegisterRet::Value(200),
        100,
    ));
    History::from(operations)
}

#[test]
fn each_limit_yields_unknown_with_the_longest_order() {
    let (spec, history) = (Register::new(0), hard(40));
    let none = Limits {
        time: std::time::Duration::from_millis(200),
        ..Limits::default()
    };
    let cases = [
        (none.clone(), Exhausted::Time),
        (
            Limits {
                memory_bytes: 1 << 20,
                ..Limits::default()
            },
            Exhausted::Memory,
        ),
        (
            Limits {
                configurations: 5000,
                ..Limits::default()
            },
            Exhausted::Configurations,
        ),
    ];
    for (limits, expected) in cases {
        let report = check(&spec, &history, &limits);
        assert_orders_hold(&spec, &history, &report);
        let Outcome::Unknown { reason, longest, .. } = &report.partitions[0].outcome else {
            panic!("{:?}", report.verdict());
        };
        assert_eq!((*reason, longest.len()), (expected, 40));
        assert!(report.text().starts_with("UNKNOWN"), "{}", report.text());
        assert_eq!(page_data(&report.html())["partitions"][0]["verdict"], "unknown");
    }
}

#[test]
fn a_hard_partition_does_not_hide_a_violation_in_another() {
    // Key 1: 40 concurrent updates and a get of none of their values. Key 2: the stale read.
    let mut history = stale_read();
    for value in 100..140 {
        let update = KeyValueCall::Update(1, value);
        history.operations.push(Operation::new(
            thread(value.into()),
            update,
            50,
            KeyValueRet::Done,
            100,
        ));
    }
    history.operations.push(Operation::new(
        thread(1),
        KeyValueCall::Get(1),
        50,
        KeyValueRet::Found(7),
        100,
    ));
    let limits = Limits {
        configurations: 10_000,
        ..Limits::default()
    };
    let spec = KeyValue::new();
    let report = check(&spec, &history, &limits);
    let verdicts: Vec<_> = report
        .partitions
        .iter()
        .map(|part| (part.key, part.verdict()))
        .collect();
    assert_eq!(verdicts, [(2, Verdict::Violation)]);
    assert_eq!(report.undecided, 1);
    assert_eq!(report.verdict(), Verdict::Violation);
    assert!(
        report.text().contains("0 unknown, 1 not decided"),
        "{}",
        report.text()
    );
}

/// Makes a history of keys whose search would never end, all of which come before a long key with a violation, in time
/// and by size.
fn hard_keys_and_a_violation(keys: u8) -> History<KeyValueCall<u8, u8>, KeyValueRet<u8>> {
    let mut operations = Vec::new();
    for key in 0..=keys {
        let insert = KeyValueCall::Insert(key, 1);
        operations.push(Operation::new(thread(1), insert, 10, KeyValueRet::Done, 20));
    }
    for key in 1..=keys {
        for value in 100..140 {
            let update = KeyValueCall::Update(key, value);
            operations.push(Operation::new(
                thread(value.into()),
                update,
                50,
                KeyValueRet::Done,
                100,
            ));
        }
        let get = KeyValueCall::Get(key);
        operations.push(Operation::new(thread(1), get, 50, KeyValueRet::Found(7), 100));
    }
    for at in 0..200 {
        let value = (at % 100) as u8;
        let update = KeyValueCall::Update(0, value);
        operations.push(Operation::new(
            thread(1),
            update,
            1000 + 10 * at,
            KeyValueRet::Done,
            1005 + 10 * at,
        ));
    }
    let get = KeyValueCall::Get(0);
    operations.push(Operation::new(thread(2), get, 5000, KeyValueRet::Found(99), 5010));
    let get = KeyValueCall::Get(0);
    operations.push(Operation::new(thread(2), get, 5020, KeyValueRet::Missing, 5030));
    History::from(operations)
}

#[test]
fn a_violation_decides_however_many_hard_partitions_come_before_it() {
    let spec = KeyValue::new();
    let history = hard_keys_and_a_violation(50);
    // Within the default limits the fifty keys together would take hours, and all memory.
    let report = check(&spec, &history, &Limits::default());
    let violated: Vec<_> = report.partitions.iter().map(|part| part.key).collect();
    assert_eq!((violated.as_slice(), report.undecided), (&[0][..], 50));
    assert_eq!(report.verdict(), Verdict::Violation);
}

#[test]
fn the_memory_of_a_check_is_bounded_for_all_partitions_together() {
    let spec = KeyValue::new();
    let mut history = hard_keys_and_a_violation(20);
    history
        .operations
        .retain(|op| KeyValue::new().partition(&op.call) != 0);
    let limits = Limits {
        memory_bytes: 32 << 20,
        ..Limits::default()
    };
    let report = check(&spec, &history, &limits);
    assert_eq!(report.verdict(), Verdict::Unknown);
    let (mut most, mut sum) = (0, 0);
    for part in &report.partitions {
        let Outcome::Unknown { reason, .. } = part.outcome else {
            panic!("{:?}", part.outcome);
        };
        assert_eq!(reason, Exhausted::Memory);
        most = most.max(part.stats.memory_bytes);
        sum += part.stats.memory_bytes;
    }
    // A search that ends frees its memory for the others, so no one has more than the whole, and the limit is not one
    // for each.
    assert!(most <= limits.memory_bytes + (1 << 20), "{most}");
    assert!(sum < 20 * limits.memory_bytes, "{sum}");
}
