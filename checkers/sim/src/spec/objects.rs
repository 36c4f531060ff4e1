//! States the promises of LOCO's objects as predicates over the calls of an execution.
//!
//! Calls and results are texts. Each function says which calls it looks at, and ignores others, so that one
//! execution may use several objects under different names of calls.

use std::collections::BTreeMap;

use super::{Operation, Violation};

/// Returns the calls of each thread that `wanted` accepts, in order.
fn by_thread(
    operations: &[Operation],
    wanted: impl Fn(&Operation) -> bool,
) -> BTreeMap<u16, Vec<&Operation>> {
    let mut threads: BTreeMap<u16, Vec<&Operation>> = BTreeMap::new();
    for operation in operations.iter().filter(|o| wanted(o)) {
        threads.entry(operation.number).or_default().push(operation);
    }
    threads
}

/// Checks a barrier (LOCO'26 4.1): no thread's `n`-th `wait` returns before every participant's `n`-th has
/// begun. The participants are the threads that called `wait`.
///
/// # Errors
/// Returns the `wait` that returned too early, and the other thread's `wait` if it has begun.
pub fn barrier(operations: &[Operation]) -> Result<(), Violation> {
    const WHAT: &str = "nobody leaves a barrier before everybody has arrived";
    let threads = by_thread(operations, |o| o.name == "wait");
    for left in threads.values() {
        for (round, wait) in left.iter().enumerate().filter(|(_, w)| w.result.is_some()) {
            for others in threads.values() {
                match others.get(round) {
                    Some(other) if wait.precedes(other) => {
                        return Err(Violation::new(WHAT, [*wait, *other]));
                    }
                    Some(_) => {}
                    None => return Err(Violation::new(WHAT, [*wait])),
                }
            }
        }
    }
    Ok(())
}

/// Checks a ring buffer (LOCO'26 5.1). A thread's successful `receive`s (results other than `none`) return
/// the messages of the successful `submit M` calls (results other than `false`), in order and from the first.
/// No message is received before it was submitted.
///
/// # Errors
/// Returns the receive, and the submit whose message it should have returned if there is one.
pub fn ring_buffer(operations: &[Operation]) -> Result<(), Violation> {
    const WHAT: &str = "every reader receives the messages in the order in which they were submitted";
    let submitted: Vec<&Operation> = operations
        .iter()
        .filter(|o| o.name == "submit" && o.result.as_deref() != Some("false"))
        .collect();
    let received = |o: &Operation| o.name == "receive" && o.result.as_deref().is_some_and(|r| r != "none");
    for reader in by_thread(operations, received).values() {
        for (number, receive) in reader.iter().enumerate() {
            match submitted.get(number) {
                Some(submit)
                    if receive.result.as_ref() == Some(&submit.argument) && !receive.precedes(submit) => {}
                Some(submit) => return Err(Violation::new(WHAT, [*receive, *submit])),
                None => return Err(Violation::new(WHAT, [*receive])),
            }
        }
    }
    Ok(())
}

/// Checks the exclusion of a lock: no two `hold`s overlap. This check needs half as many calls as
/// [`lock`](super::lock), which checks the promises of acquiring and releasing.
///
/// # Errors
/// Returns the two holds.
pub fn mutual_exclusion(operations: &[Operation]) -> Result<(), Violation> {
    const WHAT: &str = "a lock is held by one thread at a time";
    let holds: Vec<&Operation> = operations.iter().filter(|o| o.name == "hold").collect();
    for (number, one) in holds.iter().enumerate() {
        for other in &holds[..number] {
            if !one.precedes(other) && !other.precedes(one) {
                return Err(Violation::new(WHAT, [*one, *other]));
            }
        }
    }
    Ok(())
}

/// Checks an owned variable or SST row (LOCO'25 5.1.1, 5.1.2) with calls `write V` and `read`. A read returns
/// `initial` or a value whose write had begun (`none` for "not whole just now" says nothing). One thread's
/// reads never go back to an earlier value. The writer reads the value that it wrote last. Written values
/// must be distinct.
///
/// # Errors
/// Returns the read, and the call that it contradicts if there is one.
pub fn single_writer(operations: &[Operation], initial: &str) -> Result<(), Violation> {
    let writes: Vec<&Operation> = operations.iter().filter(|o| o.name == "write").collect();
    for calls in by_thread(operations, |o| o.name == "read" || o.name == "write").values() {
        // The position of the newest value that this thread knows. The initial value has position 0.
        let mut newest = 0;
        let mut before: Option<&Operation> = None;
        for &call in calls {
            let value = match call.name.as_str() {
                "write" => &call.argument,
                _ => match &call.result {
                    Some(result) if result != "none" => result,
                    _ => continue,
                },
            };
            let written = writes.iter().position(|w| w.argument == *value).map(|p| p + 1);
            let position = match written {
                Some(position) => position,
                None if value == initial => 0,
                None => return Err(Violation::new("a read returns a value that was written", [call])),
            };
            if position > 0 && call.precedes(writes[position - 1]) {
                let what = "a read returns a value whose write has begun";
                return Err(Violation::new(what, [call, writes[position - 1]]));
            }
            if position < newest {
                let what = "reads of one thread never go back to an earlier value";
                return Err(Violation::new(what, [call].into_iter().chain(before)));
            }
            newest = position;
            before = Some(call);
        }
    }
    Ok(())
}

/// Checks a shared variable (LOCO'26 3.4) with calls `write V` and `read`. A read returns `initial` or a
/// value whose write, on any node, had begun. Anything stronger depends on broadcasts and fences, and is for
/// the test's own assertions.
///
/// # Errors
/// Returns the read.
pub fn shared_variable(operations: &[Operation], initial: &str) -> Result<(), Violation> {
    values_were_written(operations, initial)
}

/// Checks mixed-size writes (LOCO'26 Def. G.11) with calls `write V` and `read`. A read returns `none`,
/// `initial`, or a whole value whose write had begun, and never a mixture.
///
/// # Errors
/// Returns the read.
pub fn mixed_size_writes(operations: &[Operation], initial: &str) -> Result<(), Violation> {
    values_were_written(operations, initial)
}

fn values_were_written(operations: &[Operation], initial: &str) -> Result<(), Violation> {
    const WHAT: &str = "a read returns a value whose write has begun";
    let reads = operations.iter().filter(|o| o.name == "read");
    for read in reads {
        let Some(value) = read.result.as_deref().filter(|&r| r != "none" && r != initial) else {
            continue;
        };
        let written = operations
            .iter()
            .any(|w| w.name == "write" && w.argument == value && !read.precedes(w));
        if !written {
            return Err(Violation::new(WHAT, [read]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::operation;
    use super::*;

    #[test]
    fn barrier_histories() {
        let wait = |thread, invoked, responded| operation(thread, "wait", "", invoked, responded);
        assert_eq!(barrier(&[wait(0, 1, 4), wait(1, 3, 4)]), Ok(()));
        assert!(
            barrier(&[wait(0, 1, 2), wait(1, 3, 4)]).is_err(),
            "left before the other came"
        );
        assert!(
            barrier(&[wait(0, 1, 4), wait(0, 5, 6), wait(1, 3, 4)]).is_err(),
            "a second round alone"
        );
    }

    #[test]
    fn ring_buffer_histories() {
        let submit = |message: &str, at| operation(0, &format!("submit {message}"), "true", at, at + 1);
        let receive = |message: &str, at| operation(1, "receive", message, at, at + 1);
        let sent = [submit("a", 1), submit("b", 3)];
        let run = |received: &[Operation]| ring_buffer(&[&sent[..], received].concat());
        assert_eq!(
            run(&[receive("a", 3), receive("none", 5), receive("b", 7)]),
            Ok(())
        );
        assert!(run(&[receive("b", 7)]).is_err(), "the first is lost");
        assert!(run(&[receive("a", 3), receive("a", 5)]).is_err(), "twice");
        assert!(
            run(&[receive("a", 3), receive("b", 5), receive("c", 7)]).is_err(),
            "nobody sent it"
        );
    }

    #[test]
    fn single_writer_histories() {
        let write = |value: &str, at| operation(0, &format!("write {value}"), "", at, at + 1);
        let read = |value: &str, at| operation(1, "read", value, at, at + 1);
        let written = [write("1", 1), write("2", 5)];
        let run = |reads: &[Operation]| single_writer(&[&written[..], reads].concat(), "0");
        assert_eq!(
            run(&[read("0", 1), read("1", 3), read("none", 5), read("2", 7)]),
            Ok(())
        );
        assert!(
            run(&[read("2", 5), read("1", 7)]).is_err(),
            "back to an earlier value"
        );
        assert!(run(&[read("2", 1)]).is_err(), "before it was written");
        assert!(run(&[read("3", 9)]).is_err(), "never written");
    }

    #[test]
    fn mixed_size_histories() {
        let write = operation(0, "write [1, 2]", "", 1, 2);
        let read = |value: &str| operation(1, "read", value, 1, 4);
        assert_eq!(
            mixed_size_writes(&[write.clone(), read("[1, 2]")], "[0, 0]"),
            Ok(())
        );
        assert_eq!(
            mixed_size_writes(&[write.clone(), read("none")], "[0, 0]"),
            Ok(())
        );
        assert!(
            mixed_size_writes(&[write, read("[1, 0]")], "[0, 0]").is_err(),
            "a mixture"
        );
    }
}
