//! Pivots: applications of a rule without which a cycle of happens-before is no longer one (coreRMA'16 section 6.1).
//!
//! A program has a pivot of a rule if some execution, with one application of the rule left out, has an acyclic
//! happens-before that leads from the end of the application's pair back to its start. With the application there is a cycle, so
//! that the rules forbid the execution. In it each local read of a location reads from another write of it, so that every
//! write is read.

use mowgli::program::{Location, Node};

use crate::action::{Action, Effect};
use crate::execution::{LeftOut, Next, Problem, Reading};
use crate::rules::{Order, Rule, orders};
use crate::switches::Switches;
use crate::values::{Branch, Values};

/// Finds the first pivot of a rule, in a fixed order of its applications. `decided` admits pairs of WS that the other rules order.
pub fn pivot(
    actions: &[Action],
    locations: &[Location],
    home: impl Fn(u8) -> Node,
    switches: Switches,
    rule: Rule,
    reading: Reading,
    decided: bool,
) -> Option<LeftOut> {
    let orders = orders(actions, home, switches);
    let search = Search {
        actions,
        locations,
        orders: &orders,
        switches,
        rule,
        reading,
        decided,
    };
    applications(actions, &orders, rule)
        .into_iter()
        .find(|&left_out| search.is_pivot(left_out))
}

/// Lists the applications that a rule can have in some execution.
pub fn applications(actions: &[Action], orders: &[Order], rule: Rule) -> Vec<LeftOut> {
    let listed = if rule == Rule::CasF { Rule::CasT } else { rule };
    let indexed = || actions.iter().enumerate().map(|(at, action)| (at as u8, action));
    let reads = || indexed().filter(|(_, a)| a.atomic && a.reads());
    let writes = || indexed().filter(|(_, a)| a.atomic && a.writes());
    let mut out = Vec::new();
    match rule {
        Rule::R1 | Rule::R2 => {
            for (read, r) in reads() {
                for (write, _) in writes().filter(|&(write, w)| w.loc == r.loc && write != read) {
                    out.push(match rule {
                        Rule::R1 => LeftOut::R1 { read, write },
                        _ => LeftOut::R2 { write, read },
                    });
                }
            }
        }
        Rule::Ws => {
            for (from, a) in writes() {
                let others = writes().filter(|&(to, b)| b.loc == a.loc && to != from);
                out.extend(others.map(|(to, _)| LeftOut::Ws { from, to }));
            }
        }
        _ => out.extend(
            orders
                .iter()
                .filter(|o| o.rule == listed)
                .map(|&o| LeftOut::Pair(o)),
        ),
    }
    out
}

struct Search<'a> {
    actions: &'a [Action],
    locations: &'a [Location],
    orders: &'a [Order],
    switches: Switches,
    rule: Rule,
    reading: Reading,
    decided: bool,
}

impl Search<'_> {
    fn is_pivot(&self, left_out: LeftOut) -> bool {
        let problem = Problem::with_orders(self.actions, self.orders, self.switches, Some(left_out))
            .each_write_read_once(self.reading);
        let (from, to) = left_out.pair();
        let Some(before) = problem.base() else {
            return false;
        };
        if problem.is_before(before, from, to) {
            // The other rules give the pair, too: without this application nothing changes.
            return false;
        }
        if self.rule == Rule::Ws && !self.decided && problem.is_before(before, to, from) {
            // The other rules order the two writes, so that WS has nothing to choose.
            return false;
        }
        problem.visit(&mut |execution| {
            let wanted = match self.rule {
                Rule::CasF => Branch::Fails,
                Rule::CasT => Branch::Succeeds,
                _ => return Next::Stop,
            };
            let first = usize::from(self.actions[from].first);
            let swap = (first..).find(|&at| self.actions[at].effect == Effect::CompareAndSwap);
            let branch = swap.map(|at| Values::new(execution, self.locations).branch(at));
            // A circle of values admits either branch.
            match branch {
                Some(branch) if branch == wanted || branch == Branch::Unknown => Next::Stop,
                _ => Next::Continue,
            }
        })
    }
}
