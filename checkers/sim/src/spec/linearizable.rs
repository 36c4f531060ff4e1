//! Checks the objects that promise linearizability (LOCO'25 5.1.1, 5.4, 6 and app. C). Their calls become a
//! history for `loco-history`, whose specifications describe the sequential objects.
//!
//! As in the other specifications, calls and results are texts, and calls that an object does not have are
//! ignored. A call or a result of the object that cannot be read is a mistake in the world: the check panics.

use std::fmt::Debug;
use std::str::FromStr;

use loco_history::spec::{
    Atomic, AtomicCall, AtomicRet, KeyValue, KeyValueCall, KeyValueRet, Lock, LockCall, LockRet, Queue,
    QueueCall, QueueRet,
};
use loco_history::{History, Limits, Response, Spec, ThreadId, Verdict, check};

use super::{Operation, Violation};

/// Checks an atomic variable that starts as `initial`. Its calls are `read` -> `V`, `write V`, `add V` ->
/// old, `swap V` -> old, `cas EXPECTED NEW` -> old.
///
/// # Errors
/// Returns the calls that no order explains.
pub fn atomic_variable(operations: &[Operation], initial: u64) -> Result<(), Violation> {
    let call = |o: &Operation| {
        Some(match o.name.as_str() {
            "read" => AtomicCall::Read,
            "write" => AtomicCall::Write(argument(o, 0)),
            "add" => AtomicCall::FetchAdd(argument(o, 0)),
            "swap" => AtomicCall::Swap(argument(o, 0)),
            "cas" => AtomicCall::CompareSwap {
                expected: argument(o, 0),
                new: argument(o, 1),
            },
            _ => return None,
        })
    };
    let result = |o: &Operation, text: &str| match o.name.as_str() {
        "write" => AtomicRet::Written,
        _ => AtomicRet::Value(parsed(o, text)),
    };
    linearizable(
        "the calls of an atomic variable take effect one after another",
        &Atomic::new(initial),
        operations,
        call,
        result,
    )
}

/// Checks a lock. Its calls are `acquire`, `try_acquire` -> `acquired` or `busy`, and `release`. The threads
/// are the owners. A `try_acquire` may fail though the lock is free.
///
/// # Errors
/// Returns the calls that no order explains.
pub fn lock(operations: &[Operation]) -> Result<(), Violation> {
    let call = |o: &Operation| {
        let owner = u32::from(o.number);
        Some(match o.name.as_str() {
            "acquire" => LockCall::Acquire { owner },
            "try_acquire" => LockCall::TryAcquire { owner },
            "release" => LockCall::Release { owner },
            _ => return None,
        })
    };
    let result = |o: &Operation, text: &str| match (o.name.as_str(), text) {
        ("acquire", _) | ("try_acquire", "acquired") => LockRet::Acquired,
        ("release", _) => LockRet::Released,
        ("try_acquire", "busy") => LockRet::Busy,
        _ => unreadable(o, text),
    };
    let spec = Lock {
        spurious_failure: true,
        ..Lock::default()
    };
    linearizable(
        "a lock is held by one thread at a time",
        &spec,
        operations,
        call,
        result,
    )
}

/// Checks a shared queue of `capacity`. Its calls are `push V` -> `done`, `full` or `closed`; `pop` -> `V`,
/// `empty` or `closed`; `close`. Pushed values must be distinct.
///
/// # Errors
/// Returns the calls that no order explains.
pub fn shared_queue(operations: &[Operation], capacity: usize) -> Result<(), Violation> {
    let call = |o: &Operation| {
        Some(match o.name.as_str() {
            "push" => QueueCall::Push(argument::<u64>(o, 0)),
            "pop" => QueueCall::Pop,
            "close" => QueueCall::Close,
            _ => return None,
        })
    };
    let result = |o: &Operation, text: &str| match (o.name.as_str(), text) {
        ("push", "done") => QueueRet::Pushed,
        ("push", "full") => QueueRet::Full,
        ("pop", "empty") => QueueRet::Empty,
        (_, "closed") | ("close", _) => QueueRet::Closed,
        _ => QueueRet::Popped(parsed(o, text)),
    };
    linearizable(
        "each value is popped once, in the order of the pushes",
        &Queue::bounded(capacity),
        operations,
        call,
        result,
    )
}

/// Checks a key-value store that is empty at first, with numbers as keys and values. Its calls are `insert K
/// V` -> `done`, `duplicate` or `full`; `update K V` and `delete K` -> `true` or `false`; `get K` -> `V` or
/// `none`.
///
/// # Errors
/// Returns the calls of those keys whose calls no order explains.
pub fn key_value_store(operations: &[Operation]) -> Result<(), Violation> {
    let call = |o: &Operation| {
        Some(match o.name.as_str() {
            "get" => KeyValueCall::Get(argument::<u64>(o, 0)),
            "insert" => KeyValueCall::Insert(argument(o, 0), argument::<u64>(o, 1)),
            "update" => KeyValueCall::Update(argument(o, 0), argument(o, 1)),
            "delete" => KeyValueCall::Delete(argument(o, 0)),
            _ => return None,
        })
    };
    let result = |o: &Operation, text: &str| match (o.name.as_str(), text) {
        ("insert", "done") | ("update" | "delete", "true") => KeyValueRet::Done,
        ("insert", "duplicate") => KeyValueRet::Duplicate,
        ("insert", "full") => KeyValueRet::Full,
        ("update" | "delete", "false") | ("get", "none") => KeyValueRet::Missing,
        ("get", _) => KeyValueRet::Found(parsed(o, text)),
        _ => unreadable(o, text),
    };
    linearizable(
        "the calls for a key take effect one after another",
        &KeyValue::new(),
        operations,
        call,
        result,
    )
}

/// Checks whether some order of the calls explains their results in the sequential object `spec`. `what`
/// names the promise. `call` and `result` read the texts; calls for which `call` returns `None` are left
/// out.
///
/// # Errors
/// Returns the calls of those parts of the object that no order explains.
///
/// # Panics
/// Panics if the history is too long to be checked.
pub fn linearizable<S: Spec>(
    what: &'static str,
    spec: &S,
    operations: &[Operation],
    call: impl Fn(&Operation) -> Option<S::Call>,
    result: impl Fn(&Operation, &str) -> S::Ret,
) -> Result<(), Violation> {
    let (calls, history): (Vec<&Operation>, Vec<_>) = operations
        .iter()
        .filter_map(|operation| {
            let response = operation.result.as_deref().zip(operation.responded);
            let made = loco_history::Operation {
                thread: ThreadId {
                    node: operation.node,
                    thread: operation.number,
                },
                call: call(operation)?,
                invoked: operation.invoked,
                response: response.map(|(text, at)| Response {
                    result: result(operation, text),
                    at,
                }),
            };
            Some((operation, made))
        })
        .unzip();
    let history = History::from(history);
    // The check has no time limit, so that an exploration is repeatable.
    let limits = Limits {
        time: std::time::Duration::MAX,
        configurations: 1 << 20,
        ..Limits::default()
    };
    let report = check(spec, &history, &limits);
    let bad = |verdict| move |part: &&loco_history::Partition<S::Key>| part.verdict() == verdict;
    assert!(
        report.verdict() != Verdict::Unknown,
        "the history is too long to be checked: {what}"
    );
    let broken: Vec<&Operation> = report
        .partitions
        .iter()
        .filter(bad(Verdict::Violation))
        .flat_map(|part| &part.operations)
        .map(|&index| calls[index])
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Violation::new(what, broken))
}

fn argument<T: FromStr<Err: Debug>>(operation: &Operation, index: usize) -> T {
    let word = operation
        .argument
        .split_whitespace()
        .nth(index)
        .unwrap_or_default();
    parsed(operation, word)
}

fn parsed<T: FromStr>(operation: &Operation, text: &str) -> T {
    text.parse().unwrap_or_else(|_| unreadable(operation, text))
}

fn unreadable(operation: &Operation, text: &str) -> ! {
    panic!("the world recorded `{operation}`, of which `{text}` cannot be read")
}

#[cfg(test)]
mod tests {
    use super::super::tests::operation;
    use super::*;

    /// Returns the calls one after another, by two threads in turn.
    fn in_turn(calls: &[(&str, &str)]) -> Vec<Operation> {
        let times = (1..).step_by(2);
        let made = calls.iter().zip(times).enumerate();
        made.map(|(i, ((call, result), at))| operation(i as u16 % 2, call, result, at, at + 1))
            .collect()
    }

    #[test]
    fn atomic_variable_histories() {
        let fine = [
            ("add 2", "0"),
            ("cas 2 7", "2"),
            ("swap 9", "7"),
            ("write 1", ""),
            ("read", "1"),
        ];
        assert_eq!(atomic_variable(&in_turn(&fine), 0), Ok(()));
        assert!(
            atomic_variable(&in_turn(&[("add 1", "0"), ("add 1", "0")]), 0).is_err(),
            "lost update"
        );
        let together = [operation(0, "add 1", "1", 1, 4), operation(1, "add 1", "0", 1, 4)];
        assert_eq!(atomic_variable(&together, 0), Ok(()), "they overlap");
    }

    #[test]
    fn lock_histories() {
        let fine = [
            operation(0, "acquire", "", 1, 2),
            operation(1, "try_acquire", "busy", 3, 4),
            operation(0, "release", "", 5, 6),
            operation(1, "acquire", "", 3, 8),
        ];
        assert_eq!(lock(&fine), Ok(()));
        let both = [
            operation(0, "acquire", "", 1, 2),
            operation(1, "acquire", "", 3, 4),
        ];
        let broken = lock(&both).expect_err("two hold it");
        assert_eq!(broken.calls.len(), 2);
    }

    #[test]
    fn queue_histories() {
        let fine = [
            ("push 1", "done"),
            ("push 2", "full"),
            ("pop", "1"),
            ("close", ""),
            ("pop", "closed"),
        ];
        assert_eq!(shared_queue(&in_turn(&fine), 1), Ok(()));
        let swapped = [("push 1", "done"), ("push 2", "done"), ("pop", "2")];
        assert!(shared_queue(&in_turn(&swapped), 2).is_err());
        assert!(shared_queue(&in_turn(&[("push 1", "done"), ("pop", "empty")]), 2).is_err());
    }

    #[test]
    fn store_histories() {
        let fine = [
            ("insert 1 5", "done"),
            ("insert 1 6", "duplicate"),
            ("update 1 7", "true"),
            ("get 1", "7"),
            ("get 2", "none"),
            ("delete 1", "true"),
            ("delete 1", "false"),
        ];
        assert_eq!(key_value_store(&in_turn(&fine)), Ok(()));
        let stale = [
            ("insert 1 5", "done"),
            ("insert 2 5", "done"),
            ("update 1 7", "true"),
            ("get 1", "5"),
        ];
        let broken = key_value_store(&in_turn(&stale)).expect_err("stale");
        assert_eq!(broken.calls.len(), 3, "the other key is fine: {broken}");
    }

    #[test]
    #[should_panic(expected = "cannot be read")]
    fn texts_that_mean_nothing_are_the_worlds_mistake() {
        let _ = key_value_store(&in_turn(&[("get 1", "many")]));
    }
}
