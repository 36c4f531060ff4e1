//! Resolves names to indices: turns the syntax tree into a [`Client`]. It also checks what the libraries
//! demand of their callers: local locations are on the thread's node, and participants, writers and readers
//! are the declared ones.

use std::collections::BTreeMap;

use mowgli::litmus::limits::{LOCATIONS_MAX, NODES_MAX, REGISTERS_MAX};
use mowgli::program::{Node, Reg, ThreadId, WorkId};
use mowgli::syntax::{self, Diagnostic, Init, Kind, Name, Number, Observed, Span, nearest};

use super::condition::{Condition, Expected, Formula, Operand, Query, Setting};
use super::method::{Library, Method, Param};
use super::parse::{self, File, OperandKind, StmtKind};
use super::{Arg, Call, Client, Expr, NodeSet, Object, ObjectId, ObjectKind, Stmt, Thread};
use crate::value::{BOTTOM, Value};

/// The most nested loops that a `break` may leave.
const BREAK_MAX: i64 = 64;

/// Resolves a file. The client is complete only if no diagnostic is an error.
pub(super) fn resolve(file: &File) -> (Client, Vec<Diagnostic>) {
    let mut r = Resolver::default();
    r.columns(file);
    for entry in &file.init {
        if let Init::Location {
            name, node, value, ..
        } = entry
        {
            let node = r.node(node);
            let init = value.unwrap_or(0);
            r.object(name, ObjectKind::Word { node, init });
        }
    }
    for declaration in &file.objects {
        if let Some(kind) = r.kind(declaration) {
            r.object(&declaration.name, kind);
        }
    }
    if let Some(nodes) = &file.nodes {
        r.node(nodes);
    }
    for entry in &file.init {
        if let Init::Register { thread, name } = entry {
            match usize::try_from(thread.value)
                .ok()
                .filter(|&t| t < r.threads.len())
            {
                Some(t) => drop(r.register(t, name)),
                None => r.no_thread(thread),
            }
        }
    }
    for (t, _) in file.columns.iter().enumerate() {
        let cells = file.rows.iter().filter_map(|row| row.cells.get(t)?.as_ref());
        // Assigned names are collected first, because in a loop a register may be read in a cell before its
        // assignment.
        cells.clone().for_each(|stmt| r.assigned(t, stmt));
        let body = cells.filter_map(|stmt| r.stmt(t, stmt, 0)).collect();
        r.threads[t].body = body;
    }
    let observed: Vec<Operand> = file.observed.iter().filter_map(|o| r.observed(o)).collect();
    for operand in observed {
        r.observe(operand);
    }
    let queries = file.queries.iter().filter_map(|q| r.query(q)).collect();
    r.unused();
    r.polls();
    let client = Client {
        name: file.name.clone(),
        description: file.description.clone(),
        nodes: r.nodes.max(1),
        objects: r.objects,
        threads: r.threads,
        observed_words: r.observed_words,
        queries,
    };
    (client, r.diagnostics)
}

/// The client as far as it is known, and the mistakes found so far.
#[derive(Default)]
pub(super) struct Resolver {
    nodes: u8,
    objects: Vec<Object>,
    declared: Vec<Span>,
    used: Vec<bool>,
    index: BTreeMap<String, ObjectId>,
    threads: Vec<Thread>,
    observed_words: Vec<ObjectId>,
    diagnostics: Vec<Diagnostic>,
    /// The first poll.
    poll: Option<Span>,
    /// The first call of another library than that of words, or wait for an identifier.
    beside: Option<(Method, Span)>,
}

impl Resolver {
    pub(super) fn error(
        &mut self,
        kind: Kind,
        span: &Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.diagnostics
            .push(Diagnostic::new(kind, span.clone(), message).help(help));
    }

    /// Refuses polls beside what may post operations of its own, or wait for them: which operation a poll takes would then depend on
    /// how the library is implemented. So RDMA^TSO is no library that composes (LOCO'26 3.3).
    fn polls(&mut self) {
        if let (Some(poll), Some((method, span))) = (self.poll.take(), self.beside.take()) {
            let message = format!("this client polls, and calls `{}`", method.name());
            let diagnostic = Diagnostic::new(Kind::WrongOperand, poll, message);
            self.diagnostics.push(
                diagnostic
                    .related(span, "the call")
                    .help("a client that polls has words alone, and no `wait`: give operations an identifier and wait for that"),
            );
        }
    }

    fn columns(&mut self, file: &File) {
        for column in &file.columns {
            let node = self.node(&column.node);
            self.threads.push(Thread {
                node,
                registers: Vec::new(),
                work_ids: Vec::new(),
                body: Vec::new(),
            });
        }
    }

    /// Returns the node written as `number`, counted from 1, or node 1 if it is out of range.
    pub(super) fn node(&mut self, number: &Number) -> Node {
        let found = usize::try_from(number.value)
            .ok()
            .filter(|n| (1..=NODES_MAX).contains(n));
        let Some(n) = found else {
            let message = format!("there is no node {}", number.value);
            let help = format!("nodes are numbered from 1 to NODES_MAX ({NODES_MAX})");
            self.error(Kind::OutOfRange, &number.span, message, help);
            return Node(0);
        };
        // Bounded by NODES_MAX.
        self.nodes = self.nodes.max(n as u8);
        Node(n as u8 - 1)
    }

    pub(super) fn thread(&mut self, name: &Name) -> Option<ThreadId> {
        let found = name.text.strip_prefix('P').and_then(|n| n.parse::<u8>().ok());
        match found.filter(|&t| usize::from(t) < self.threads.len()) {
            Some(t) => Some(ThreadId(t)),
            None => {
                let message = format!("there is no thread `{}`", name.text);
                let help = format!("the last one is P{}", self.threads.len().saturating_sub(1));
                self.error(Kind::OutOfRange, &name.span, message, help);
                None
            }
        }
    }

    fn no_thread(&mut self, number: &Number) {
        let message = format!("there is no thread {}", number.value);
        let help = format!("the last one is {}", self.threads.len().saturating_sub(1));
        self.error(Kind::OutOfRange, &number.span, message, help);
    }

    fn object(&mut self, name: &Name, kind: ObjectKind) {
        if let Some(&first) = self.index.get(&name.text) {
            let message = format!("`{}` is declared twice", name.text);
            let diagnostic = Diagnostic::new(Kind::Duplicate, name.span.clone(), message)
                .related(self.declared[usize::from(first.0)].clone(), "first declared here")
                .help("rename one of the two");
            self.diagnostics.push(diagnostic);
            return;
        }
        if self.objects.len() == LOCATIONS_MAX {
            let message = format!("more objects than LOCATIONS_MAX ({LOCATIONS_MAX})");
            self.error(Kind::LimitExceeded, &name.span, message, "leave some out");
            return;
        }
        // Bounded by LOCATIONS_MAX, far below u16::MAX.
        let id = ObjectId(self.objects.len() as u16);
        self.index.insert(name.text.clone(), id);
        self.declared.push(name.span.clone());
        self.used.push(false);
        self.objects.push(Object {
            name: name.text.clone(),
            kind,
        });
    }

    fn register(&mut self, t: usize, name: &Name) -> Option<Reg> {
        if self.index.contains_key(&name.text) {
            let message = format!("`{}` is an object, not a register", name.text);
            self.error(
                Kind::WrongOperand,
                &name.span,
                message,
                "call a method of it, or choose another name",
            );
            return None;
        }
        if ["true", "false", "bot", "_"].contains(&name.text.as_str()) {
            let message = format!("`{}` cannot be assigned", name.text);
            self.error(Kind::WrongOperand, &name.span, message, "choose another name");
            return None;
        }
        let registers = &mut self.threads[t].registers;
        let at = registers.iter().position(|r| *r == name.text).unwrap_or_else(|| {
            registers.push(name.text.clone());
            registers.len() - 1
        });
        if at >= REGISTERS_MAX {
            let message = format!("more registers in a thread than REGISTERS_MAX ({REGISTERS_MAX})");
            self.error(Kind::LimitExceeded, &name.span, message, "use fewer");
            return None;
        }
        Some(Reg(at as u16))
    }

    /// Collects the registers that a statement assigns, including the blocks in it.
    fn assigned(&mut self, t: usize, stmt: &parse::Stmt) {
        match &stmt.kind {
            StmtKind::Call {
                result: Some(reg), ..
            }
            | StmtKind::Assign { reg, .. } => {
                if !self.index.contains_key(&reg.text) {
                    self.register(t, reg);
                }
            }
            StmtKind::Call { .. } | StmtKind::Break(_) => {}
            StmtKind::If { then, otherwise, .. } => {
                then.iter().chain(otherwise).for_each(|s| self.assigned(t, s));
            }
            StmtKind::Loop(body) => body.iter().for_each(|s| self.assigned(t, s)),
        }
    }

    fn stmts(&mut self, t: usize, stmts: &[parse::Stmt], loops: i64) -> Vec<Stmt> {
        stmts.iter().filter_map(|s| self.stmt(t, s, loops)).collect()
    }

    fn stmt(&mut self, t: usize, stmt: &parse::Stmt, loops: i64) -> Option<Stmt> {
        Some(match &stmt.kind {
            StmtKind::Call { result, method, args } => {
                let call = self.call(t, *method, args, &stmt.span);
                let reg = match result {
                    Some(name) if !method.signature().returns => {
                        let message = format!("`{}` returns nothing", method.name());
                        self.error(Kind::WrongOperand, &name.span, message, "call it without `:=`");
                        return None;
                    }
                    Some(name) => Some(self.register(t, name)?),
                    None => None,
                };
                Stmt::Call {
                    result: reg,
                    call: call?,
                }
            }
            StmtKind::Assign { reg, value } => {
                let value = self.value(t, value);
                Stmt::Assign {
                    reg: self.register(t, reg)?,
                    value: value?,
                }
            }
            StmtKind::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.expr(t, cond);
                let then = self.stmts(t, then, loops);
                let otherwise = self.stmts(t, otherwise, loops);
                Stmt::If {
                    cond: cond?,
                    then,
                    otherwise,
                }
            }
            StmtKind::Loop(body) => Stmt::Loop(self.stmts(t, body, loops + 1)),
            StmtKind::Break(levels) => {
                let levels = levels.as_ref().map_or(1, |n| n.value);
                if levels < 1 || levels > loops.min(BREAK_MAX) {
                    let message = format!("`break {levels}` stands in {loops} loops");
                    self.error(
                        Kind::OutOfRange,
                        &stmt.span,
                        message,
                        "a break leaves 1 or more of the loops around it",
                    );
                    return None;
                }
                Stmt::Break(levels as u32)
            }
        })
    }

    fn expr(&mut self, t: usize, expr: &syntax::Expr) -> Option<Expr> {
        Some(match expr {
            syntax::Expr::Const(n) => Expr::Const(Value::Int(*n)),
            syntax::Expr::Name(name) => match name.text.as_str() {
                "true" => Expr::Const(Value::Bool(true)),
                "false" => Expr::Const(Value::Bool(false)),
                "bot" => Expr::Const(BOTTOM),
                text => {
                    let found = self.threads[t].registers.iter().position(|r| r == text);
                    if let Some(reg) = found {
                        return Some(Expr::Reg(Reg(reg as u16)));
                    }
                    let known = nearest(text, self.threads[t].registers.iter().map(String::as_str));
                    let help = match (self.index.contains_key(text), known) {
                        (true, _) => format!("`{text}` is an object: read it into a register first"),
                        (false, Some(known)) => format!("did you mean `{known}`?"),
                        (false, None) => {
                            format!("assign it first, or declare it in the init block: `{t}:{text};`")
                        }
                    };
                    let message = format!("thread P{t} has no register `{text}`");
                    self.error(Kind::UnknownRegister, &name.span, message, help);
                    return None;
                }
            },
            syntax::Expr::Unary(op, a) => Expr::Unary(*op, Box::new(self.expr(t, a)?)),
            syntax::Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(t, a), self.expr(t, b));
                Expr::Binary(*op, Box::new(a?), Box::new(b?))
            }
        })
    }

    fn value(&mut self, t: usize, operand: &parse::Operand) -> Option<Expr> {
        match &operand.kind {
            OperandKind::Expr(e) => self.expr(t, e),
            OperandKind::Tuple(parts) => {
                let parts: Vec<Option<Expr>> = parts.iter().map(|e| self.expr(t, e)).collect();
                Some(Expr::Tuple(parts.into_iter().collect::<Option<_>>()?))
            }
            OperandKind::Nodes(_) => {
                self.error(
                    Kind::WrongOperand,
                    &operand.span,
                    "a set of nodes is no value",
                    "write an expression",
                );
                None
            }
        }
    }

    fn call(&mut self, t: usize, method: Method, args: &[parse::Operand], span: &Span) -> Option<Call> {
        match method {
            Method::Poll => drop(self.poll.get_or_insert_with(|| span.clone())),
            _ if method == Method::Wait || method.library() != Library::RdmaWait => {
                self.beside.get_or_insert_with(|| (method, span.clone()));
            }
            _ => {}
        }
        let params = method.signature().params;
        let args: Vec<Option<Arg>> = params
            .iter()
            .zip(args)
            .map(|(param, arg)| self.arg(t, *param, arg))
            .collect();
        let call = Call {
            method,
            args: args.into_iter().collect::<Option<_>>()?,
        };
        match super::admit::refusal(&call, &self.objects, &self.threads, ThreadId(t as u8)) {
            None => Some(call),
            Some(refusal) => {
                self.error(Kind::WrongNode, span, refusal.message, refusal.help);
                None
            }
        }
    }

    fn arg(&mut self, t: usize, param: Param, arg: &parse::Operand) -> Option<Arg> {
        let wrong = |wanted: &str| (format!("expected {wanted}"), arg.span.clone());
        let (message, span) = match (param, &arg.kind) {
            (Param::Object(library), OperandKind::Expr(syntax::Expr::Name(name))) => {
                return self.object_arg(library, name).map(Arg::Object);
            }
            (Param::Object(library), _) => wrong(&format!("an object ({})", library.name())),
            (Param::Number, OperandKind::Tuple(_)) => wrong("a number"),
            (Param::Number | Param::Message, _) => return self.value(t, arg).map(Arg::Value),
            (Param::Work, OperandKind::Expr(syntax::Expr::Name(name))) => {
                let ids = &mut self.threads[t].work_ids;
                let known = ids.iter().position(|w| *w == name.text && w != "_");
                let at = known.unwrap_or_else(|| {
                    ids.push(name.text.clone());
                    ids.len() - 1
                });
                return Some(Arg::Work(WorkId(at as u16)));
            }
            (Param::Work, _) => wrong("a work identifier"),
            (Param::Node, OperandKind::Expr(syntax::Expr::Const(n))) => {
                let span = arg.span.clone();
                return Some(Arg::Node(self.node(&Number { value: *n, span })));
            }
            (Param::Node, _) => wrong("a node"),
            (Param::Nodes, OperandKind::Nodes(nodes)) => {
                return Some(Arg::Nodes(
                    nodes.iter().map(|n| self.node(n)).collect::<NodeSet>(),
                ));
            }
            (Param::Nodes, _) => wrong("a set of nodes, `{1, 2}`"),
        };
        self.error(
            Kind::WrongOperand,
            &span,
            message,
            "docs/clients.md has the form of each method",
        );
        None
    }

    fn object_arg(&mut self, library: Library, name: &Name) -> Option<ObjectId> {
        let Some(&id) = self.index.get(&name.text) else {
            let message = format!("unknown object `{}`", name.text);
            let help = match (
                nearest(&name.text, self.index.keys().map(String::as_str)),
                library.keyword(),
            ) {
                (Some(known), _) => format!("did you mean `{known}`?"),
                (None, Some(keyword)) => format!("declare it: `objects {{ {keyword} {} .. }}`", name.text),
                (None, None) => format!("place it in the init block: `{}@1=0;`", name.text),
            };
            self.error(Kind::UnknownLocation, &name.span, message, help);
            return None;
        };
        let own = self.objects[usize::from(id.0)].kind.library();
        if own != library {
            let message = format!(
                "`{}` belongs to {}, not to {}",
                name.text,
                own.name(),
                library.name()
            );
            let diagnostic = Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                .related(self.declared[usize::from(id.0)].clone(), "declared here")
                .help("docs/clients.md lists the methods of each library");
            self.diagnostics.push(diagnostic);
            return None;
        }
        self.used[usize::from(id.0)] = true;
        Some(id)
    }

    fn observed(&mut self, observed: &Observed) -> Option<Operand> {
        let name = &observed.name;
        let Some(number) = &observed.thread else {
            if let Some(&id) = self.index.get(&name.text) {
                self.used[usize::from(id.0)] = true;
                if let ObjectKind::Word { .. } = self.objects[usize::from(id.0)].kind {
                    return Some(Operand::Word(id));
                }
                let message = format!("`{}` has no last value that a condition could name", name.text);
                self.error(
                    Kind::WrongOperand,
                    &name.span,
                    message,
                    "only words have; read it into a register",
                );
                return None;
            }
            let owner = self.threads.iter().position(|t| t.registers.contains(&name.text));
            let help = match owner {
                Some(t) => format!("a register of thread P{t} is written `{t}:{}`", name.text),
                None => "conditions name registers (`0:a`) and words".to_owned(),
            };
            self.error(
                Kind::UnknownLocation,
                &name.span,
                format!("unknown word `{}`", name.text),
                help,
            );
            return None;
        };
        let Some(t) = usize::try_from(number.value)
            .ok()
            .filter(|&t| t < self.threads.len())
        else {
            self.no_thread(number);
            return None;
        };
        let registers = &self.threads[t].registers;
        if let Some(reg) = registers.iter().position(|r| *r == name.text) {
            return Some(Operand::Reg(ThreadId(t as u8), Reg(reg as u16)));
        }
        let help = match nearest(&name.text, registers.iter().map(String::as_str)) {
            Some(known) => format!("did you mean `{t}:{known}`?"),
            None => "a register is a name that its thread assigns".to_owned(),
        };
        let message = format!("thread P{t} has no register `{}`", name.text);
        self.error(Kind::UnknownRegister, &name.span, message, help);
        None
    }

    fn observe(&mut self, operand: Operand) {
        if let Operand::Word(word) = operand
            && !self.observed_words.contains(&word)
        {
            self.observed_words.push(word);
        }
    }

    fn query(&mut self, query: &syntax::Query<Value>) -> Option<Query> {
        let formula = self.formula(&query.formula);
        let mut expected = Expected::new();
        for (verdict, name) in &query.expected {
            let setting = match name.text.parse::<Setting>() {
                Ok(setting) => setting,
                Err(error) => {
                    let help = match nearest(&name.text, Setting::ALL.map(Setting::name)) {
                        Some(known) => format!("did you mean `{known}`?"),
                        None => "docs/clients.md says what each setting is".to_owned(),
                    };
                    self.error(Kind::UnknownModel, &name.span, error.to_string(), help);
                    continue;
                }
            };
            if expected
                .insert(setting, *verdict)
                .is_some_and(|old| old != *verdict)
            {
                let message = format!("`{setting}` has two different verdicts for one condition");
                self.error(Kind::BadExpectation, &name.span, message, "leave one out");
            }
        }
        let formula = formula?;
        formula.for_each_operand(&mut |operand| self.observe(operand));
        Some(Query {
            condition: Condition {
                quantifier: query.quantifier,
                formula,
            },
            expected,
        })
    }

    fn formula(&mut self, formula: &syntax::Formula<Value>) -> Option<Formula> {
        Some(match formula {
            syntax::Formula::Const(b) => Formula::Const(*b),
            syntax::Formula::Atom(operand, relation, value) => {
                Formula::Atom(self.observed(operand)?, *relation, value.clone())
            }
            syntax::Formula::Not(f) => Formula::Not(Box::new(self.formula(f)?)),
            syntax::Formula::And(fs) => Formula::And(self.formulas(fs)?),
            syntax::Formula::Or(fs) => Formula::Or(self.formulas(fs)?),
        })
    }

    fn formulas(&mut self, formulas: &[syntax::Formula<Value>]) -> Option<Vec<Formula>> {
        // Every part is visited, so that every mistake is reported.
        let parts: Vec<Option<Formula>> = formulas.iter().map(|f| self.formula(f)).collect();
        parts.into_iter().collect()
    }

    fn unused(&mut self) {
        for (at, used) in self.used.iter().enumerate() {
            if !used {
                let message = format!("`{}` is not used", self.objects[at].name);
                let diagnostic = Diagnostic::new(Kind::UnusedLocation, self.declared[at].clone(), message);
                self.diagnostics.push(diagnostic.help("leave it out"));
            }
        }
    }
}
