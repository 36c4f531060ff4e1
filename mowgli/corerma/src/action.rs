//! Actions, the parts of statements (coreRMA'16 section 4, Table 3).

use mowgli::program::{Expr, Loc, Node, Reg};

use crate::program::{Access, Program, Statement};

/// The type of an action (coreRMA'16 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `r`: local read.
    Read,
    /// `w`: local write.
    Write,
    /// `er`: external read.
    ExternalRead,
    /// `ew`: external write.
    ExternalWrite,
    /// `erw`: external read-write.
    ExternalReadWrite,
    /// `flush`.
    Flush,
}

impl Kind {
    /// Returns the paper's name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "r",
            Kind::Write => "w",
            Kind::ExternalRead => "er",
            Kind::ExternalWrite => "ew",
            Kind::ExternalReadWrite => "erw",
            Kind::Flush => "flush",
        }
    }
}

/// The use that an action makes of the values of its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads, and leaves the value to the actions that follow.
    Read,
    /// Reads into a register.
    ReadInto(Reg),
    /// Writes the value of an expression over registers.
    WriteExpr(Expr),
    /// Writes what another action of the statement read, counted from the statement's first.
    WriteOf(u8),
    /// Adds what the action before read.
    Accumulate,
    /// Compares with what the first action read, and writes what the second read.
    CompareAndSwap,
    /// Touches no memory.
    None,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Index of its process.
    pub process: u8,
    /// Index of its statement in the process.
    pub statement: u16,
    /// Index of the first action of its statement.
    pub first: u8,
    /// Its type.
    pub kind: Kind,
    /// The location that it reads or writes; an external read-write does both.
    pub loc: Option<Loc>,
    /// Whether its access is atomic.
    pub atomic: bool,
    /// The target, of a flush and of the one action of a remote statement that touches the target's memory (the set Remote
    /// of coreRMA'16 section 5.3).
    pub target: Option<Node>,
    /// Effect of the action.
    pub effect: Effect,
}

impl Action {
    /// Returns whether the action is a CPU's read or write.
    pub fn is_local(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Write)
    }

    /// Returns whether the action is in the set Remote.
    pub fn is_remote(&self) -> bool {
        self.target.is_some() && self.kind != Kind::Flush
    }

    /// Returns whether the action reads memory.
    pub fn reads(&self) -> bool {
        matches!(
            self.kind,
            Kind::Read | Kind::ExternalRead | Kind::ExternalReadWrite
        )
    }

    /// Returns whether the action writes memory.
    pub fn writes(&self) -> bool {
        matches!(
            self.kind,
            Kind::Write | Kind::ExternalWrite | Kind::ExternalReadWrite
        )
    }
}

/// The most actions that are examined.
pub const ACTIONS_MAX: usize = 64;

/// Lists the actions of a program, process by process in program order, which is total in each process.
pub fn actions(program: &Program) -> Vec<Action> {
    let mut out = Vec::new();
    for (process, code) in program.processes.iter().map(|p| &p.code).enumerate() {
        for (statement, of) in code.iter().enumerate() {
            push(&mut out, program, process as u8, statement as u16, of);
        }
    }
    out
}

fn push(out: &mut Vec<Action>, program: &Program, process: u8, statement: u16, of: &Statement) {
    let first = out.len() as u8;
    let mut add = |kind: Kind, access: Option<Access>, target: Option<Node>, effect: Effect| {
        out.push(Action {
            process,
            statement,
            first,
            kind,
            loc: access.map(|a| a.loc),
            atomic: access.is_some_and(|a| a.atomic),
            target,
            effect,
        });
    };
    let home = |access: &Access| Some(program.location(access.loc).node);
    match of {
        Statement::Read { reg, from } => add(Kind::Read, Some(*from), None, Effect::ReadInto(*reg)),
        Statement::Write { to, value } => add(Kind::Write, Some(*to), None, Effect::WriteExpr(value.clone())),
        Statement::Get { to, from } => {
            add(Kind::ExternalRead, Some(*from), home(from), Effect::Read);
            add(Kind::ExternalWrite, Some(*to), None, Effect::WriteOf(0));
        }
        Statement::Put { to, from } => {
            add(Kind::ExternalRead, Some(*from), None, Effect::Read);
            add(Kind::ExternalWrite, Some(*to), home(to), Effect::WriteOf(0));
        }
        Statement::Rga { to, target, addend } => {
            add(Kind::ExternalRead, Some(*addend), None, Effect::Read);
            add(
                Kind::ExternalReadWrite,
                Some(*target),
                home(target),
                Effect::Accumulate,
            );
            add(Kind::ExternalWrite, Some(*to), None, Effect::WriteOf(1));
        }
        Statement::Cas {
            to,
            target,
            expected,
            new,
        } => {
            add(Kind::ExternalRead, Some(*expected), None, Effect::Read);
            add(Kind::ExternalRead, Some(*new), None, Effect::Read);
            add(
                Kind::ExternalReadWrite,
                Some(*target),
                home(target),
                Effect::CompareAndSwap,
            );
            add(Kind::ExternalWrite, Some(*to), None, Effect::WriteOf(2));
        }
        Statement::Flush { node } => add(Kind::Flush, None, Some(*node), Effect::None),
    }
}
