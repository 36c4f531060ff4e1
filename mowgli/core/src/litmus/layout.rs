//! Prints what tests of every dialect share: the init block, the rows, and expressions.
//!
//! Used by the printers of tests of RDMA (`print`) and of coreRMA (in `mowgli-corerma`).

use std::fmt::Write;

use crate::program::{Expr, Location, Reg, UnaryOp};

/// A column of the text: a thread.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    /// The cells from the top: `P0@1`, then one an instruction.
    pub cells: Vec<String>,
    /// The thread's registers.
    pub registers: &'a [String],
    /// Whether the resolver would number the registers as they are: see [`Assigned`]. Otherwise the init block declares them.
    pub registers_follow: bool,
}

/// Prints init block, columns and rows.
pub fn program(locations: &[Location], columns: &[Column<'_>]) -> String {
    let mut out = String::from("{");
    for location in locations.iter().filter(|l| !l.is_queue_entry()) {
        let relaxed = if location.relaxed { "relaxed " } else { "" };
        let _ = write!(
            out,
            " {relaxed}{}@{}={};",
            location.name, location.node, location.init
        );
    }
    for (at, column) in columns.iter().enumerate().filter(|(_, c)| !c.registers_follow) {
        for register in column.registers {
            let _ = write!(out, " {at}:{register};");
        }
    }
    out.push_str(" }\n");
    let widths: Vec<usize> = columns
        .iter()
        .map(|c| c.cells.iter().map(String::len).max().unwrap_or(0))
        .collect();
    for row in 0..columns.iter().map(|c| c.cells.len()).max().unwrap_or(0) {
        let cells: Vec<String> = columns
            .iter()
            .zip(&widths)
            .map(|(column, &width)| {
                let cell = column.cells.get(row).map_or("", String::as_str);
                format!("{cell:width$}")
            })
            .collect();
        let _ = writeln!(out, " {} ;", cells.join(" | "));
    }
    out
}

/// Returns the name of a register.
pub fn register(registers: &[String], reg: Reg) -> &str {
    registers.get(usize::from(reg.0)).map_or("?", String::as_str)
}

/// Prints an expression over registers of these names.
pub fn expr(registers: &[String], of: &Expr) -> String {
    let operand = |e: &Expr| match e {
        Expr::Binary(..) => format!("({})", expr(registers, e)),
        _ => expr(registers, e),
    };
    match of {
        Expr::Const(n) => n.to_string(),
        Expr::Reg(reg) => register(registers, *reg).to_owned(),
        // Parentheses keep `-(1)` apart from the constant `-1`.
        Expr::Unary(UnaryOp::Neg, e) => format!("-({})", expr(registers, e)),
        Expr::Unary(UnaryOp::Not, e) => format!("!({})", expr(registers, e)),
        Expr::Binary(op, a, b) => format!("{} {} {}", operand(a), op.symbol(), operand(b)),
    }
}

/// Counts the registers that a text has assigned so far, in the order in which the resolver numbers them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assigned(usize);

impl Assigned {
    /// Assigns a register. Returns whether it has been assigned before or is the next one.
    pub fn assign(&mut self, reg: Reg) -> bool {
        let index = usize::from(reg.0);
        self.0 += usize::from(index == self.0);
        index < self.0
    }

    /// Returns whether every register of the expression has been assigned.
    pub fn has(self, of: &Expr) -> bool {
        match of {
            Expr::Const(_) => true,
            Expr::Reg(reg) => usize::from(reg.0) < self.0,
            Expr::Unary(_, e) => self.has(e),
            Expr::Binary(_, a, b) => self.has(a) && self.has(b),
        }
    }

    /// Returns whether so many registers have been assigned.
    pub fn is_all(self, count: usize) -> bool {
        self.0 == count
    }
}
