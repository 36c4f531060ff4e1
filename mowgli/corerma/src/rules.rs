//! The rules of coreRMA as data (coreRMA'16 Fig. 4).
//!
//! The tables `ACROSS` and `WITHIN` have the rules about program order, and [`orders`] lists the pairs that they put into happens-before,
//! each with the rule that gives it. The rules R1, R2 and WS depend on an execution; [`crate::execution`] applies them. Every rule that
//! orders can be left out of a model ([`Switches`]), and a single pair out of an execution, which is what a pivot does.

use std::fmt;
use std::str::FromStr;

use mowgli::model::UnknownName;
use mowgli::program::Node;

use crate::action::{Action, Kind};

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
    /// An action happens before all that follow it in program order (sequential consistency).
    Po,
}

impl Rule {
    /// Every rule: those of Fig. 4, then those of the variants.
    pub const ALL: [Rule; 18] = [
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
        Rule::Po,
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
            Rule::Po => "PO",
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
            Rule::Po => "an action happens before all that follow it in its process",
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

/// A set of rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rules(u32);

impl Rules {
    /// No rule.
    pub const NONE: Rules = Rules(0);

    /// The rules of Fig. 4.
    pub const FIG4: Rules = Rules(u32::MAX >> (u32::BITS - Rule::ALL.len() as u32))
        .without(Rule::PutPut)
        .without(Rule::GetGet)
        .without(Rule::Inlined)
        .without(Rule::Po);

    /// The rules of sequential consistency: program order, and the order of writes with the reads from them.
    pub const SC: Rules = Rules::NONE
        .with(Rule::NoC)
        .with(Rule::C)
        .with(Rule::R1)
        .with(Rule::R2)
        .with(Rule::Ws)
        .with(Rule::Po);

    /// Returns whether the rule is in the set.
    pub const fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u32 & 1 == 1
    }

    /// Adds a rule.
    pub const fn with(self, rule: Rule) -> Rules {
        Rules(self.0 | 1 << rule as u32)
    }

    /// Leaves a rule out.
    pub const fn without(self, rule: Rule) -> Rules {
        Rules(self.0 & !(1 << rule as u32))
    }

    /// Returns the rules that are in one of two sets only.
    pub const fn differing(self, other: Rules) -> Rules {
        Rules(self.0 ^ other.0)
    }

    /// Returns the number of rules.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = Rule::ALL.into_iter().filter(|&rule| self.has(rule));
        f.debug_set().entries(rules).finish()
    }
}

/// The rules of a network, and how two of them are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Switches {
    /// The rules that hold.
    pub rules: Rules,
    /// Rule IR holds for statements that a process sends to itself, too. Fig. 4 as printed excludes them; the tests that
    /// the paper counts with one process do not.
    pub in_order_self: bool,
    /// The actions of a get accumulate happen at once (the strengthened rule GA of coreRMA'16 section 7).
    pub atomic_rga: bool,
    /// Every access is atomic, whatever the program says (sequential consistency).
    pub all_atomic: bool,
}

impl Switches {
    /// coreRMA as its authors generated tests from it: the rules of Fig. 4.
    pub const STOCK: Switches = Switches {
        rules: Rules::FIG4,
        in_order_self: true,
        atomic_rga: false,
        all_atomic: false,
    };

    /// Returns whether the rule holds.
    pub const fn has(self, rule: Rule) -> bool {
        self.rules.has(rule)
    }

    /// Returns the switches with another choice of rules.
    pub const fn with_rules(self, rules: Rules) -> Switches {
        Switches { rules, ..self }
    }

    /// Returns whether R1, R2 and WS hold, by which an atomic read without a conflict sees the latest write that happens before it. Without
    /// one of them it returns whatever write it reads from (no-C).
    pub const fn reads_are_coherent(self) -> bool {
        self.has(Rule::R1) && self.has(Rule::R2) && self.has(Rule::Ws)
    }
}

/// Actions of which a rule speaks.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// All.
    Any,
    /// Reads and writes of the CPU.
    Local,
    /// Flushes.
    Flush,
    /// The one action of each remote statement that touches the target's memory.
    Remote,
    /// Reads of puts.
    PutRead,
    /// Writes of puts.
    PutWrite,
    /// Reads of gets.
    GetRead,
}

impl Of {
    /// Returns whether it speaks of action `at`.
    fn is_of(self, actions: &[Action], at: usize) -> bool {
        let a = &actions[at];
        let is_put = |x: &Action| x.kind == Kind::ExternalWrite && x.is_remote();
        match self {
            Of::Any => true,
            Of::Local => a.is_local(),
            Of::Flush => a.kind == Kind::Flush,
            Of::Remote => a.is_remote(),
            Of::PutWrite => is_put(a),
            Of::GetRead => a.kind == Kind::ExternalRead && a.is_remote(),
            // The read of a put is the first of its two actions and no remote one.
            Of::PutRead => {
                a.kind == Kind::ExternalRead && !a.is_remote() && actions.get(at + 1).is_some_and(is_put)
            }
        }
    }
}

/// A rule about two actions of one process: an action `from` happens before any action `to` that follows it in program order.
struct Across {
    rule: Rule,
    from: Of,
    to: Of,
    /// Whether both must have the same target.
    one_target: bool,
}

const fn across(rule: Rule, from: Of, to: Of) -> Across {
    Across {
        rule,
        from,
        to,
        one_target: false,
    }
}

const fn to_one_target(rule: Rule, from: Of, to: Of) -> Across {
    Across {
        one_target: true,
        ..across(rule, from, to)
    }
}

/// The rules across statements. F2 and F3 speak of a remote action and order all actions of its statement; IR may leave out what a process
/// sends to itself.
const ACROSS: [Across; 9] = [
    across(Rule::Lo, Of::Local, Of::Any),
    across(Rule::F1, Of::Flush, Of::Local),
    to_one_target(Rule::F2, Of::Remote, Of::Flush),
    to_one_target(Rule::F3, Of::Flush, Of::Remote),
    to_one_target(Rule::Ir, Of::Remote, Of::Remote),
    to_one_target(Rule::PutPut, Of::PutWrite, Of::PutWrite),
    to_one_target(Rule::GetGet, Of::GetRead, Of::GetRead),
    across(Rule::Inlined, Of::PutRead, Of::Any),
    across(Rule::Po, Of::Any, Of::Any),
];

/// A rule about a statement of so many actions: action `from` happens before action `to`.
struct Within {
    rule: Rule,
    actions: usize,
    from: usize,
    to: usize,
}

const fn within(rule: Rule, actions: usize, from: usize, to: usize) -> Within {
    Within {
        rule,
        actions,
        from,
        to,
    }
}

/// The rules within statements: puts and gets have two actions, get accumulates three, compare and swaps four.
const WITHIN: [Within; 6] = [
    within(Rule::Pg, 2, 0, 1),
    within(Rule::Ga, 3, 0, 1),
    within(Rule::Ga, 3, 1, 2),
    within(Rule::CasT, 4, 0, 2),
    within(Rule::CasT, 4, 1, 2),
    within(Rule::CasT, 4, 2, 3),
];

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
    let mut add = |from: usize, to: usize, rule: Rule| {
        // ACTIONS_MAX is 64.
        out.push(Order {
            from: from as u8,
            to: to as u8,
            rule,
        });
    };
    for (i, a) in actions.iter().enumerate() {
        let own = statement(actions, i);
        if own.start == i {
            let of_statement = WITHIN.iter().filter(|row| row.actions == own.len());
            for row in of_statement.filter(|row| switches.has(row.rule)) {
                add(i + row.from, i + row.to, row.rule);
            }
        }
        for (j, b) in actions.iter().enumerate().skip(i + 1) {
            if b.process != a.process {
                break;
            }
            for row in ACROSS.iter().filter(|row| switches.has(row.rule)) {
                let is_self = a.target == Some(home(a.process));
                let applies = row.from.is_of(actions, i)
                    && row.to.is_of(actions, j)
                    && (!row.one_target || a.target == b.target)
                    && (row.rule != Rule::Ir || !is_self || switches.in_order_self);
                if !applies {
                    continue;
                }
                match row.rule {
                    Rule::F2 => statement(actions, i).for_each(|of| add(of, j, row.rule)),
                    Rule::F3 => statement(actions, j).for_each(|of| add(i, of, row.rule)),
                    _ => add(i, j, row.rule),
                }
            }
        }
    }
    out
}

/// Returns the actions of the statement of an action, which stand together.
fn statement(actions: &[Action], at: usize) -> std::ops::Range<usize> {
    let first = actions[at].first;
    let end = actions[at..].iter().take_while(|a| a.first == first).count();
    usize::from(first)..at + end
}
