//! Schedules as text: the move taken at each point, so that an execution can be repeated.
//!
//! A schedule is a list of moves. Its text begins with the network on which it was found, unless that is left to the reader: the
//! tier on the weakest fabric, such as `@ooo-rw`; another fabric and the tier, such as `@verbs:ibta`; or a fabric without
//! tiers, such as `@shm`. Then it has one letter or group for each move:
//!
//! - `t3`: thread 3 goes on;
//! - `d3`: the oldest entry leaves the store buffer of thread 3;
//! - `n3.1r0`: the queue pair of thread 3 towards node 1 takes rule `r` on entry 0;
//! - `x3`: the deadline of thread 3's wait passes (`X3`: it passes because nothing else can happen);
//! - `c1`: node 1 stops;
//! - `s1`: node 1 is thought lost;
//! - `r1`: node 1 is cut off;
//! - `l0.1`: node 0 learns that node 1 is lost;
//! - `k0.1`: the link between nodes 0 and 1 is cut (`h0.1`: it is there again).
//!
//! Repetitions of a move are counted (`t3*4`). Moves in parentheses at the end are a round that goes on for ever
//! (`t3 ( t4 d4 )`).

use std::fmt;
use std::str::FromStr;

use mowgli::machine::{QpId, Rule, Step};
use mowgli::model::Tier;
use serde::{Serialize, Serializer};

use crate::fabric::FabricKind;
use crate::state::Move;
use crate::state::faults::Fault;

/// A list of moves that leads to an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    fabric: Option<FabricKind>,
    tier: Option<Tier>,
    moves: Vec<Move>,
    /// The place among the moves where a round begins that goes on for ever; `None` if the execution ends.
    round: Option<usize>,
}

/// Rules by letter, in the order of the operational semantics.
const RULES: [(char, Rule); 11] = [
    ('f', Rule::Fence),
    ('l', Rule::LocalRead),
    ('w', Rule::RemoteWrite),
    ('p', Rule::PlaceRemote),
    ('r', Rule::RemoteRead),
    ('s', Rule::Respond),
    ('c', Rule::Complete),
    ('b', Rule::PlaceLocal),
    ('a', Rule::AtomicRead),
    ('x', Rule::AtomicWrite),
    ('m', Rule::Forward),
];

impl Schedule {
    pub(crate) fn new(fabric: FabricKind, tier: Tier, moves: Vec<Move>) -> Schedule {
        Schedule {
            fabric: Some(fabric),
            tier: Some(tier).filter(|_| fabric.has_tiers()),
            moves,
            round: None,
        }
    }

    /// Adds a round of moves that goes on for ever.
    pub(crate) fn and_round(mut self, round: &[Move]) -> Schedule {
        self.round = Some(self.moves.len());
        self.moves.extend_from_slice(round);
        self
    }

    /// Returns the moves before the round that goes on for ever, and the round, if there is one.
    pub(crate) fn round(&self) -> Option<(&[Move], &[Move])> {
        self.moves.split_at_checked(self.round?)
    }

    /// Returns the fabric on which the schedule was found, if it says so.
    pub fn fabric(&self) -> Option<FabricKind> {
        self.fabric
    }

    /// Returns the tier of the network on which the schedule was found, if it says so.
    pub fn tier(&self) -> Option<Tier> {
        self.tier
    }

    pub(crate) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns the number of moves. Those of a round that goes on for ever count once.
    pub fn len(&self) -> usize {
        self.moves.len()
    }

    /// Returns true if there are no moves.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let fabric = self.fabric.filter(|&fabric| fabric != FabricKind::Model);
        if fabric.is_some() || self.tier.is_some() {
            f.write_str("@")?;
            let fabric = fabric.map(FabricKind::name);
            let words: Vec<_> = fabric.into_iter().chain(self.tier.map(Tier::name)).collect();
            f.write_str(&words.join(":"))?;
            first = false;
        }
        let (before, round) = match self.round() {
            Some((before, round)) => (before, Some(round)),
            None => (self.moves.as_slice(), None),
        };
        let mut words = words(before);
        if let Some(round) = round {
            words.push("(".to_owned());
            words.extend(self::words(round));
            words.push(")".to_owned());
        }
        for word in words {
            if !std::mem::take(&mut first) {
                f.write_str(" ")?;
            }
            f.write_str(&word)?;
        }
        Ok(())
    }
}

/// Returns the words of a list of moves. Repetitions of a move are counted.
fn words(moves: &[Move]) -> Vec<String> {
    let runs = moves.chunk_by(|a, b| a == b);
    runs.map(|run| match run.len() {
        1 => Word(run[0]).to_string(),
        times => format!("{}*{times}", Word(run[0])),
    })
    .collect()
}

/// A move as a word of a schedule.
pub(crate) struct Word(pub(crate) Move);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Move::Thread(t) => write!(f, "t{t}"),
            Move::Machine(Step::Drain { thread }) => write!(f, "d{thread}"),
            Move::Machine(Step::Nic { qp, rule, index }) => {
                let letter = RULES.iter().find(|(_, r)| *r == rule).map_or('?', |(c, _)| *c);
                write!(f, "n{}.{}{letter}", qp.thread, qp.peer)?;
                match index {
                    0 => Ok(()),
                    index => write!(f, "{index}"),
                }
            }
            Move::Fault(Fault::Expire(thread)) => write!(f, "x{thread}"),
            Move::Fault(Fault::Idle(thread)) => write!(f, "X{thread}"),
            Move::Fault(Fault::Crash(node)) => write!(f, "c{node}"),
            Move::Fault(Fault::Suspect(node)) => write!(f, "s{node}"),
            Move::Fault(Fault::Revoke(node)) => write!(f, "r{node}"),
            Move::Fault(Fault::Learn { node, lost }) => write!(f, "l{node}.{lost}"),
            Move::Fault(Fault::Cut { node, peer }) => write!(f, "k{node}.{peer}"),
            Move::Fault(Fault::Heal { node, peer }) => write!(f, "h{node}.{peer}"),
        }
    }
}

/// A text that is not a schedule.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a move of a schedule: expected t<thread>, d<thread>, n<thread>.<peer><rule><entry>, x<thread>, \
         X<thread>, c<node>, s<node>, r<node>, l<node>.<lost node>, k<node>.<node> or h<node>.<node>, a round in parentheses at the end, and before the moves @<tier>, @<fabric> or \
         @<fabric>:<tier>. The tiers are {tiers}; the fabrics {fabrics}",
    tiers = Tier::ALL.map(Tier::name).join(", "),
    fabrics = FabricKind::ALL.map(FabricKind::name).join(", ")
)]
pub struct NotASchedule(pub String);

loco_fabric::debug_as_display!(NotASchedule);

impl FromStr for Schedule {
    type Err = NotASchedule;

    fn from_str(text: &str) -> Result<Schedule, NotASchedule> {
        let mut moves = Vec::new();
        let (mut fabric, mut tier) = (None, None);
        let (mut round, mut is_over) = (None, false);
        for word in text.split_whitespace() {
            let bad = || NotASchedule(word.to_owned());
            match word {
                _ if is_over => return Err(bad()),
                "(" if round.is_none() => {
                    round = Some(moves.len());
                    continue;
                }
                ")" if round.is_some_and(|begins| begins < moves.len()) => {
                    is_over = true;
                    continue;
                }
                _ => {}
            }
            if let Some(name) = word
                .strip_prefix('@')
                .filter(|_| fabric.is_none() && moves.is_empty())
            {
                let (kind, order) = parse_network(name).ok_or_else(bad)?;
                (fabric, tier) = (Some(kind), order);
                continue;
            }
            let (body, times) = match word.split_once('*') {
                Some((body, times)) => (body, times.parse().map_err(|_| bad())?),
                None => (word, 1usize),
            };
            let what = parse_move(body).ok_or_else(bad)?;
            if times > 1_000_000 {
                return Err(bad());
            }
            moves.extend(std::iter::repeat_n(what, times));
        }
        if round.is_some() && !is_over {
            return Err(NotASchedule("(".to_owned()));
        }
        Ok(Schedule {
            fabric,
            tier,
            moves,
            round,
        })
    }
}

/// Reads the fabric, and the tier of its network if it is there.
fn parse_network(name: &str) -> Option<(FabricKind, Option<Tier>)> {
    if let Ok(tier) = name.parse() {
        return Some((FabricKind::Model, Some(tier)));
    }
    let (fabric, tier) = match name.split_once(':') {
        Some((fabric, tier)) => (fabric, Some(tier.parse().ok()?)),
        None => (name, None),
    };
    let fabric: FabricKind = fabric.parse().ok()?;
    (tier.is_none() || fabric.has_tiers()).then_some((fabric, tier))
}

fn parse_move(text: &str) -> Option<Move> {
    let rest = text.get(1..)?;
    let fault = |make: fn(u16) -> Fault| Some(Move::Fault(make(rest.parse().ok()?)));
    match text.as_bytes().first()? {
        b'x' => fault(Fault::Expire),
        b'X' => fault(Fault::Idle),
        b'c' => fault(Fault::Crash),
        b's' => fault(Fault::Suspect),
        b'r' => fault(Fault::Revoke),
        kind @ (b'l' | b'k' | b'h') => {
            let (one, other) = rest.split_once('.')?;
            let (node, peer) = (one.parse().ok()?, other.parse().ok()?);
            Some(Move::Fault(match kind {
                b'l' => Fault::Learn { node, lost: peer },
                b'k' => Fault::Cut { node, peer },
                _ => Fault::Heal { node, peer },
            }))
        }
        b't' => Some(Move::Thread(rest.parse().ok()?)),
        b'd' => Some(Move::Machine(Step::Drain {
            thread: rest.parse().ok()?,
        })),
        b'n' => {
            let (thread, rest) = rest.split_once('.')?;
            let at = rest.find(|c: char| c.is_ascii_lowercase())?;
            let letter = rest[at..].chars().next()?;
            let rule = RULES.iter().find(|(c, _)| *c == letter)?.1;
            let index = &rest[at + 1..];
            let index = if index.is_empty() { 0 } else { index.parse().ok()? };
            let qp = QpId {
                thread: thread.parse().ok()?,
                peer: rest[..at].parse().ok()?,
            };
            Some(Move::Machine(Step::Nic { qp, rule, index }))
        }
        _ => None,
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
