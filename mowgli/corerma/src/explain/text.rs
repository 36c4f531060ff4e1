//! Explanations as text.

use std::fmt::Write;
use std::ops::Range;

use mowgli::explain::{heading, opening};
use mowgli::program::Loc;

use super::{Case, Reason, ValueOf, Violation, Witness};
use crate::program::Program;
use crate::values::Origin;

impl Witness {
    /// Returns the execution as text: actions by process, then relations.
    pub fn render(&self, program: &Program) -> String {
        let graph = self.graph(program);
        let mut text = String::new();
        for (p, process) in program.processes.iter().enumerate() {
            let _ = writeln!(text, "P{p} on node {}:", process.node);
            let name = format!("P{p}");
            for event in graph.events.iter().filter(|e| e.thread.as_ref() == Some(&name)) {
                let statement = event.statement.as_deref().unwrap_or_default();
                let _ = writeln!(text, "  {}  [{statement}]", event.label);
            }
        }
        for name in ["rf", "mo"] {
            for &(a, b) in graph.relations.get(name).into_iter().flatten() {
                let (a, b) = (graph.events[a].full(), graph.events[b].full());
                let _ = writeln!(text, "{name}: {a} -> {b}");
            }
        }
        text
    }
}

impl Reason {
    /// Returns the reason as text, with the cases in `shown`.
    pub fn render(&self, program: &Program, shown: Range<usize>) -> String {
        let count = self.cases.len();
        let limit = self.limit.as_ref();
        let mut text = opening(count, self.candidates, limit, "breaks the rules", "broken rule");
        for (index, case) in self.cases.iter().enumerate() {
            if shown.contains(&index) {
                text.push_str(&heading("Reason", index, count, case.candidates));
                case.write(&mut text, program);
            }
        }
        if shown.len() < count {
            text.push_str("\n--all shows every reason, --cycle N one of them.\n");
        }
        let changes = |text: &mut String, head: &str, changes: &[super::Change]| {
            text.push_str(head);
            for change in changes {
                let _ = writeln!(text, "  {}", change.text());
            }
        };
        if !self.relaxations.is_empty() {
            changes(&mut text, "\nIt would be allowed\n", &self.relaxations);
        } else if self.undecided.is_empty() {
            text.push_str("\nNo single change tried would allow it.\n");
        }
        if !self.undecided.is_empty() {
            let head = "\nA limit stopped the search before it could tell whether it would be allowed\n";
            changes(&mut text, head, &self.undecided);
        }
        text
    }
}

impl Case {
    fn write(&self, text: &mut String, program: &Program) {
        let graph = self.graph(program);
        let line = |text: &mut String, at: usize| {
            let event = &graph.events[at];
            let statement = event.statement.as_ref();
            let of = statement.map_or_else(String::new, |s| format!("  [{s}]"));
            let _ = writeln!(text, "  {}{of}", event.full());
        };
        let pairs = match &self.violation {
            Violation::Cycle(pairs) => pairs,
            Violation::Value { .. } => {
                let _ = writeln!(text, "\n{}", self.words(program));
                return;
            }
        };
        text.push_str("\nHappens-before has a cycle.\n\n");
        for (index, pair) in pairs.iter().enumerate() {
            line(text, usize::from(pair.from));
            let _ = writeln!(text, "    -> {}: {}", pair.rule, pair.rule.meaning());
            let next = pairs[(index + 1) % pairs.len()].from;
            if next != pair.to {
                line(text, usize::from(pair.to));
                text.push_str("    -> itself: a get accumulate happens at once\n");
            }
        }
        if let Some(first) = pairs.first() {
            line(text, usize::from(first.from));
        }
    }

    /// Says in a sentence what is broken: the rules of a cycle, or which value the rules do not give and which they give.
    pub fn words(&self, program: &Program) -> String {
        let graph = self.graph(program);
        let (of, claimed, given, conflict) = match &self.violation {
            Violation::Cycle(pairs) => {
                let rules: Vec<&str> = pairs.iter().map(|o| o.rule.name()).collect();
                return format!("happens-before has a cycle by {}", rules.join(", "));
            }
            Violation::Value {
                of,
                claimed,
                given,
                conflict,
            } => (of, claimed, given, conflict),
        };
        let event = |at: u8| {
            let event = &graph.events[usize::from(at)];
            let statement = event.statement.as_deref().unwrap_or_default();
            format!("{} [{statement}]", event.full())
        };
        let loc = |l: Loc| program.location(l).name.as_str();
        let subject = match of {
            ValueOf::Read(read) => format!("what {} reads", event(*read)),
            ValueOf::Last(l) => format!("the last value of {}", loc(*l)),
        };
        let origin = |origin: &Origin| match origin {
            Origin::Init => "is the initial value".to_owned(),
            Origin::Write(write) => format!("is that of {}", event(*write)),
            Origin::Undefined => "is T".to_owned(),
        };
        let rule = self.violation.rules().first().map_or("", |rule| rule.name());
        match (given, conflict) {
            (Origin::Undefined, Some(other)) => format!(
                "Rule {rule}: {subject} {}, but nothing orders it and {}, one of which is not atomic: the value is T.",
                origin(claimed),
                event(*other)
            ),
            _ => format!(
                "Rule {rule}: {subject} {}, but happens-before says that it {}.",
                origin(claimed),
                origin(given)
            ),
        }
    }
}
