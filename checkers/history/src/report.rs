//! The report of a check, as data, as text and as a page. Relies on the search's result and on the specification's
//! wording. Used by tests, which print the text of a failure and save the page for a browser.

use std::fmt::Write as _;

use crate::limits::{Exhausted, Stats};
use crate::{History, Operation, Spec};

/// The result of [`check`](crate::check), with the history that was checked.
#[derive(Debug)]
pub struct Report<'a, S: Spec> {
    pub(crate) spec: &'a S,
    pub(crate) history: &'a History<S::Call, S::Ret>,
    /// The parts of the object whose search is over, in the order in which they were first used.
    pub partitions: Vec<Partition<S::Key>>,
    /// The number of parts that are not among them: a violation of another part ended the check before theirs was over.
    pub undecided: usize,
}

/// The result in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Linearizable; the report has an order.
    Ok,
    /// Not linearizable.
    Violation,
    /// A limit ended the search.
    Unknown,
}

/// One part of the object.
#[derive(Clone, Debug)]
pub struct Partition<K> {
    /// Its name.
    pub key: K,
    /// Its operations, as indices of the history.
    pub operations: Vec<usize>,
    /// The result of the search.
    pub outcome: Outcome,
    /// If the part is not ok, orders that were tried, longest first. For almost every operation, a longest order that
    /// contains it is among them. Each order is legal as far as it goes.
    pub partials: Vec<Vec<usize>>,
    /// The cost of the search.
    pub stats: Stats,
}

/// The result of the search for one part. Orders are lists of indices of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Linearizable.
    Ok {
        /// An order that explains every result. It contains those pending operations that took effect.
        witness: Vec<usize>,
    },
    /// No order explains the history.
    Violation {
        /// The longest order found.
        longest: Vec<usize>,
        /// The response that no order gets past.
        blocked: Option<Blocked>,
    },
    /// A limit ended the search.
    Unknown {
        /// The limit.
        reason: Exhausted,
        /// The longest order found so far.
        longest: Vec<usize>,
        /// The last response that stopped an order.
        blocked: Option<Blocked>,
    },
}

/// The point that no order gets past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Every order that explains all earlier responses fails to explain the response of this operation in time.
    pub operation: usize,
    /// An order that explains all earlier responses.
    pub explained: Vec<usize>,
}

impl<K> Partition<K> {
    /// Returns the result in one word.
    pub fn verdict(&self) -> Verdict {
        match self.outcome {
            Outcome::Ok { .. } => Verdict::Ok,
            Outcome::Violation { .. } => Verdict::Violation,
            Outcome::Unknown { .. } => Verdict::Unknown,
        }
    }

    /// Returns the response that no order gets past, or has got past so far.
    pub fn blocked(&self) -> Option<&Blocked> {
        match &self.outcome {
            Outcome::Ok { .. } => None,
            Outcome::Violation { blocked, .. } | Outcome::Unknown { blocked, .. } => blocked.as_ref(),
        }
    }
}

/// Operations listed of the order before the bad window.
const CONTEXT_LINES: usize = 8;
/// Partitions and candidates listed in full.
const LISTED_MAX: usize = 16;

impl<S: Spec> Report<'_, S> {
    /// Returns the result in one word: violation if some part has one, else unknown if some part is unknown, else ok.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.partitions.iter().any(|part| part.verdict() == verdict);
        match () {
            () if any(Verdict::Violation) => Verdict::Violation,
            () if any(Verdict::Unknown) => Verdict::Unknown,
            () => Verdict::Ok,
        }
    }

    /// Returns whether the verdict is [`Verdict::Ok`].
    pub fn is_ok(&self) -> bool {
        self.verdict() == Verdict::Ok
    }

    /// Writes the verdict in a line. For each partition that is not ok, the earliest first, the first bad window follows: the
    /// order up to it, the state there, and the reason why no operation can come next.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let count = |verdict| {
            self.partitions
                .iter()
                .filter(|part| part.verdict() == verdict)
                .count()
        };
        let configurations: u64 = self.partitions.iter().map(|part| part.stats.configurations).sum();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{}: {} operations in {} partitions: {} ok, {} violated, {} unknown{}; {} configurations visited",
            match self.verdict() {
                Verdict::Ok => "linearizable",
                Verdict::Violation => "NOT LINEARIZABLE",
                Verdict::Unknown => "UNKNOWN",
            },
            self.history.len(),
            self.partitions.len() + self.undecided,
            count(Verdict::Ok),
            count(Verdict::Violation),
            count(Verdict::Unknown),
            match self.undecided {
                0 => String::new(),
                undecided => format!(", {undecided} not decided"),
            },
            configurations
        );
        let bad = self.bad_partitions();
        for part in bad.iter().take(LISTED_MAX) {
            self.explain(part, &mut out);
        }
        if bad.len() > LISTED_MAX {
            let _ = writeln!(out, "... and {} more partitions", bad.len() - LISTED_MAX);
        }
        out
    }

    /// Returns the partitions that are not ok: violations first, then by the time of the response that stopped the search.
    pub(crate) fn bad_partitions(&self) -> Vec<&Partition<S::Key>> {
        let mut bad: Vec<_> = self
            .partitions
            .iter()
            .filter(|part| part.verdict() != Verdict::Ok)
            .collect();
        let when = |part: &Partition<S::Key>| {
            let operation = part
                .blocked()
                .map(|blocked| &self.history.operations[blocked.operation]);
            operation
                .and_then(|op| op.response.as_ref())
                .map_or(u64::MAX, |response| response.at)
        };
        bad.sort_by_key(|part| (part.verdict() == Verdict::Unknown, when(part)));
        bad
    }

    /// Returns the states after each operation of `order`. There are several where the specification leaves a choice.
    pub(crate) fn states(&self, key: &S::Key, order: &[usize]) -> Vec<Vec<S::State>> {
        let mut states = vec![self.spec.initial(key)];
        let mut all = Vec::with_capacity(order.len());
        for &index in order {
            let operation = &self.history.operations[index];
            states = self.step(&states, operation);
            all.push(states.clone());
        }
        all
    }

    fn step(&self, states: &[S::State], operation: &Operation<S::Call, S::Ret>) -> Vec<S::State> {
        let mut next = Vec::new();
        for state in states {
            self.spec
                .step(state, &operation.call, operation.result(), &mut next);
        }
        let mut distinct: Vec<S::State> = Vec::with_capacity(next.len());
        for state in next {
            if !distinct.contains(&state) {
                distinct.push(state);
            }
        }
        distinct
    }

    pub(crate) fn origin(&self) -> u64 {
        self.history
            .operations
            .iter()
            .map(|op| op.invoked)
            .min()
            .unwrap_or(0)
    }

    fn line(&self, index: usize) -> String {
        let operation = &self.history.operations[index];
        let origin = self.origin();
        let until = match &operation.response {
            Some(response) => format!("{}", response.at.saturating_sub(origin)),
            None => "pending".to_owned(),
        };
        format!(
            "[{index}] thread {}, {}..{until}: {}",
            operation.thread,
            operation.invoked.saturating_sub(origin),
            self.spec.describe(&operation.call, operation.result())
        )
    }

    fn explain(&self, part: &Partition<S::Key>, out: &mut String) {
        let all = &self.history.operations;
        let _ = match &part.outcome {
            Outcome::Ok { .. } => return,
            Outcome::Violation { longest, .. } => writeln!(
                out,
                "\npartition {}: violation; {} operations, the longest legal order has {}",
                part.key,
                part.operations.len(),
                longest.len()
            ),
            Outcome::Unknown { reason, longest, .. } => writeln!(
                out,
                "\npartition {}: unknown, out of {}; {} operations, the longest order so far has {}",
                part.key,
                match reason {
                    Exhausted::Time => "time",
                    Exhausted::Memory => "memory",
                    Exhausted::Configurations => "configurations",
                },
                part.operations.len(),
                longest.len()
            ),
        };
        let Some(blocked) = part.blocked() else { return };
        let Some(end) = all[blocked.operation]
            .response
            .as_ref()
            .map(|response| response.at)
        else {
            return;
        };
        let past = if part.verdict() == Verdict::Violation {
            "leads"
        } else {
            "has led so far"
        };
        let _ = writeln!(
            out,
            "  no order {past} past the response of\n    {}",
            self.line(blocked.operation)
        );
        let states = self.states(&part.key, &blocked.explained);
        let skipped = blocked.explained.len().saturating_sub(CONTEXT_LINES);
        let _ = writeln!(
            out,
            "  an order that explains all earlier responses ({skipped} operations before):"
        );
        for (&index, states) in blocked.explained.iter().zip(&states).skip(skipped) {
            let _ = writeln!(out, "    {}   => {}", self.line(index), show_states(states));
        }
        let last = states
            .last()
            .cloned()
            .unwrap_or_else(|| vec![self.spec.initial(&part.key)]);
        let _ = writeln!(out, "  what could come next in state {}:", show_states(&last));
        let placed: std::collections::BTreeSet<usize> = blocked.explained.iter().copied().collect();
        let open: Vec<usize> = part
            .operations
            .iter()
            .copied()
            .filter(|i| !placed.contains(i) && all[*i].invoked <= end)
            .collect();
        for &index in open.iter().take(LISTED_MAX) {
            let next = self.step(&last, &all[index]);
            let why = match (next.is_empty(), index == blocked.operation) {
                (true, _) => "not legal in this state".to_owned(),
                (false, true) => format!("legal here => {}, but not what follows", show_states(&next)),
                (false, false) => format!("legal => {}, but leads no further", show_states(&next)),
            };
            let _ = writeln!(out, "    {}   {why}", self.line(index));
        }
        if open.len() > LISTED_MAX {
            let _ = writeln!(out, "    ... and {} more", open.len() - LISTED_MAX);
        }
    }
}

/// Prints one state, or a set of states.
pub(crate) fn show_states<T: std::fmt::Debug>(states: &[T]) -> String {
    match states {
        [state] => format!("{state:?}"),
        _ => {
            let shown: Vec<String> = states.iter().map(|state| format!("{state:?}")).collect();
            format!("one of {{{}}}", shown.join(", "))
        }
    }
}
