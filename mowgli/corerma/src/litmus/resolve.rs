//! Resolves names to indices, and checks what coreRMA'16 section 3.2 demands: one process a node, and local operands in the
//! memory of the process.

use mowgli::litmus::Operand;
use mowgli::litmus::limits::{LOCATIONS_MAX, NODES_MAX, REGISTERS_MAX};
use mowgli::program::{Expr, Loc, Location, Node, Reg, ThreadId};
use mowgli::syntax::{self, Diagnostic, Init, KEYWORDS, Kind, Name, Number, Observed, Span, nearest};

use super::parse::{File, Place, Rhs, Stmt, WORDS};
use super::{Condition, Expected, Litmus, Query};
use crate::program::{Access, Process, Program, Statement};
use crate::switches::{Model, Variant};
use crate::value::Value;

/// Resolves a file. The test is complete if no diagnostic is an error.
pub(super) fn resolve(file: &File) -> (Option<Litmus>, Vec<Diagnostic>) {
    let mut r = Resolver::default();
    r.locations(file);
    r.processes(file);
    for process in 0..file.columns.len() {
        let cells = file
            .rows
            .iter()
            .filter_map(|row| row.cells.get(process)?.as_ref());
        let code = cells.filter_map(|stmt| r.stmt(process, stmt)).collect();
        r.processes[process].code = code;
    }
    let observed = file.observed.iter().filter_map(|o| r.operand(o)).collect();
    let queries: Vec<Query> = file.queries.iter().filter_map(|q| r.query(q)).collect();
    r.unused();
    let whole = queries.len() == file.queries.len();
    let litmus = Litmus {
        name: file.name.clone(),
        description: file.description.clone(),
        program: Program {
            nodes: r.nodes.max(1),
            locations: r.locations,
            processes: r.processes,
        },
        observed,
        queries,
        stated: Vec::new(),
    };
    (whole.then_some(litmus), r.diagnostics)
}

/// The test as far as it is known.
#[derive(Default)]
struct Resolver {
    nodes: u8,
    locations: Vec<Location>,
    declared: Vec<Span>,
    used: Vec<bool>,
    processes: Vec<Process>,
    diagnostics: Vec<Diagnostic>,
}

impl Resolver {
    fn error<T>(
        &mut self,
        kind: Kind,
        span: &Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        let diagnostic = Diagnostic::new(kind, span.clone(), message).help(help);
        self.diagnostics.push(diagnostic);
        None
    }

    /// Returns the node written as `number`, counted from 1.
    fn node(&mut self, number: &Number) -> Option<Node> {
        let found = usize::try_from(number.value)
            .ok()
            .filter(|n| (1..=NODES_MAX).contains(n));
        let Some(n) = found else {
            let message = format!("there is no node {}", number.value);
            let help = format!("nodes are numbered from 1 to NODES_MAX ({NODES_MAX})");
            return self.error(Kind::OutOfRange, &number.span, message, help);
        };
        // Bounded by NODES_MAX.
        self.nodes = self.nodes.max(n as u8);
        Some(Node(n as u8 - 1))
    }

    fn locations(&mut self, file: &File) {
        for entry in &file.init {
            let Init::Location {
                name, node, value, ..
            } = entry
            else {
                continue;
            };
            let node = self.node(node);
            if self.is_reserved(name) {
                continue;
            }
            if let Some(first) = self.find(&name.text) {
                let message = format!("`{}` is declared twice", name.text);
                let first = self.declared[usize::from(first.0)].clone();
                self.diagnostics.push(
                    Diagnostic::new(Kind::Duplicate, name.span.clone(), message)
                        .related(first, "first declared here")
                        .help("rename one of the two"),
                );
                continue;
            }
            if self.locations.len() == LOCATIONS_MAX {
                let message = format!("more locations than LOCATIONS_MAX ({LOCATIONS_MAX})");
                self.error::<()>(Kind::LimitExceeded, &name.span, message, "leave some out");
                return;
            }
            if value.is_none() {
                let message = format!("`{}` has no initial value; 0 is taken", name.text);
                let help = format!("write `{}@{}=0`", name.text, node.map_or(1, |n| n.0 + 1));
                self.error::<()>(Kind::UninitialisedLocation, &name.span, message, help);
            }
            self.declared.push(name.span.clone());
            self.used.push(false);
            self.locations.push(Location {
                name: name.text.clone(),
                node: node.unwrap_or(Node(0)),
                init: value.unwrap_or(0),
                relaxed: false,
            });
        }
    }

    /// Returns whether the name has a meaning in the language, which it reports.
    fn is_reserved(&mut self, name: &Name) -> bool {
        let reserved = WORDS.contains(&name.text.as_str()) || KEYWORDS.contains(&name.text.as_str());
        if reserved {
            let message = format!("`{}` is a word of the language", name.text);
            self.error::<()>(Kind::WrongOperand, &name.span, message, "choose another name");
        }
        reserved
    }

    fn processes(&mut self, file: &File) {
        let mut taken: Vec<(Node, Span)> = Vec::new();
        for column in &file.columns {
            let node = self.node(&column.node).unwrap_or(Node(0));
            if let Some((_, first)) = taken.iter().find(|(n, _)| *n == node) {
                let message = format!("node {node} has two processes");
                self.diagnostics.push(
                    Diagnostic::new(Kind::Duplicate, column.node.span.clone(), message)
                        .related(first.clone(), "the first process of the node")
                        .help("coreRMA has one process a node: place this one on another node"),
                );
            }
            taken.push((node, column.node.span.clone()));
            self.processes.push(Process {
                node,
                registers: Vec::new(),
                code: Vec::new(),
            });
        }
        for entry in &file.init {
            let Init::Register { thread, name } = entry else {
                continue;
            };
            if let Some(process) = self.process(thread) {
                let before = self.processes[process].registers.len();
                let reg = self.register(process, name);
                if reg.is_some_and(|reg| usize::from(reg.0) < before) {
                    let message = format!("register `{}` is declared twice", name.text);
                    self.error::<()>(Kind::Duplicate, &name.span, message, "remove one declaration");
                }
            }
        }
    }

    fn process(&mut self, number: &Number) -> Option<usize> {
        let found = usize::try_from(number.value).ok();
        match found.filter(|&p| p < self.processes.len()) {
            Some(process) => Some(process),
            None => {
                let message = format!("there is no process {}", number.value);
                let help = format!("the last one is {}", self.processes.len().saturating_sub(1));
                self.error(Kind::OutOfRange, &number.span, message, help)
            }
        }
    }

    fn find(&self, name: &str) -> Option<Loc> {
        // Bounded by LOCATIONS_MAX.
        let place = self.locations.iter().position(|l| l.name == name);
        place.map(|at| Loc(at as u16))
    }

    fn register(&mut self, process: usize, name: &Name) -> Option<Reg> {
        if self.is_reserved(name) {
            return None;
        }
        let registers = &mut self.processes[process].registers;
        let at = registers.iter().position(|r| *r == name.text);
        let at = at.unwrap_or_else(|| {
            registers.push(name.text.clone());
            registers.len() - 1
        });
        if at >= REGISTERS_MAX {
            let message = format!("more registers in a process than REGISTERS_MAX ({REGISTERS_MAX})");
            return self.error(Kind::LimitExceeded, &name.span, message, "use fewer");
        }
        Some(Reg(at as u16))
    }

    fn stmt(&mut self, process: usize, stmt: &Stmt) -> Option<Statement> {
        match stmt {
            Stmt::Flush(number) => {
                let node = self.node(number)?;
                Some(Statement::Flush { node })
            }
            Stmt::Put { to, from } => {
                let (to, from) = (self.remote(to), self.local(process, from));
                Some(Statement::Put { to: to?, from: from? })
            }
            Stmt::Assign { dst, rhs } => self.assign(process, dst, rhs),
        }
    }

    fn assign(&mut self, process: usize, dst: &Place, rhs: &Rhs) -> Option<Statement> {
        match rhs {
            Rhs::Get(from) => {
                let (to, from) = (self.local(process, dst), self.remote(from));
                Some(Statement::Get { to: to?, from: from? })
            }
            Rhs::Rga(target, addend) => {
                let (to, target) = (self.local(process, dst), self.remote(target));
                let addend = self.local(process, addend);
                Some(Statement::Rga {
                    to: to?,
                    target: target?,
                    addend: addend?,
                })
            }
            Rhs::Cas(target, expected, new) => {
                let (to, target) = (self.local(process, dst), self.remote(target));
                let (expected, new) = (self.local(process, expected), self.local(process, new));
                Some(Statement::Cas {
                    to: to?,
                    target: target?,
                    expected: expected?,
                    new: new?,
                })
            }
            Rhs::Place(from) => self.read(process, dst, from),
            Rhs::Expr(syntax::Expr::Name(name)) if self.find(&name.text).is_some() => {
                let from = Place {
                    name: name.clone(),
                    node: None,
                    atomic: None,
                    span: name.span.clone(),
                };
                self.read(process, dst, &from)
            }
            Rhs::Expr(expr) => {
                if self.find(&dst.name.text).is_none() {
                    let message = format!("`{}` is not a location", dst.name.text);
                    let help = format!(
                        "place it in the init block (`{}@{}=0`); a register is assigned by a local read only",
                        dst.name.text,
                        self.processes[process].node.0 + 1
                    );
                    return self.error(Kind::UnknownLocation, &dst.span, message, help);
                }
                let to = self.local(process, dst);
                let value = self.expr(process, expr);
                Some(Statement::Write {
                    to: to?,
                    value: value?,
                })
            }
        }
    }

    /// Resolves `u := x`.
    fn read(&mut self, process: usize, dst: &Place, from: &Place) -> Option<Statement> {
        if self.find(&dst.name.text).is_some() {
            let message = format!(
                "`{}` is a location, and so is `{}`",
                dst.name.text, from.name.text
            );
            let help = "a local write takes an expression over registers: read into a register first; \
                 from another node, write `x := get(y^2)`";
            return self.error(Kind::WrongOperand, &from.span, message, help);
        }
        if dst.node.is_some() || dst.atomic.is_some() {
            let message = format!("`{}` is a register", dst.name.text);
            let help = "a register has neither a node nor an atomicity";
            return self.error(Kind::WrongOperand, &dst.span, message, help);
        }
        let from = self.local(process, from);
        let reg = self.register(process, &dst.name);
        Some(Statement::Read {
            reg: reg?,
            from: from?,
        })
    }

    fn location(&mut self, place: &Place) -> Option<Loc> {
        let Some(loc) = self.find(&place.name.text) else {
            let name = &place.name.text;
            let known = nearest(name, self.locations.iter().map(|l| l.name.as_str()));
            let help = match known {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("place it in the init block: `{name}@1=0;`"),
            };
            let message = format!("unknown location `{name}`");
            return self.error(Kind::UnknownLocation, &place.name.span, message, help);
        };
        self.used[usize::from(loc.0)] = true;
        Some(loc)
    }

    /// Resolves a location at the target of a remote statement.
    fn remote(&mut self, place: &Place) -> Option<Access> {
        let loc = self.location(place)?;
        let home = self.locations[usize::from(loc.0)].node;
        let name = &place.name.text;
        match &place.node {
            None => {
                let message = format!("`{name}` is the target of a remote statement and needs its node");
                self.error(
                    Kind::WrongOperand,
                    &place.span,
                    message,
                    format!("write `{name}^{home}`"),
                )
            }
            Some(number) if self.node(number)? != home => {
                let message = format!("`{name}` lives on node {home}, not {}", number.value);
                self.error(
                    Kind::WrongNode,
                    &number.span,
                    message,
                    format!("write `{name}^{home}`"),
                )
            }
            Some(_) => Some(Access {
                loc,
                atomic: place.atomic.unwrap_or(true),
            }),
        }
    }

    /// Resolves a location in the memory of the process.
    fn local(&mut self, process: usize, place: &Place) -> Option<Access> {
        let loc = self.location(place)?;
        let (home, own) = (
            self.locations[usize::from(loc.0)].node,
            self.processes[process].node,
        );
        let name = &place.name.text;
        if home != own {
            let message = format!("`{name}` lives on node {home}, and process {process} runs on node {own}");
            let help = format!("reach it with get, put, rga or cas: `x := get({name}^{home})`");
            return self.error(Kind::WrongNode, &place.span, message, help);
        }
        if place.node.is_some() {
            let message = format!("`{name}` is a local operand and takes no node");
            return self.error(
                Kind::WrongOperand,
                &place.span,
                message,
                format!("write `{name}`"),
            );
        }
        Some(Access {
            loc,
            atomic: place.atomic.unwrap_or(true),
        })
    }

    fn expr(&mut self, process: usize, expr: &syntax::Expr) -> Option<Expr> {
        Some(match expr {
            syntax::Expr::Const(n) => Expr::Const(*n),
            syntax::Expr::Name(name) => {
                let registers = &self.processes[process].registers;
                if let Some(at) = registers.iter().position(|r| *r == name.text) {
                    return Some(Expr::Reg(Reg(at as u16)));
                }
                let known = nearest(&name.text, registers.iter().map(String::as_str));
                let help = match (self.find(&name.text), known) {
                    (Some(_), _) => format!("`{}` is a location: read it into a register first", name.text),
                    (None, Some(known)) => format!("did you mean `{known}`?"),
                    (None, None) => format!(
                        "assign it by a local read, or declare it in the init block: `{process}:{};`",
                        name.text
                    ),
                };
                let message = format!("process {process} has no register `{}`", name.text);
                return self.error(Kind::UnknownRegister, &name.span, message, help);
            }
            syntax::Expr::Unary(op, e) => Expr::Unary(*op, Box::new(self.expr(process, e)?)),
            syntax::Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(process, a), self.expr(process, b));
                Expr::Binary(*op, Box::new(a?), Box::new(b?))
            }
        })
    }

    fn query(&mut self, query: &syntax::Query<Value>) -> Option<Query> {
        let formula = query.formula.resolve(&mut |observed| self.operand(observed));
        let mut expected = Expected::new();
        for (verdict, name) in &query.expected {
            let model: Model = match name.text.parse() {
                Ok(model) => model,
                Err(error) => {
                    let known = nearest(&name.text, Variant::ALL.map(Variant::name));
                    let help = known.map(|known| format!("did you mean `{known}`?"));
                    let help = help.unwrap_or_else(|| "models of RDMA have no coreRMA statements".to_owned());
                    self.error::<()>(Kind::UnknownModel, &name.span, error.to_string(), help);
                    continue;
                }
            };
            if expected
                .insert(model, *verdict)
                .is_some_and(|old| old != *verdict)
            {
                let message = format!("`{model}` has two different verdicts for one condition");
                self.error::<()>(Kind::BadExpectation, &name.span, message, "remove one of them");
            }
        }
        Some(Query {
            condition: Condition {
                quantifier: query.quantifier,
                formula: formula?,
            },
            expected,
        })
    }

    fn operand(&mut self, observed: &Observed) -> Option<Operand> {
        let name = &observed.name;
        let Some(number) = &observed.thread else {
            if let Some(loc) = self.find(&name.text) {
                self.used[usize::from(loc.0)] = true;
                return Some(Operand::Loc(loc));
            }
            let known = nearest(&name.text, self.locations.iter().map(|l| l.name.as_str()));
            let help = match known {
                Some(known) => format!("did you mean `{known}`? A register is written `0:r`"),
                None => "a register is written `0:r`".to_owned(),
            };
            let message = format!("unknown location `{}`", name.text);
            return self.error(Kind::UnknownLocation, &name.span, message, help);
        };
        let process = self.process(number)?;
        let registers = &self.processes[process].registers;
        if let Some(at) = registers.iter().position(|r| *r == name.text) {
            // Processes and registers are bounded by THREADS_MAX and REGISTERS_MAX.
            return Some(Operand::Reg(ThreadId(process as u8), Reg(at as u16)));
        }
        let known = nearest(&name.text, registers.iter().map(String::as_str));
        let help = match known {
            Some(known) => format!("did you mean `{known}`?"),
            None => "a register is assigned by a local read, `r := x`".to_owned(),
        };
        let message = format!("process {process} has no register `{}`", name.text);
        self.error(Kind::UnknownRegister, &name.span, message, help)
    }

    fn unused(&mut self) {
        for (at, used) in self.used.clone().into_iter().enumerate() {
            if !used {
                let message = format!("nothing uses location `{}`", self.locations[at].name);
                let span = self.declared[at].clone();
                self.error::<()>(Kind::UnusedLocation, &span, message, "remove it");
            }
        }
    }
}
