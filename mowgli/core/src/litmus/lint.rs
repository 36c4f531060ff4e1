//! Warns about tests that are well formed but probably do not say what their author meant.

use std::collections::{BTreeMap, BTreeSet};

use super::Litmus;
use super::ast::{CasArgs, File, Place, Rhs, Stmt, StmtKind};
use super::symbols::Globals;
use crate::condition::Operand;
use crate::program::Value;
use crate::syntax::limits::INSTRUCTIONS_MAX;
use crate::syntax::{Diagnostic, Expr, Kind, Name};

/// Adds the warnings for a file that resolved without error.
pub(super) fn lint(file: &File, litmus: &Litmus, globals: &Globals, out: &mut Vec<Diagnostic>) {
    shared_registers(file, globals, out);
    unused_locations(file, litmus, globals, out);
    poll_and_wait(file, out);
    for t in 0..file.columns.len() {
        let mut pending = Pending {
            steps: 0,
            known: BTreeSet::new(),
            warned: BTreeSet::new(),
            out,
        };
        let mut counts = BTreeMap::new();
        for stmt in file
            .rows
            .iter()
            .filter_map(|row| row.cells.get(t).and_then(Option::as_ref))
            .flat_map(Stmt::each)
        {
            pending.stmt(stmt, &mut counts);
        }
    }
}

/// Calls `f` on every statement, nested ones included.
fn walk<'a>(stmts: impl IntoIterator<Item = &'a Stmt>, f: &mut impl FnMut(&'a Stmt)) {
    for stmt in stmts.into_iter().flat_map(Stmt::each) {
        f(stmt);
        match &stmt.kind {
            StmtKind::If { then, otherwise, .. } => {
                walk(then, f);
                walk(otherwise, f);
            }
            StmtKind::While { body, .. } => walk(body, f),
            StmtKind::Choose(blocks) => blocks.iter().for_each(|b| walk(b, f)),
            _ => {}
        }
    }
}

fn thread(file: &File, t: usize) -> impl Iterator<Item = &Stmt> {
    file.rows
        .iter()
        .filter_map(move |row| row.cells.get(t).and_then(Option::as_ref))
}

/// Warns if two threads assign registers of one name, because a reader may take the two private registers for one place. Names
/// like `r0`, which litmus tests use in every thread by convention, get no warning.
fn shared_registers(file: &File, globals: &Globals, out: &mut Vec<Diagnostic>) {
    let mut first: BTreeMap<&str, (usize, &Name)> = BTreeMap::new();
    let mut warned = BTreeSet::new();
    for t in 0..file.columns.len() {
        walk(thread(file, t), &mut |stmt| {
            let StmtKind::Assign {
                dst: Place { name, node: None },
                ..
            } = &stmt.kind
            else {
                return;
            };
            if globals.find(&name.text).is_some() || is_conventional(&name.text) {
                return;
            }
            let (owner, place) = *first.entry(&name.text).or_insert((t, name));
            if owner != t && warned.insert(&name.text) {
                let message = format!("register `{}` of P{t} is not the one of P{owner}", name.text);
                out.push(
                    Diagnostic::new(Kind::SharedRegister, name.span.clone(), message)
                        .related(place.span.clone(), format!("P{owner}'s own `{}`", name.text))
                        .help("registers are private to a thread: rename one, or place it in the init block to share it"),
                );
            }
        });
    }
}

fn is_conventional(name: &str) -> bool {
    name.strip_prefix('r')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

fn unused_locations(file: &File, litmus: &Litmus, globals: &Globals, out: &mut Vec<Diagnostic>) {
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for t in 0..file.columns.len() {
        walk(thread(file, t), &mut |stmt| names(stmt, &mut used));
    }
    let mut operands: Vec<Operand> = litmus.observed.clone();
    operands.extend(litmus.queries.iter().flat_map(|q| q.condition.formula.operands()));
    for (i, name) in globals.declared.iter().enumerate() {
        let shown = operands
            .iter()
            .any(|o| matches!(o, Operand::Loc(l) if usize::from(l.0) == i));
        if !shown && !used.contains(name.text.as_str()) {
            let message = format!("nothing uses location `{}`", name.text);
            out.push(Diagnostic::new(Kind::UnusedLocation, name.span.clone(), message).help("remove it"));
        }
    }
}

/// Warns if a test has both `poll` (of RDMA-TSO'24 and Robust'25) and `wait` (of LOCO'26). Only `sc` applies to such a test.
fn poll_and_wait(file: &File, out: &mut Vec<Diagnostic>) {
    let (mut poll, mut wait) = (None, None);
    for t in 0..file.columns.len() {
        walk(thread(file, t), &mut |stmt| match stmt.kind {
            StmtKind::Poll(_) => poll = poll.take().or(Some(&stmt.span)),
            StmtKind::Wait(_) => wait = wait.take().or(Some(&stmt.span)),
            _ => {}
        });
    }
    if let (Some(poll), Some(wait)) = (poll, wait) {
        let message = "no model but `sc` has both `poll` and `wait`: only `sc` applies to this test";
        out.push(
            Diagnostic::new(Kind::PollAndWait, poll.clone(), message)
                .related(wait.clone(), "the `wait`")
                .help("write `wait` with work identifiers for rdma-wait, or `poll` for the other models"),
        );
    }
}

/// Collects the names that a statement mentions itself, without those in its blocks.
fn names<'a>(stmt: &'a Stmt, out: &mut BTreeSet<&'a str>) {
    let cas = |args: &'a CasArgs, out: &mut BTreeSet<&'a str>| {
        out.insert(&args.target.name.text);
    };
    match &stmt.kind {
        StmtKind::Cas(args) => cas(args, out),
        StmtKind::Swap(args) => {
            out.insert(&args.target.name.text);
        }
        StmtKind::Send {
            data: Some(Rhs::Expr(Expr::Name(name))),
            ..
        }
        | StmtKind::Recv {
            buffer: Some(name), ..
        } => {
            out.insert(&name.text);
        }
        StmtKind::Assign { dst, rhs, .. } => {
            out.insert(&dst.name.text);
            match rhs {
                Rhs::Expr(Expr::Name(name)) => {
                    out.insert(&name.text);
                }
                Rhs::Swap(args) | Rhs::Rswap(args) => {
                    out.insert(&args.target.name.text);
                }
                Rhs::Expr(_) | Rhs::Inline(_) | Rhs::PollRecv(_) => {}
                Rhs::Remote(place) | Rhs::Rfaa { target: place, .. } => {
                    out.insert(&place.name.text);
                }
                Rhs::Cas(args) | Rhs::Rcas(args) => cas(args, out),
            }
        }
        _ => {}
    }
}

/// By node, the most operations that may still be unpolled.
type Counts = BTreeMap<Value, u64>;

/// Follows a thread with the largest number of unpolled operations that any path can have.
struct Pending<'a> {
    steps: usize,
    /// Work identifiers that some earlier operation may carry.
    known: BTreeSet<String>,
    /// The places of polls and waits that have been reported.
    warned: BTreeSet<usize>,
    out: &'a mut Vec<Diagnostic>,
}

impl Pending<'_> {
    fn block(&mut self, block: &[Stmt], counts: &mut Counts) {
        let all = block.iter().flat_map(Stmt::each);
        all.for_each(|stmt| self.stmt(stmt, counts));
    }

    fn stmt(&mut self, stmt: &Stmt, counts: &mut Counts) {
        // Unrolled loops can be long. Nothing is reported beyond this many steps.
        self.steps += 1;
        if self.steps > 10 * INSTRUCTIONS_MAX {
            return;
        }
        match &stmt.kind {
            StmtKind::Assign { dst, work, rhs } => {
                let remote = match rhs {
                    Rhs::Remote(place) | Rhs::Rfaa { target: place, .. } => place.node.as_ref(),
                    Rhs::Rcas(args) => args.target.node.as_ref(),
                    _ => dst.node.as_ref(),
                };
                if let Some(node) = remote.filter(|_| !stmt.unsignaled) {
                    *counts.entry(node.value).or_default() += 1;
                }
                self.known.extend(work.iter().map(|w| w.text.clone()));
            }
            StmtKind::Send { node, .. } if !stmt.unsignaled => *counts.entry(node.value).or_default() += 1,
            StmtKind::Poll(node) => match counts.get_mut(&node.value) {
                Some(n) if *n > 0 => *n -= 1,
                _ if self.warned.insert(stmt.span.start) => {
                    let message = format!(
                        "this poll never succeeds: no operation towards node {} is left",
                        node.value
                    );
                    self.out.push(
                        Diagnostic::new(Kind::PollNeverSucceeds, stmt.span.clone(), message).help(
                            "each poll takes one earlier put, get or remote read-modify-write of its thread that is signaled; \
                             executions that reach this one never end and are not counted",
                        ),
                    );
                }
                _ => {}
            },
            StmtKind::Wait(name) => self.wait(name),
            StmtKind::If { then, otherwise, .. } => {
                let mut other = counts.clone();
                self.block(then, counts);
                self.block(otherwise, &mut other);
                join(counts, &other);
            }
            StmtKind::While { body, .. } => {
                let mut most = counts.clone();
                for _ in 0..1000 {
                    let before = counts.clone();
                    self.block(body, counts);
                    join(&mut most, counts);
                    if *counts == before {
                        break;
                    }
                }
                *counts = most;
            }
            StmtKind::Choose(blocks) => {
                let start = counts.clone();
                for (i, block) in blocks.iter().enumerate() {
                    let mut branch = start.clone();
                    self.block(block, &mut branch);
                    if i == 0 {
                        *counts = branch;
                    } else {
                        join(counts, &branch);
                    }
                }
            }
            _ => {}
        }
    }

    fn wait(&mut self, name: &Name) {
        if self.known.contains(&name.text) || !self.warned.insert(name.span.start) {
            return;
        }
        let message = format!(
            "nothing to wait for: no earlier operation carries `{}`",
            name.text
        );
        let help = format!("give the operation the identifier: `x^2 :=[{}] y`", name.text);
        self.out
            .push(Diagnostic::new(Kind::WaitForNothing, name.span.clone(), message).help(help));
    }
}

/// Takes the larger of the two counts for each node.
fn join(into: &mut Counts, other: &Counts) {
    for (&node, &n) in other {
        let count = into.entry(node).or_default();
        *count = (*count).max(n);
    }
}
