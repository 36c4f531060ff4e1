//! The calls that the threads of `loco stress log` make, and the judgement of their history.
//!
//! Every thread appends records; the first thread of each node also reads. A record has a position, which its append returns and
//! its readers see, so the history is judged without a search. Relies on the workers; used by the node and by the judge.

use std::collections::{BTreeMap, BTreeSet};

use loco::fabric::{Fabric as _, FabricError, Peers, Wait};
use loco::{Error, Log, LogConfig};
use loco_history::{History, Journal, MonotonicClock, Operation};
use serde::{Deserialize, Serialize};

use super::worker::{PATIENCE, Site, Worker};
use super::{calls::recording, load::NODES_MAX};
use crate::error::CliError;

/// The records that a copy has room for. They are few, so that the ring wraps round all the time. A node that has read
/// everything that it must leaves one more record unread of each other node.
const CAPACITY: usize = 32;
const _: () = assert!(CAPACITY > NODES_MAX as usize);

/// The number, among those of its thread, of the last record of a thread.
const LAST: u64 = (1 << 40) - 1;
/// That of the record that a node appends when it has heard of the victim's death.
const BEREFT: u64 = LAST - 1;

/// A call of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Call {
    Append(u64),
    Read,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ret {
    /// The position of the appended record.
    Appended(u64),
    /// A record and its position.
    Found(u64, u64),
}

type Calls = Journal<Call, Ret, MonotonicClock, std::fs::File>;

pub(super) fn work(site: &Site) -> Result<(), CliError> {
    let log = Log::new(&site.manager, "log", LogConfig::new(CAPACITY, 8))?;
    site.work(&["calls"], |worker| {
        let mut journal = worker.journal("calls")?;
        let mut reader = (worker.id.thread == 0).then(Reader::default);
        while worker.goes_on()? {
            let value = worker.unique();
            append(worker, &log, &mut journal, value)?;
            if let Some(reader) = &mut reader {
                while reader.read(worker, &log, &mut journal)? {}
            }
        }
        append(worker, &log, &mut journal, of(worker, LAST))?;
        match reader {
            Some(reader) => reader.read_to_the_end(worker, &log, &mut journal),
            None => Ok(()),
        }
    })
}

/// Returns a record of this thread with a number of its own.
fn of(worker: &Worker<'_>, number: u64) -> u64 {
    u64::from(worker.id.node + 1) << 48 | u64::from(worker.id.thread) << 40 | number
}

fn append(worker: &mut Worker<'_>, log: &Log, journal: &mut Calls, value: u64) -> Result<(), CliError> {
    let open = journal.invoke(Call::Append(value)).map_err(recording)?;
    worker.die_soon();
    // The loss of others is no error of a log.
    let position = log.append(&worker.thread, &value.to_le_bytes())?;
    journal.respond(open, Ret::Appended(position)).map_err(recording)
}

/// A node's place in the log.
#[derive(Default)]
struct Reader {
    record: Vec<u8>,
    next: u64,
    /// The threads whose last record was read, as node and thread.
    ended: BTreeSet<(u64, u64)>,
    /// Set once this node's record about the victim's death was read.
    is_last: bool,
}

impl Reader {
    /// Reads the next record, if there is one.
    fn read(&mut self, worker: &Worker<'_>, log: &Log, journal: &mut Calls) -> Result<bool, CliError> {
        // Nobody else of this node reads.
        if log.committed() == self.next {
            return Ok(false);
        }
        let open = journal.invoke(Call::Read).map_err(recording)?;
        let position = log.read_into(&worker.thread, &mut self.record)?;
        let value = <[u8; 8]>::try_from(&self.record[..]).map_or(0, u64::from_le_bytes);
        let found = Ret::Found(position, value);
        journal.respond(open, found).map_err(recording)?;
        self.next = position + 1;
        if value & LAST == LAST {
            self.ended.insert(((value >> 48) - 1, value >> 40 & 0xFF));
        }
        self.is_last |= value == of(worker, BEREFT);
        Ok(true)
    }

    /// Reads until nothing is left that somebody appended. After a death a record of this node's own, which comes after all that was
    /// appended before, is the last that it must have read.
    fn read_to_the_end(
        mut self,
        worker: &mut Worker<'_>,
        log: &Log,
        journal: &mut Calls,
    ) -> Result<(), CliError> {
        let site = worker.site;
        let victim = site.victim();
        let mut is_bereft = false;
        loop {
            while self.read(worker, log, journal)? {}
            let nodes = site.manager.nodes().iter();
            let mut left = nodes.filter(|&&node| !is_bereft || Some(node) != victim);
            let threads = 0..u64::from(site.load.threads);
            let all = left.all(|node| {
                let mut ended = threads
                    .clone()
                    .map(|thread| self.ended.contains(&(u64::from(node.0), thread)));
                ended.all(|ended| ended)
            });
            if all && (!is_bereft || self.is_last) {
                return Ok(());
            }
            let wait = Wait {
                what: "records of the other nodes",
                peers: match victim.as_slice() {
                    [victim] if !is_bereft && *victim != site.manager.node() => Peers::One(*victim),
                    _ => Peers::None,
                },
                deadline: Some(worker.thread.now().after(PATIENCE)),
            };
            match site
                .manager
                .fabric()
                .wait(wait, || (log.committed() > self.next).then_some(()))
            {
                Ok(()) => {}
                Err(FabricError::PeerLost(_)) => {
                    is_bereft = true;
                    append(worker, log, journal, of(worker, BEREFT))?;
                }
                Err(error) => return Err(Error::from(error).into()),
            }
        }
    }
}

/// Returns the promise of the log that a history breaks, if it breaks one.
///
/// All nodes read one log, each from its beginning and without a gap. What an append has returned for stands in it at the position
/// that it returned, and all who were not lost have read it. Nothing else stands in it, nothing twice. A record of an append
/// that had returned before another one began comes first.
pub(super) fn broken(history: &History<Call, Ret>, victim: Option<u16>) -> Option<String> {
    let mut logs: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    let mut appends: BTreeMap<u64, &Operation<Call, Ret>> = BTreeMap::new();
    for operation in &history.operations {
        let node = operation.thread.node;
        let log = logs.entry(node).or_default();
        match (operation.call, operation.result()) {
            (Call::Append(value), _) => {
                if appends.insert(value, operation).is_some() {
                    return Some(format!("{value:#x} is appended by two calls"));
                }
            }
            (Call::Read, Some(&Ret::Found(position, value))) if position == log.len() as u64 => {
                log.push(value)
            }
            (Call::Read, Some(found)) => {
                return Some(format!("node {node} read {found:?} after {} records", log.len()));
            }
            (Call::Read, None) => {}
        }
    }
    let longest = logs.values().max_by_key(|log| log.len())?;
    for (node, log) in &logs {
        if let Some(at) = log.iter().zip(longest).position(|(one, other)| one != other) {
            return Some(format!(
                "node {node} read {:#x} as record {at}, and another node {:#x}",
                log[at], longest[at]
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for value in longest {
        if !appends.contains_key(value) || !seen.insert(value) {
            return Some(format!("{value:#x} is in the log twice, or was not appended"));
        }
    }
    let survivors = logs.iter().filter(|&(&node, _)| Some(node) != victim);
    let read_by_all = survivors.map(|(_, log)| log.len()).min().unwrap_or(0);
    if let Some(log) = victim
        .and_then(|victim| logs.get(&victim))
        .filter(|log| log.len() > read_by_all)
    {
        let last = log[log.len() - 1];
        return Some(format!(
            "the node that was lost had read {last:#x}, and not every other node read it"
        ));
    }
    for (value, append) in &appends {
        let Some(&Ret::Appended(position)) = append.result() else {
            continue;
        };
        let at = position as usize;
        // A node reads up to its own last record after a death.
        let may_be_unread = value & LAST == BEREFT;
        if longest.get(at) != Some(value) || at >= read_by_all && !may_be_unread {
            return Some(format!(
                "the append of {value:#x} returned position {position}, and not every node read it there"
            ));
        }
    }
    // The earliest return of an append of the records from here on.
    let mut returned = u64::MAX;
    for value in longest.iter().rev() {
        let append = appends[value];
        if returned < append.invoked {
            return Some(format!(
                "{value:#x} comes before a record whose append had returned before its own began"
            ));
        }
        returned = returned.min(append.response.as_ref().map_or(u64::MAX, |response| response.at));
    }
    None
}

#[cfg(test)]
mod tests {
    use loco_history::ThreadId;

    use super::*;

    fn thread(node: u16) -> ThreadId {
        ThreadId { node, thread: 0 }
    }

    fn append(node: u16, value: u64, invoked: u64, position: u64, at: u64) -> Operation<Call, Ret> {
        Operation::new(
            thread(node),
            Call::Append(value),
            invoked,
            Ret::Appended(position),
            at,
        )
    }

    fn read(node: u16, position: u64, value: u64, at: u64) -> Operation<Call, Ret> {
        Operation::new(thread(node), Call::Read, at, Ret::Found(position, value), at + 1)
    }

    #[test]
    fn what_the_victim_had_read_is_not_taken_back() {
        let mut history = good();
        history.remove(3);
        let broken = judged(history, Some(1)).expect("node 0 has not read the second record");
        assert!(broken.contains("node that was lost had read"), "{broken}");
    }

    /// Two nodes append 1 and 2 at the same time and read both.
    fn good() -> Vec<Operation<Call, Ret>> {
        let appends = [append(0, 1, 0, 0, 5), append(1, 2, 3, 1, 8)];
        let reads = [
            read(0, 0, 1, 10),
            read(0, 1, 2, 12),
            read(1, 0, 1, 10),
            read(1, 1, 2, 12),
        ];
        appends.into_iter().chain(reads).collect()
    }

    fn judged(operations: Vec<Operation<Call, Ret>>, victim: Option<u16>) -> Option<String> {
        broken(&History { operations }, victim)
    }

    #[test]
    fn one_log_breaks_nothing() {
        assert_eq!(judged(good(), None), None);
        // The victim has not read everything, and its last append may be in the log or not.
        for is_in_log in [false, true] {
            let mut history = good();
            history.remove(5);
            history.push(Operation::pending(thread(1), Call::Append(3), 9));
            history.push(append(0, 4, 20, 2 + u64::from(is_in_log), 22));
            if is_in_log {
                history.push(read(0, 2, 3, 24));
            }
            history.push(read(0, 2 + u64::from(is_in_log), 4, 26));
            assert_eq!(judged(history, Some(1)), None);
        }
    }

    #[test]
    fn each_broken_promise_is_named() {
        type Change = fn(&mut Vec<Operation<Call, Ret>>);
        let changes: [(&str, Change); 7] = [
            ("after 1 records", |h| h[3] = read(0, 2, 2, 12)),
            ("another node", |h| {
                h[2] = read(0, 0, 2, 10);
                h[3] = read(0, 1, 1, 12);
            }),
            ("twice, or was not appended", |h| {
                h.push(read(0, 2, 1, 14));
                h.push(read(1, 2, 1, 14));
            }),
            ("twice, or was not appended", |h| h.push(read(0, 2, 9, 14))),
            ("not every node read it", |h| h.truncate(5)),
            ("not every node read it", |h| h.push(append(0, 3, 9, 2, 10))),
            ("had returned before its own began", |h| {
                h[0] = append(0, 1, 9, 0, 10);
            }),
        ];
        for (said, change) in changes {
            let mut history = good();
            change(&mut history);
            let broken = judged(history, None).unwrap_or_else(|| panic!("{said}: not found"));
            assert!(broken.contains(said), "{said}: {broken}");
        }
    }
}
