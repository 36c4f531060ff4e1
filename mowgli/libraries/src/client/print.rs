//! Prints clients in the form that [`parse`](super::parse) reads.

use std::fmt::Write as _;

use super::condition::{Formula, Operand};
use super::{Arg, Call, Client, Expr, Node, NodeSet, ObjectKind, Relation, Stmt, Thread, ThreadId, UnaryOp};
use crate::value::Value;

impl Client {
    /// Returns the client's text. Parsing it gives an equal client.
    pub fn print(&self) -> String {
        let mut out = format!("RDMA {}\n", self.name);
        if let Some(text) = &self.description {
            let _ = writeln!(out, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        }
        self.print_init(&mut out);
        self.print_objects(&mut out);
        self.print_rows(&mut out);
        self.print_queries(&mut out);
        out
    }

    fn print_init(&self, out: &mut String) {
        out.push('{');
        for object in &self.objects {
            if let ObjectKind::Word { node, init } = object.kind {
                let _ = write!(out, " {}@{node}={init};", object.name);
            }
        }
        for (t, thread) in self.threads.iter().enumerate() {
            // Registers get their numbers by order of assignment. Registers in another order or without an
            // assignment are declared.
            let mut assigned = Vec::new();
            assigned_registers(&thread.body, &mut assigned);
            let natural = assigned
                .iter()
                .map(|r| usize::from(r.0))
                .eq(0..thread.registers.len());
            if !natural {
                for name in &thread.registers {
                    let _ = write!(out, " {t}:{name};");
                }
            }
        }
        out.push_str(" }\n");
    }

    fn print_objects(&self, out: &mut String) {
        let mut entries = Vec::new();
        for object in &self.objects {
            let Some(keyword) = object.kind.library().keyword() else {
                continue;
            };
            let rest = match &object.kind {
                ObjectKind::Word { .. }
                | ObjectKind::SharedVariable
                | ObjectKind::Sst
                | ObjectKind::Store => String::new(),
                ObjectKind::Barrier { participants } => format!(": {}", names(participants)),
                ObjectKind::Ring {
                    writer,
                    readers,
                    size,
                } => {
                    format!(": P{} -> {} size {size}", writer.0, names(readers))
                }
                ObjectKind::MixedSize { node, size } | ObjectKind::Queue { node, size } => {
                    format!("@{node} size {size}")
                }
                ObjectKind::MixedVariable { size } => format!(" size {size}"),
                ObjectKind::Owned { owner } => format!("@{owner}"),
                ObjectKind::Atomic { node, init } => format!("@{node}={init}"),
                ObjectKind::Lock { node } => format!("@{node}"),
            };
            entries.push(format!("{keyword} {}{rest};", object.name));
        }
        let mentioned = self.threads.iter().map(|t| t.node.0 + 1).max().unwrap_or(1);
        if self.nodes > mentioned {
            entries.push(format!("nodes {};", self.nodes));
        }
        if !entries.is_empty() {
            let _ = writeln!(out, "objects {{ {} }}", entries.join(" "));
        }
    }

    fn print_rows(&self, out: &mut String) {
        let height = self.threads.iter().map(|t| t.body.len()).max().unwrap_or(0);
        let columns: Vec<Vec<String>> = self
            .threads
            .iter()
            .enumerate()
            .map(|(t, thread)| {
                let mut cells = vec![format!("P{t}@{}", thread.node)];
                cells.extend(thread.body.iter().map(|s| self.stmt(thread, s)));
                cells.resize(height + 1, String::new());
                cells
            })
            .collect();
        let widths: Vec<usize> = columns
            .iter()
            .map(|c| c.iter().map(String::len).max().unwrap_or(0))
            .collect();
        for row in 0..=height {
            let cells: Vec<String> = columns
                .iter()
                .zip(&widths)
                .map(|(column, &width)| format!(" {:width$} ", column[row]))
                .collect();
            let _ = writeln!(out, "{};", cells.join("|"));
        }
    }

    fn print_queries(&self, out: &mut String) {
        let named: Vec<_> = self.named_words().collect();
        let unnamed: Vec<_> = self
            .observed_words
            .iter()
            .filter(|w| !named.contains(w))
            .collect();
        if !unnamed.is_empty() {
            let words: Vec<_> = unnamed
                .iter()
                .map(|&&w| format!("{};", self.object(w).name))
                .collect();
            let _ = writeln!(out, "\nlocations [{}]", words.join(" "));
        }
        for query in &self.queries {
            let condition = &query.condition;
            let _ = writeln!(
                out,
                "\n{} ({})",
                condition.quantifier.keyword(),
                self.formula(&condition.formula)
            );
            for verdict in mowgli::litmus::Verdict::ALL {
                let of: Vec<_> = query.expected.iter().filter(|&(_, v)| *v == verdict).collect();
                if !of.is_empty() {
                    let settings: Vec<_> = of.iter().map(|(s, _)| format!("{s};")).collect();
                    let _ = writeln!(out, "{verdict} [{}]", settings.join(" "));
                }
            }
        }
    }

    fn named_words(&self) -> impl Iterator<Item = super::ObjectId> {
        let mut out = Vec::new();
        for query in &self.queries {
            query.condition.formula.for_each_operand(&mut |operand| {
                if let Operand::Word(word) = operand {
                    out.push(word);
                }
            });
        }
        out.into_iter()
    }

    fn stmt(&self, thread: &Thread, stmt: &Stmt) -> String {
        let block = |body: &[Stmt]| {
            let stmts: Vec<_> = body.iter().map(|s| self.stmt(thread, s)).collect();
            format!("{{ {} }}", stmts.join("; "))
        };
        match stmt {
            Stmt::Call { result, call } => match result {
                Some(reg) => format!("{} := {}", register(thread, reg.0), self.call(thread, call)),
                None => self.call(thread, call),
            },
            Stmt::Assign { reg, value } => format!("{} := {}", register(thread, reg.0), expr(thread, value)),
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = expr(thread, cond);
                match otherwise.as_slice() {
                    [] => format!("if ({cond}) {}", block(then)),
                    _ => format!("if ({cond}) {} else {}", block(then), block(otherwise)),
                }
            }
            Stmt::Loop(body) => format!("loop {}", block(body)),
            Stmt::Break(1) => "break".to_owned(),
            Stmt::Break(levels) => format!("break {levels}"),
        }
    }

    /// Returns a call of `thread` as its text has it.
    pub fn call(&self, thread: &Thread, call: &Call) -> String {
        let args: Vec<_> = call
            .args
            .iter()
            .map(|arg| match arg {
                Arg::Object(object) => self.object(*object).name.clone(),
                Arg::Value(value) => expr(thread, value),
                Arg::Work(work) => {
                    let name = thread.work_ids.get(usize::from(work.0));
                    name.map_or("_", String::as_str).to_owned()
                }
                Arg::Node(node) => node.to_string(),
                Arg::Nodes(nodes) => node_set(*nodes),
            })
            .collect();
        format!("{}({})", call.method.name(), args.join(", "))
    }

    /// Returns a formula as the client's text has it.
    pub fn formula(&self, formula: &Formula) -> String {
        let group = |f: &Formula| match f {
            Formula::And(_) | Formula::Or(_) => format!("({})", self.formula(f)),
            _ => self.formula(f),
        };
        let join = |fs: &[Formula], with: &str| fs.iter().map(group).collect::<Vec<_>>().join(with);
        match formula {
            Formula::Const(b) => b.to_string(),
            Formula::Atom(operand, relation, value) => {
                let symbol = match relation {
                    Relation::Eq => "=",
                    Relation::Ne => "!=",
                };
                format!("{}{symbol}{value}", self.operand(*operand))
            }
            Formula::Not(f) => format!("~{}", group(f)),
            Formula::And(fs) => join(fs, " /\\ "),
            Formula::Or(fs) => join(fs, " \\/ "),
        }
    }

    /// Prints an operand: `0:a` or `[x]`.
    pub fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Reg(thread, reg) => {
                let of = &self.threads[usize::from(thread.0)];
                format!("{}:{}", thread.0, register(of, reg.0))
            }
            Operand::Word(word) => format!("[{}]", self.object(word).name),
        }
    }
}

fn assigned_registers(body: &[Stmt], out: &mut Vec<super::Reg>) {
    for stmt in body {
        match stmt {
            Stmt::Call {
                result: Some(reg), ..
            }
            | Stmt::Assign { reg, .. } => {
                if !out.contains(reg) {
                    out.push(*reg);
                }
            }
            Stmt::Call { .. } | Stmt::Break(_) => {}
            Stmt::If { then, otherwise, .. } => {
                assigned_registers(then, out);
                assigned_registers(otherwise, out);
            }
            Stmt::Loop(body) => assigned_registers(body, out),
        }
    }
}

fn names(threads: &[ThreadId]) -> String {
    let names: Vec<_> = threads.iter().map(|t| format!("P{}", t.0)).collect();
    names.join(", ")
}

/// Prints a set of nodes: `{1, 2}`.
pub(crate) fn node_set(nodes: NodeSet) -> String {
    let names: Vec<_> = nodes.iter().map(|n: Node| n.to_string()).collect();
    format!("{{{}}}", names.join(", "))
}

fn register(thread: &Thread, reg: u16) -> &str {
    thread.registers.get(usize::from(reg)).map_or("?", String::as_str)
}

fn expr(thread: &Thread, e: &Expr) -> String {
    let group = |e: &Expr| match e {
        Expr::Binary(..) => format!("({})", expr(thread, e)),
        Expr::Const(Value::Int(n)) if *n < 0 => format!("({n})"),
        _ => expr(thread, e),
    };
    match e {
        Expr::Const(value) => value.to_string(),
        Expr::Reg(reg) => register(thread, reg.0).to_owned(),
        Expr::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(|p| expr(thread, p)).collect();
            format!("[{}]", parts.join(", "))
        }
        Expr::Unary(UnaryOp::Neg, a) => format!("-{}", group(a)),
        Expr::Unary(UnaryOp::Not, a) => format!("!{}", group(a)),
        Expr::Binary(op, a, b) => format!("{} {} {}", group(a), op.symbol(), group(b)),
    }
}
