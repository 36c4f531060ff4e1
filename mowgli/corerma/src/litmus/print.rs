//! Prints programs and statements as text. The parser gives back the same program if it has the form that the parser makes.

use mowgli::litmus::layout::{self, Assigned, Column};

use crate::program::{Access, Process, Program, Statement};

/// Prints init block, columns and rows.
pub fn program(program: &Program) -> String {
    let column = |(at, process): (usize, &Process)| {
        let mut cells = vec![format!("P{at}@{}", process.node)];
        cells.extend(process.code.iter().map(|s| statement(program, process, s)));
        Column {
            cells,
            registers: &program.processes[at].registers,
            registers_follow: registers_follow_the_text(process),
        }
    };
    let columns: Vec<Column<'_>> = program.processes.iter().enumerate().map(column).collect();
    layout::program(&program.locations, &columns)
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
        Statement::Read { reg, from } => {
            let register = layout::register(&process.registers, *reg);
            format!("{register} := {}", local(from))
        }
        Statement::Write { to, value } => {
            format!("{} := {}", local(to), layout::expr(&process.registers, value))
        }
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

/// Returns whether the resolver would number the registers as they are: by their first assignment, none read before it.
fn registers_follow_the_text(process: &Process) -> bool {
    let mut seen = Assigned::default();
    let follows = process.code.iter().all(|statement| match statement {
        Statement::Read { reg, .. } => seen.assign(*reg),
        Statement::Write { value, .. } => seen.has(value),
        _ => true,
    });
    follows && seen.is_all(process.registers.len())
}
