//! Prints tests as text. `parse(litmus.print())` gives back the same test if the test has the form that the parser makes.

use std::fmt::Write;

use mowgli::litmus::{Verdict, fingerprint_of};
use mowgli::program::{BinaryOp, Expr, Reg, UnaryOp};

use super::parse::DIALECT;
use super::{Litmus, Query};
use crate::program::{Access, Process, Program, Statement};

impl Litmus {
    /// Returns the test as text.
    pub fn print(&self) -> String {
        let mut out = format!("{DIALECT} {}\n", self.name);
        if let Some(description) = &self.description {
            let escaped = description.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(out, "\"{escaped}\"");
        }
        out.push_str(&program(&self.program));
        if !self.observed.is_empty() {
            let names = self
                .observed
                .iter()
                .map(|o| format!("{};", o.display(&self.program)));
            let _ = writeln!(out, "locations [{}]", names.collect::<Vec<_>>().join(" "));
        }
        for query in &self.queries {
            self.print_query(&mut out, query);
        }
        out
    }

    fn print_query(&self, out: &mut String, query: &Query) {
        let _ = writeln!(out, "\n{}", query.condition.display(&self.program));
        for verdict in Verdict::ALL {
            let stated = query.expected.iter().filter(|(_, v)| **v == verdict);
            let models: Vec<String> = stated.map(|(model, _)| format!("{model};")).collect();
            if !models.is_empty() {
                let _ = writeln!(out, "{verdict} [{}]", models.join(" "));
            }
        }
    }

    /// Computes a fingerprint of the program and its conditions: 128 bits in hexadecimal, as for tests of RDMA.
    pub fn fingerprint(&self) -> String {
        let mut text = program(&self.program);
        for query in &self.queries {
            text.push_str(&query.condition.display(&self.program));
        }
        fingerprint_of(&text)
    }
}

/// Prints init block, columns and rows.
pub fn program(program: &Program) -> String {
    let mut out = String::from("{");
    for location in &program.locations {
        let _ = write!(out, " {}@{}={};", location.name, location.node, location.init);
    }
    for (at, process) in program.processes.iter().enumerate() {
        if !registers_follow_the_text(process) {
            for register in &process.registers {
                let _ = write!(out, " {at}:{register};");
            }
        }
    }
    out.push_str(" }\n");
    let columns: Vec<Vec<String>> = program
        .processes
        .iter()
        .enumerate()
        .map(|(at, process)| {
            let mut cells = vec![format!("P{at}@{}", process.node)];
            cells.extend(process.code.iter().map(|s| statement(program, process, s)));
            cells
        })
        .collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|c| c.iter().map(String::len).max().unwrap_or(0))
        .collect();
    for row in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
        let cells: Vec<String> = columns
            .iter()
            .zip(&widths)
            .map(|(column, &width)| format!("{:width$}", column.get(row).map_or("", String::as_str)))
            .collect();
        let _ = writeln!(out, " {} ;", cells.join(" | "));
    }
    out
}

/// Prints a statement.
pub fn statement(program: &Program, process: &Process, statement: &Statement) -> String {
    let name = |access: &Access| program.location(access.loc).name.as_str();
    let suffix = |access: &Access| if access.atomic { "" } else { ".n" };
    let local = |access: &Access| format!("{}{}", name(access), suffix(access));
    let remote = |access: &Access| {
        let node = program.location(access.loc).node;
        format!("{}^{node}{}", name(access), suffix(access))
    };
    match statement {
        Statement::Read { reg, from } => format!("{} := {}", register(process, *reg), local(from)),
        Statement::Write { to, value } => format!("{} := {}", local(to), expr(process, value)),
        Statement::Get { to, from } => format!("{} := get({})", local(to), remote(from)),
        Statement::Put { to, from } => format!("put({}, {})", remote(to), local(from)),
        Statement::Rga { to, target, addend } => {
            format!("{} := rga({}, {})", local(to), remote(target), local(addend))
        }
        Statement::Cas {
            to,
            target,
            expected,
            new,
        } => format!(
            "{} := cas({}, {}, {})",
            local(to),
            remote(target),
            local(expected),
            local(new)
        ),
        Statement::Flush { node } => format!("flush({node})"),
    }
}

fn register(process: &Process, reg: Reg) -> &str {
    process
        .registers
        .get(usize::from(reg.0))
        .map_or("?", String::as_str)
}

fn expr(process: &Process, of: &Expr) -> String {
    let operand = |e: &Expr| match e {
        Expr::Binary(..) => format!("({})", expr(process, e)),
        _ => expr(process, e),
    };
    match of {
        Expr::Const(n) => n.to_string(),
        Expr::Reg(reg) => register(process, *reg).to_owned(),
        // Parentheses keep `-(1)` apart from the constant `-1`.
        Expr::Unary(UnaryOp::Neg, e) => format!("-({})", expr(process, e)),
        Expr::Unary(UnaryOp::Not, e) => format!("!({})", expr(process, e)),
        Expr::Binary(op, a, b) => format!("{} {} {}", operand(a), symbol(*op), operand(b)),
    }
}

const fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
    }
}

/// Returns whether the resolver would number the registers as they are: by their first assignment, none read before it.
fn registers_follow_the_text(process: &Process) -> bool {
    fn known(e: &Expr, seen: usize) -> bool {
        match e {
            Expr::Const(_) => true,
            Expr::Reg(reg) => usize::from(reg.0) < seen,
            Expr::Unary(_, e) => known(e, seen),
            Expr::Binary(_, a, b) => known(a, seen) && known(b, seen),
        }
    }
    let mut seen = 0;
    let follows = process.code.iter().all(|statement| match statement {
        Statement::Read { reg, .. } => {
            let index = usize::from(reg.0);
            seen += usize::from(index == seen);
            index < seen
        }
        Statement::Write { value, .. } => known(value, seen),
        _ => true,
    });
    follows && seen == process.registers.len()
}
