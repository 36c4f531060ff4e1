//! The promises of a log over the calls of an execution.

use std::collections::{BTreeMap, BTreeSet};

use super::{Operation, Violation};

/// An entry of the log that a call shows: the position, the value, and the call.
struct Shown<'a> {
    position: u64,
    value: &'a str,
    call: &'a Operation,
}

/// Checks a log with calls `append V`, whose result is the position of the record, and `read`, whose result is `P V`: the position and
/// the value of the record that the node reads next (`none` for no record). Values must be distinct. A call without a result may have taken
/// effect or not.
///
/// All calls show one log: a value has one position, and a position one value. A value's append had begun. Each node reads the
/// positions from 0 on without a gap, and so do appends fill the log. A record whose append has returned, or which somebody has
/// read, comes before those whose append began after that.
///
/// # Errors
/// Returns the calls that contradict one another.
pub fn log(operations: &[Operation]) -> Result<(), Violation> {
    let appends: BTreeMap<&str, &Operation> = operations
        .iter()
        .filter(|call| call.name == "append")
        .map(|call| (call.argument.as_str(), call))
        .collect();
    let mut entries: BTreeMap<u64, Shown<'_>> = BTreeMap::new();
    let mut positions: BTreeMap<&str, u64> = BTreeMap::new();
    let mut read: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
    let mut all = Vec::new();
    for call in operations {
        let Some(shown) = shown(call)? else { continue };
        let what = "a record has the value of an append that has begun";
        match appends.get(shown.value) {
            Some(append) if !call.precedes(append) => {}
            Some(append) => return Err(Violation::new(what, [call, *append])),
            None => return Err(Violation::new(what, [call])),
        }
        if let Some(other) = entries.get(&shown.position)
            && other.value != shown.value
        {
            let what = "all nodes see the same record at a position, and an acknowledged one stays";
            return Err(Violation::new(what, [other.call, call]));
        }
        if *positions.entry(shown.value).or_insert(shown.position) != shown.position {
            return Err(Violation::new("a record is appended once", [call]));
        }
        if call.name == "read" && !read.entry(call.node).or_default().insert(shown.position) {
            return Err(Violation::new("a node reads a record once", [call]));
        }
        all.push(Shown { ..shown });
        entries.entry(shown.position).or_insert(shown);
    }
    for (node, read) in &read {
        let open = |call: &&Operation| call.name == "read" && call.node == *node && call.result.is_none();
        let missing = read.last().map_or(0, |last| last + 1 - read.len() as u64);
        if missing > operations.iter().filter(open).count() as u64 {
            let of_node = operations
                .iter()
                .filter(|call| call.name == "read" && call.node == *node);
            return Err(Violation::new("a node reads the log without a gap", of_node));
        }
    }
    if let Some((last, shown)) = entries.last_key_value()
        && *last >= appends.len() as u64
    {
        return Err(Violation::new("the log has no gap", [shown.call]));
    }
    for later in all.iter().filter(|shown| shown.call.name == "append") {
        for earlier in &all {
            if earlier.call.precedes(later.call) && earlier.position >= later.position {
                let what = "a record comes before those that were appended after it was known";
                return Err(Violation::new(what, [earlier.call, later.call]));
            }
        }
    }
    Ok(())
}

/// Returns the entry that a call shows, if it shows one.
fn shown(call: &Operation) -> Result<Option<Shown<'_>>, Violation> {
    let Some(result) = call.result.as_deref().filter(|&result| result != "none") else {
        return Ok(None);
    };
    let (position, value) = match call.name.as_str() {
        "append" => (result, call.argument.as_str()),
        "read" => result.split_once(' ').unwrap_or((result, "")),
        _ => return Ok(None),
    };
    match position.parse() {
        Ok(position) => Ok(Some(Shown {
            position,
            value,
            call,
        })),
        Err(_) => Err(Violation::new("a result begins with a position", [call])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::operation;
    use super::*;

    fn append(node: u16, value: &str, position: &str, at: u64) -> Operation {
        operation(node, &format!("append {value}"), position, at, at + 1)
    }

    fn read(node: u16, result: &str, at: u64) -> Operation {
        operation(node, "read", result, at, at + 1)
    }

    /// An append that has not returned.
    fn open(node: u16, value: &str, at: u64) -> Operation {
        Operation {
            result: None,
            responded: None,
            ..append(node, value, "", at)
        }
    }

    #[test]
    fn logs_in_one_order_are_allowed() {
        let calls = [
            append(0, "a", "0", 1),
            open(2, "x", 1),
            append(1, "b", "2", 3),
            read(0, "0 a", 5),
            read(1, "none", 5),
            read(1, "0 a", 7),
            read(1, "1 x", 9),
            read(1, "2 b", 11),
        ];
        assert_eq!(log(&calls), Ok(()));
    }

    #[test]
    fn each_promise_is_checked() {
        let violates = |calls: &[Operation]| log(calls).is_err();
        let both = [append(0, "a", "0", 1), append(1, "b", "1", 3)];
        let with = |more: &[Operation]| [&both[..], more].concat();
        assert!(!violates(&both));
        assert!(violates(&with(&[read(0, "0 b", 5)])), "another order");
        assert!(violates(&with(&[read(0, "1 b", 5)])), "a gap in the reading");
        assert!(violates(&with(&[read(0, "0 a", 5), read(0, "0 a", 7)])), "twice");
        assert!(violates(&with(&[read(0, "0 c", 5)])), "never appended");
        assert!(
            violates(&with(&[append(2, "c", "1", 5)])),
            "an acknowledged record is lost"
        );
        assert!(violates(&[append(0, "a", "1", 1)]), "a gap in the log");
        assert!(
            violates(&[append(0, "a", "1", 1), append(1, "b", "0", 3)]),
            "against the time"
        );
        assert!(
            violates(&[read(1, "0 a", 1), append(0, "a", "0", 3)]),
            "read before it began"
        );
        assert!(
            violates(&[
                open(0, "a", 1),
                read(1, "0 a", 1),
                read(1, "1 a", 3),
                append(0, "b", "2", 5)
            ]),
            "appended twice"
        );
        assert!(
            violates(&[open(0, "a", 1), read(1, "0 a", 1), append(1, "b", "0", 3)]),
            "a record that was read is taken back"
        );
    }
}
