//! Decides whether the object may have the histories that `loco stress` recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use loco_app::{counted, print};
use loco_history::spec::{
    Atomic, AtomicCall, AtomicRet, KeyValue, KeyValueCall, KeyValueRet, Lock, LockCall, LockRet, Queue,
    QueueCall, QueueRet,
};
use loco_history::{History, Limits, Spec, Verdict, check};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::calls::{QUEUE_CAPACITY, owner};
use super::journals::Recorded;
use super::load::{Load, Object};
use super::log;
use crate::error::CliError;

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The history is linearizable, and everything else that was to be shown holds.
    Ok,
    /// The check ran out of time.
    Unknown,
    /// A promise is broken.
    Violation,
}

/// The findings of the check.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    pub(super) verdict: Outcome,
    /// The number of calls recorded.
    calls: usize,
    /// The number of calls without an end: the victim's last ones, and those that failed because of its
    /// death.
    open: usize,
    /// The calls that the victims' threads were in when they died.
    victim_was_in: Vec<String>,
    /// For a lock: the number of other nodes' acquisitions between a thread's request and its acquisition,
    /// median and maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    overtaken: Option<Overtaken>,
    /// The property that holds if the verdict is `Ok`, as the line for people names it.
    #[serde(skip)]
    shown: &'static str,
}

#[derive(Debug, Serialize)]
struct Overtaken {
    p50: usize,
    max: usize,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", counted(self.calls, "call"))?;
        if self.open > 0 {
            write!(f, " ({} without an end)", self.open)?;
        }
        if !self.victim_was_in.is_empty() {
            write!(f, ", the victim died in {}", self.victim_was_in.join(" and "))?;
        }
        if let Some(Overtaken { p50, max }) = self.overtaken {
            write!(
                f,
                ", overtaken {} by other nodes in the middle, {max} at most",
                counted(p50, "time")
            )?;
        }
        let verdict = match self.verdict {
            Outcome::Ok => self.shown,
            Outcome::Unknown => "UNKNOWN, out of time",
            Outcome::Violation => "VIOLATION",
        };
        write!(f, ": {verdict}; ")
    }
}

/// Checks the recorded calls.
pub(super) fn judge(
    object: Object,
    nodes: u16,
    load: &Load,
    recorded: &Recorded,
    time: Duration,
    report: Option<&Path>,
) -> Result<Findings, CliError> {
    let files = Files {
        recorded,
        nodes,
        threads: load.threads,
        victims: load.victims(object, nodes),
        time,
        report,
    };
    match object {
        Object::Atomic => files.judge::<Atomic>("calls", &Atomic::new(0), |_| None),
        Object::Kv => files.judge(
            "calls",
            &KeyValue::<u64, u64>::new(),
            |_: &History<KeyValueCall<u64, u64>, KeyValueRet<u64>>| None,
        ),
        Object::Queue => files.judge("calls", &Queue::<u64>::bounded(QUEUE_CAPACITY), fifo),
        Object::TicketLock | Object::TasLock => {
            let dead = files
                .victims
                .iter()
                .flat_map(|&node| (0..load.threads).map(move |t| owner(node, t)));
            let spec = Lock {
                dead: dead.collect(),
                spurious_failure: true,
            };
            let mut passed = None;
            let mut findings = files.judge("calls", &spec, |history| {
                passed = overtaken(history);
                None
            })?;
            findings.overtaken = passed;
            let counts = files.judge("counts", &Atomic::new(0), |_: &History<AtomicCall, AtomicRet>| {
                None
            })?;
            findings.verdict = findings.verdict.max(counts.verdict);
            findings.open += counts.open;
            if !counts.victim_was_in.is_empty() {
                findings.victim_was_in = vec!["the critical section".to_owned()];
            }
            Ok(findings)
        }
        Object::Log => {
            let history = files.history("calls")?;
            let broken = log::broken(&history, files.victims.first().copied());
            if let Some(what) = &broken {
                print(what)?;
            }
            let verdict = if broken.is_some() {
                Outcome::Violation
            } else {
                Outcome::Ok
            };
            Ok(Findings {
                shown: "one log, read by all",
                ..files.findings(&history, verdict)
            })
        }
    }
}

struct Files<'a> {
    recorded: &'a Recorded,
    nodes: u16,
    threads: u16,
    victims: Vec<u16>,
    time: Duration,
    report: Option<&'a Path>,
}

impl Files<'_> {
    fn judge<S>(
        &self,
        part: &str,
        spec: &S,
        broken: impl FnOnce(&History<S::Call, S::Ret>) -> Option<String>,
    ) -> Result<Findings, CliError>
    where
        S: Spec<Call: DeserializeOwned, Ret: DeserializeOwned>,
    {
        let history = self.history(part)?;
        let broken = broken(&history);
        if let Some(what) = &broken {
            print(what)?;
        }
        let limits = Limits {
            time: self.time,
            memory_bytes: 8 << 30,
            ..Limits::default()
        };
        let checked = check(spec, &history, &limits);
        let verdict = match checked.verdict() {
            Verdict::Ok => Outcome::Ok,
            Verdict::Unknown => Outcome::Unknown,
            Verdict::Violation => Outcome::Violation,
        };
        if verdict != Outcome::Ok {
            print(checked.text())?;
            if let Some(path) = self.report {
                std::fs::write(path, checked.html()).map_err(CliError::os("writing the report"))?;
            }
        }
        let verdict = match broken {
            Some(_) => Outcome::Violation,
            None => verdict,
        };
        Ok(self.findings(&history, verdict))
    }

    fn findings<C: fmt::Debug, R>(&self, history: &History<C, R>, verdict: Outcome) -> Findings {
        let open = history.operations.iter().filter(|o| o.response.is_none());
        let of_victim = open.clone().filter(|o| self.victims.contains(&o.thread.node));
        Findings {
            verdict,
            calls: history.len(),
            open: open.count(),
            victim_was_in: of_victim.map(|o| format!("{:?}", o.call)).collect(),
            overtaken: None,
            shown: "linearizable",
        }
    }

    fn history<C: DeserializeOwned, R: DeserializeOwned>(
        &self,
        part: &str,
    ) -> Result<History<C, R>, CliError> {
        let mut parts = Vec::new();
        for node in 0..self.nodes {
            for thread in 0..self.threads {
                parts.push(self.recorded.of(part, node, thread)?);
            }
        }
        Ok(History::merge(parts))
    }
}

/// Returns a violation of the order of a queue: a value popped twice or never pushed, or a thread that pops
/// two values of one producer in the wrong order. This check looks at no lengths, so it decides even where
/// the search for an order gives up. A lost value shows as a pop of a later one.
fn fifo(history: &History<QueueCall<u64>, QueueRet<u64>>) -> Option<String> {
    let pushed: BTreeSet<u64> = history
        .operations
        .iter()
        .filter_map(|o| match o.call {
            QueueCall::Push(value) => Some(value),
            _ => None,
        })
        .collect();
    let mut popped = BTreeSet::new();
    let mut newest: BTreeMap<_, u64> = BTreeMap::new();
    // The operations are ordered by time of invocation, which is the order of each thread.
    for operation in &history.operations {
        let Some(&QueueRet::Popped(value)) = operation.result() else {
            continue;
        };
        let before = newest.insert((operation.thread, value >> 40), value);
        if !pushed.contains(&value) || !popped.insert(value) || before.is_some_and(|before| before > value) {
            return Some(format!(
                "{value:#x} is popped twice, or was not pushed, or came before an earlier one of its producer"
            ));
        }
    }
    None
}

/// Returns how often threads that waited for a lock were overtaken by other nodes.
fn overtaken(history: &History<LockCall, LockRet>) -> Option<Overtaken> {
    let mut got: Vec<(u64, u16)> = Vec::new();
    for operation in &history.operations {
        if let Some(response) = &operation.response
            && matches!(response.result, LockRet::Acquired | LockRet::Recovered)
        {
            got.push((response.at, operation.thread.node));
        }
    }
    got.sort_unstable();
    let mut counts: Vec<usize> = history
        .operations
        .iter()
        .filter(|o| matches!(o.call, LockCall::Acquire { .. }))
        .filter_map(|o| {
            let at = o.response.as_ref()?.at;
            let first = got.partition_point(|&(time, _)| time <= o.invoked);
            let others = got[first..].iter().take_while(|&&(time, _)| time < at);
            Some(others.filter(|&&(_, node)| node != o.thread.node).count())
        })
        .collect();
    counts.sort_unstable();
    Some(Overtaken {
        p50: *counts.get(counts.len() / 2)?,
        max: *counts.last()?,
    })
}
