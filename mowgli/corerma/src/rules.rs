//! The rules of coreRMA as data (coreRMA'16 Fig. 4).
//!
//! [`orders`] lists the pairs that the program alone puts into happens-before, each with the rule that gives it. The rules R1, R2
//! and WS depend on an execution; [`crate::execution`] applies them. A pair can be left out, which is what a pivot does.

use std::fmt;
use std::str::FromStr;

use mowgli::model::UnknownName;
use mowgli::program::Node;

use crate::action::{Action, Kind};
use crate::switches::Switches;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An atomic read happens before the atomic writes that follow the one that it reads from.
    R1,
    /// An atomic write happens before the atomic reads that read from it.
    R2,
    /// A read without a conflict returns what the write wrote.
    NoC,
    /// A read with a conflict returns an undefined value.
    C,
    /// In-order routing: remote actions towards one target are ordered.
    Ir,
    /// A flush happens before the local actions that follow it.
    F1,
    /// All actions of a remote statement happen before a later flush of its target.
    F2,
    /// A flush happens before all actions of a later remote statement to its target.
    F3,
    /// The external read of a put or get happens before its external write.
    Pg,
    /// The actions of a get accumulate are ordered.
    Ga,
    /// The actions of a compare and swap that fails are ordered.
    CasF,
    /// The actions of a compare and swap that succeeds are ordered.
    CasT,
    /// A local action happens before all that follows it in program order.
    Lo,
    /// Atomic writes of one location are ordered.
    Ws,
    /// Puts towards one target are ordered (InfiniBand).
    PutPut,
    /// Gets towards one target are ordered (InfiniBand).
    GetGet,
    /// The external read of a put happens before all that follows it in program order (inlined puts).
    Inlined,
}

impl Rule {
    /// Every rule: those of Fig. 4, then those of the variants.
    pub const ALL: [Rule; 17] = [
        Rule::R1,
        Rule::R2,
        Rule::NoC,
        Rule::C,
        Rule::Ir,
        Rule::F1,
        Rule::F2,
        Rule::F3,
        Rule::Pg,
        Rule::Ga,
        Rule::CasF,
        Rule::CasT,
        Rule::Lo,
        Rule::Ws,
        Rule::PutPut,
        Rule::GetGet,
        Rule::Inlined,
    ];

    /// Returns the paper's name, or that of the variant.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::R1 => "R1",
            Rule::R2 => "R2",
            Rule::NoC => "no-C",
            Rule::C => "C",
            Rule::Ir => "IR",
            Rule::F1 => "F1",
            Rule::F2 => "F2",
            Rule::F3 => "F3",
            Rule::Pg => "PG",
            Rule::Ga => "GA",
            Rule::CasF => "CAS-F",
            Rule::CasT => "CAS-T",
            Rule::Lo => "LO",
            Rule::Ws => "WS",
            Rule::PutPut => "put-put",
            Rule::GetGet => "get-get",
            Rule::Inlined => "inlined-put",
        }
    }
}

impl Rule {
    /// Says in words what the rule orders, or what it says of values.
    pub const fn meaning(self) -> &'static str {
        match self {
            Rule::R1 => "an atomic read happens before the writes after the one that it reads from",
            Rule::R2 => "an atomic write happens before the reads that read from it",
            Rule::NoC => "a read without a conflict returns the latest write that happens before it",
            Rule::C => "a read with a conflict, or of a write with one, returns T",
            Rule::Ir => "remote actions towards one target happen in program order",
            Rule::F1 => "a flush happens before the local actions that follow it",
            Rule::F2 => "a remote statement happens before a later flush of its target",
            Rule::F3 => "a flush happens before a later remote statement to its target",
            Rule::Pg => "the read of a put or get happens before its write",
            Rule::Ga => "the actions of a get accumulate happen in order",
            Rule::CasF => "the actions of a compare and swap that fails happen in order",
            Rule::CasT => "the actions of a compare and swap that succeeds happen in order",
            Rule::Lo => "a local action happens before all that follows it in its process",
            Rule::Ws => "the writes of a location are ordered, in this execution so",
            Rule::PutPut => "puts towards one target happen in program order",
            Rule::GetGet => "gets towards one target happen in program order",
            Rule::Inlined => "an inlined put reads its source before all that follows it",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rule {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Rule, UnknownName> {
        Rule::ALL
            .into_iter()
            .find(|rule| rule.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| UnknownName {
                kind: "rule",
                found: s.to_owned(),
                expected: Rule::ALL.map(Rule::name).join(", "),
            })
    }
}

/// A pair that a rule puts into happens-before: action `from` before action `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// The earlier action.
    pub from: u8,
    /// The later action.
    pub to: u8,
    /// The rule. Pairs of a compare and swap are listed under CAS-T, whether it succeeds or not.
    pub rule: Rule,
}

/// Lists the pairs that the rules give whatever the execution. `home` is the node of each process.
pub fn orders(actions: &[Action], home: impl Fn(u8) -> Node, switches: Switches) -> Vec<Order> {
    let mut out = Vec::new();
    for (i, a) in actions.iter().enumerate() {
        within(&mut out, actions, i);
        for (j, b) in actions.iter().enumerate().skip(i + 1) {
            if b.process != a.process {
                break;
            }
            across(&mut out, actions, (i, a), (j, b), &home, switches);
        }
    }
    out
}

/// Adds the pairs inside the statement whose first action is `first`: the rules PG, GA and CAS.
fn within(out: &mut Vec<Order>, actions: &[Action], first: usize) {
    if usize::from(actions[first].first) != first {
        return;
    }
    let count = actions[first..]
        .iter()
        .take_while(|a| usize::from(a.first) == first)
        .count();
    let pairs: &[(usize, usize, Rule)] = match count {
        2 => &[(0, 1, Rule::Pg)],
        3 => &[(0, 1, Rule::Ga), (1, 2, Rule::Ga)],
        4 => &[(0, 2, Rule::CasT), (1, 2, Rule::CasT), (2, 3, Rule::CasT)],
        _ => &[],
    };
    out.extend(pairs.iter().map(|&(from, to, rule)| Order {
        from: (first + from) as u8,
        to: (first + to) as u8,
        rule,
    }));
}

/// Adds the pairs that two actions of one process, in program order, give.
fn across(
    out: &mut Vec<Order>,
    actions: &[Action],
    (i, a): (usize, &Action),
    (j, b): (usize, &Action),
    home: &impl Fn(u8) -> Node,
    switches: Switches,
) {
    let mut add = |from: usize, to: usize, rule: Rule| {
        out.push(Order {
            from: from as u8,
            to: to as u8,
            rule,
        });
    };
    // The statement of an action: its actions stand together.
    let statement = |at: usize| {
        let first = actions[at].first;
        let end = actions[at..].iter().take_while(|a| a.first == first).count();
        usize::from(first)..at + end
    };
    if a.is_local() {
        add(i, j, Rule::Lo);
    }
    if a.kind == Kind::Flush && b.is_local() {
        add(i, j, Rule::F1);
    }
    let is_put = |x: &Action| x.kind == Kind::ExternalWrite && x.is_remote();
    let is_get = |x: &Action| x.kind == Kind::ExternalRead && x.is_remote();
    if a.target.is_some() && a.target == b.target {
        match (a.kind == Kind::Flush, b.kind == Kind::Flush) {
            (true, true) => {}
            (false, true) => statement(i).for_each(|of| add(of, j, Rule::F2)),
            (true, false) => statement(j).for_each(|of| add(i, of, Rule::F3)),
            (false, false) => {
                let is_self = a.target == Some(home(a.process));
                if switches.in_order && (!is_self || switches.in_order_self) {
                    add(i, j, Rule::Ir);
                }
                if switches.put_put && is_put(a) && is_put(b) {
                    add(i, j, Rule::PutPut);
                }
                if switches.get_get && is_get(a) && is_get(b) {
                    add(i, j, Rule::GetGet);
                }
            }
        }
    }
    // The read of a put is the first of its two actions and no remote one.
    let reads_for_put =
        || a.kind == Kind::ExternalRead && !a.is_remote() && actions.get(i + 1).is_some_and(is_put);
    if switches.inlined_put && reads_for_put() {
        add(i, j, Rule::Inlined);
    }
}
