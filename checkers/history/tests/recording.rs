//! Tests that recorders and journals record what happened, even when the process dies in between.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::BufReader;
use std::sync::atomic::{AtomicU64, Ordering};

use loco_history::spec::{Atomic, AtomicCall, AtomicRet};
use loco_history::*;

const A: ThreadId = ThreadId { node: 0, thread: 0 };
const B: ThreadId = ThreadId { node: 1, thread: 3 };

/// Runs four threads that use one word by `body`, and returns their history.
fn run(body: impl Fn(&AtomicU64, AtomicCall) -> AtomicRet + Sync) -> History<AtomicCall, AtomicRet> {
    let word = AtomicU64::new(0);
    let one = |thread: u16| {
        let mut recorder = Recorder::new(ThreadId { node: 0, thread }, MonotonicClock);
        recorder.reserve(2000);
        for number in 0..2000 {
            let call = if number % 3 == 0 {
                AtomicCall::Read
            } else {
                AtomicCall::FetchAdd(1)
            };
            recorder.record(call, || body(&word, call));
        }
        recorder.finish()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || one(thread))).collect();
        History::merge(threads.into_iter().map(|thread| thread.join().unwrap()))
    })
}

#[test]
fn a_real_atomic_is_linearizable() {
    let history = run(|word, call| match call {
        AtomicCall::FetchAdd(add) => AtomicRet::Value(word.fetch_add(add, Ordering::SeqCst)),
        _ => AtomicRet::Value(word.load(Ordering::SeqCst)),
    });
    history.validate().unwrap();
    let spec = Atomic::default();
    let report = check(&spec, &history, &Limits::default());
    assert!(report.is_ok(), "{}", report.text());
}

#[test]
fn an_increment_in_two_steps_is_not() {
    let history = run(|word, call| {
        let old = word.load(Ordering::SeqCst);
        if let AtomicCall::FetchAdd(add) = call {
            std::thread::yield_now();
            word.store(old + add, Ordering::SeqCst);
        }
        AtomicRet::Value(old)
    });
    let spec = Atomic::default();
    assert_eq!(
        check(&spec, &history, &Limits::default()).verdict(),
        Verdict::Violation
    );
}

#[test]
fn what_is_open_at_the_end_is_pending() {
    let mut recorder = Recorder::new(A, LogicalClock::default());
    let open = recorder.invoke(AtomicCall::Swap(1));
    recorder.record(AtomicCall::Read, || AtomicRet::Value(0));
    drop(open);
    let history = recorder.finish();
    let expected = vec![
        Operation::pending(A, AtomicCall::Swap(1), 0),
        Operation::new(A, AtomicCall::Read, 1, AtomicRet::Value(0), 2),
    ];
    assert_eq!(history, History::from(expected));
}

#[test]
fn a_history_survives_serialisation() {
    let mut recorder = Recorder::new(B, LogicalClock::default());
    recorder.record(AtomicCall::CompareSwap { expected: 0, new: 3 }, || {
        AtomicRet::Value(0)
    });
    let _pending = recorder.invoke(AtomicCall::Read);
    let history = recorder.finish();
    let text = serde_json::to_string(&history).unwrap();
    assert_eq!(
        serde_json::from_str::<History<AtomicCall, AtomicRet>>(&text).unwrap(),
        history
    );
}

#[test]
fn journals_of_processes_merge_and_keep_the_operation_a_process_died_in() {
    let dir = tempfile::tempdir().unwrap();
    let clock = LogicalClock::default();
    let open = |name: &str| File::create(dir.path().join(name)).unwrap();
    let mut a = Journal::new(A, clock.clone(), open("a"));
    let mut b = Journal::<_, AtomicRet, _, _>::new(B, clock, open("b"));
    let add = a.invoke(AtomicCall::FetchAdd(1)).unwrap();
    let _killed_here = b.invoke(AtomicCall::Swap(5)).unwrap();
    a.respond(add, AtomicRet::Value(5)).unwrap();

    // The kill cut a line of the second file.
    let path = dir.path().join("b");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(br#"{"respond":{"id":0,"#);
    std::fs::write(&path, bytes).unwrap();

    let read = |name: &str| {
        let file = BufReader::new(File::open(dir.path().join(name)).unwrap());
        read_journal::<AtomicCall, AtomicRet>(file).unwrap()
    };
    let history = History::merge([read("b"), read("a")]);
    let expected = vec![
        Operation::new(A, AtomicCall::FetchAdd(1), 0, AtomicRet::Value(5), 2),
        Operation::pending(B, AtomicCall::Swap(5), 1),
    ];
    assert_eq!(history, History::from(expected));
    // The dead process's swap took effect before the other's addition: that explains the 5.
    assert!(check(&Atomic::default(), &history, &Limits::default()).is_ok());
}

#[test]
fn a_damaged_journal_is_an_error_that_names_the_line() {
    let read = |text: &str| read_journal::<AtomicCall, AtomicRet>(text.as_bytes());
    let invoke = r#"{"invoke":{"id":0,"thread":{"node":0,"thread":0},"at":1,"call":"Read"}}"#;
    let respond = r#"{"respond":{"id":0,"at":2,"result":"Written"}}"#;
    assert_eq!(read(&format!("{invoke}\n{respond}\n")).unwrap().len(), 1);
    assert!(matches!(
        read(&format!("{invoke}\nrubbish\n")),
        Err(HistoryError::Malformed { line: 2, .. })
    ));
    assert!(matches!(
        read(&format!("{respond}\n")),
        Err(HistoryError::Unmatched { line: 1, id: 0 })
    ));
    let twice = format!("{invoke}\n{respond}\n{respond}\n");
    assert!(matches!(
        read(&twice),
        Err(HistoryError::Unmatched { line: 3, id: 0 })
    ));
}

#[test]
fn a_response_before_its_invocation_is_reported() {
    let history = History::from(vec![Operation::new(
        A,
        AtomicCall::Read,
        9,
        AtomicRet::Value(0),
        3,
    )]);
    let error = history.validate().unwrap_err();
    assert!(matches!(
        error,
        HistoryError::TimeRunsBackwards {
            index: 0,
            invoked: 9,
            responded: 3
        }
    ));
}
