//! Turns the syntax tree into a [`Program`]: resolves names to indices and checks where locations are placed.
//!
//! The rules of placement (RDMA-TSO'24 section 2): a CPU instruction touches locations of its thread's own node. A put reads, and a
//! get writes, a location of that node; the location on the other side is written with its node, `x^2`. The results of gets and
//! remote read-modify-writes go to memory, never to a register.

use super::ast;
use super::resolve_code::ThreadScope;
use super::statement::{self, Statement};
use super::symbols::{Globals, Registers, node, too_many_registers};
use super::{Litmus, Query, lint, messages};
use crate::condition::{Condition, Expected, Operand, Setting};
use crate::model::{Model, RmwAtomicity};
use crate::program::{Loc, Location, Node, Program, Reg, Thread, ThreadId};
use crate::syntax::limits::LOCATIONS_MAX;
use crate::syntax::{self, Diagnostic, Init, Kind, Name, Number, Observed, nearest};

/// Resolves a file. Returns the test and its warnings, or all errors.
pub(super) fn resolve(file: &ast::File) -> Result<(Litmus, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut resolver = Resolver::default();
    let litmus = resolver.file(file);
    if resolver
        .diagnostics
        .iter()
        .any(|d| d.kind.severity() == super::Severity::Error)
    {
        return Err(resolver.diagnostics);
    }
    lint::lint(file, &litmus, &resolver.globals, &mut resolver.diagnostics);
    Ok((litmus, resolver.diagnostics))
}

#[derive(Default)]
struct Resolver {
    globals: Globals,
    diagnostics: Vec<Diagnostic>,
}

impl Resolver {
    fn file(&mut self, file: &ast::File) -> Litmus {
        for entry in &file.init {
            if let Init::Location {
                name,
                node,
                value,
                relaxed,
            } = entry
            {
                self.location(name, node, *value, *relaxed);
            }
        }
        let nodes: Vec<Node> = file.columns.iter().map(|c| self.node(&c.node)).collect();
        let mut registers = self.registers(file);
        self.globals.queues = messages::find(file, &nodes, &mut self.globals, &mut self.diagnostics);
        let mut threads: Vec<Thread> = Vec::new();
        for (t, column) in file.columns.iter().enumerate() {
            let own = std::mem::take(&mut registers[t]);
            let mut scope = ThreadScope::new(
                &mut self.globals,
                &mut self.diagnostics,
                (t, nodes[t]),
                column,
                own,
            );
            let cells = file
                .rows
                .iter()
                .filter_map(|row| row.cells.get(t).and_then(Option::as_ref));
            let code = cells
                .flat_map(ast::Stmt::each)
                .filter_map(|stmt| scope.stmt(stmt))
                .collect();
            let (own, work_ids) = scope.finish();
            registers[t] = own;
            let registers = registers[t].names.clone();
            threads.push(Thread {
                name: column.name.text.clone(),
                node: nodes[t],
                registers,
                work_ids,
                code,
            });
        }
        let observed = file
            .observed
            .iter()
            .filter_map(|o| self.operand(o, &threads))
            .collect();
        let queries = file
            .queries
            .iter()
            .filter_map(|q| self.query(q, &threads))
            .collect();
        let stated = self.statements(&file.statements);
        let program = Program {
            nodes: self.globals.nodes,
            locations: self.globals.locations.clone(),
            threads,
        };
        Litmus {
            name: file.name.clone(),
            description: file.description.clone(),
            program,
            observed,
            queries,
            stated,
        }
    }

    fn statements(&mut self, statements: &[ast::Statement]) -> Vec<Statement> {
        let resolved = statements.iter().filter_map(|s| {
            let statement = Statement {
                property: s.property,
                setting: self.setting(&s.setting)?,
                holds: s.holds,
            };
            Some((statement, s.setting.span.clone()))
        });
        let resolved = resolved.collect();
        statement::checked(resolved, &mut self.diagnostics)
    }

    fn location(&mut self, name: &Name, node: &Number, value: Option<i64>, relaxed: bool) {
        let node = self.node(node);
        if let Some(&first) = self.globals.index.get(&name.text) {
            let message = format!("location `{}` is placed twice", name.text);
            let first = self.globals.declaration(first).span.clone();
            self.diagnostics.push(
                Diagnostic::new(Kind::Duplicate, name.span.clone(), message)
                    .related(first, "first placed here")
                    .help("nodes do not share names: rename one of the two"),
            );
            return;
        }
        if self.globals.locations.len() == LOCATIONS_MAX {
            let message = format!("more locations than LOCATIONS_MAX ({LOCATIONS_MAX})");
            self.diagnostics
                .push(Diagnostic::new(Kind::LimitExceeded, name.span.clone(), message));
            return;
        }
        if value.is_none() {
            let message = format!("location `{}` has no initial value; 0 is assumed", name.text);
            self.diagnostics.push(
                Diagnostic::new(Kind::UninitialisedLocation, name.span.clone(), message).help(format!(
                    "write `{}@{}=0;`",
                    name.text,
                    node.0 + 1
                )),
            );
        }
        // The number of locations is at most LOCATIONS_MAX, far below u16::MAX.
        let loc = Loc(self.globals.locations.len() as u16);
        self.globals.index.insert(name.text.clone(), loc);
        self.globals.declared.push(name.clone());
        let (name, init) = (name.text.clone(), value.unwrap_or(0));
        self.globals.locations.push(Location {
            name,
            node,
            init,
            relaxed,
        });
    }

    /// Registers declared in the init block, by thread.
    fn registers(&mut self, file: &ast::File) -> Vec<Registers> {
        let mut out: Vec<Registers> = file.columns.iter().map(|_| Registers::default()).collect();
        for entry in &file.init {
            let Init::Register { thread, name } = entry else {
                continue;
            };
            let Some(registers) = usize::try_from(thread.value).ok().and_then(|t| out.get_mut(t)) else {
                self.diagnostics.push(no_thread(thread, file.columns.len()));
                continue;
            };
            if self.globals.index.contains_key(&name.text) {
                let message = format!("`{}` is both a location and a register", name.text);
                self.diagnostics
                    .push(Diagnostic::new(Kind::Duplicate, name.span.clone(), message));
            } else if registers.add(name).is_err() {
                self.diagnostics.push(too_many_registers(name));
            }
        }
        out
    }

    fn node(&mut self, number: &Number) -> Node {
        node(number, &mut self.globals, &mut self.diagnostics)
    }

    fn query(&mut self, query: &syntax::Query, threads: &[Thread]) -> Option<Query> {
        let formula = query
            .formula
            .resolve(&mut |observed| self.operand(observed, threads));
        let mut expected = Expected::new();
        for (verdict, name) in &query.expected {
            let Some(setting) = self.setting(name) else {
                continue;
            };
            if expected
                .insert(setting, *verdict)
                .is_some_and(|old| old != *verdict)
            {
                let message = format!("`{setting}` has two different verdicts for one condition");
                self.diagnostics
                    .push(Diagnostic::new(Kind::BadExpectation, name.span.clone(), message));
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

    fn setting(&mut self, name: &Name) -> Option<Setting> {
        let (model, rmw) = name.text.split_once('/').unwrap_or((&name.text, "hca"));
        match (model.parse::<Model>(), rmw.parse::<RmwAtomicity>()) {
            (Ok(model), Ok(rmw)) => return Some(Setting { model, rmw }),
            (Err(error), _) => {
                let known = nearest(model, Model::every().map(Model::name));
                let diagnostic = Diagnostic::new(Kind::UnknownModel, name.span.clone(), error.to_string());
                self.diagnostics.push(match known {
                    Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
                    None => diagnostic,
                });
            }
            (Ok(_), Err(error)) => {
                self.diagnostics.push(
                    Diagnostic::new(Kind::UnknownModel, name.span.clone(), error.to_string())
                        .help("after the model stands the atomicity of remote read-modify-writes, as in `rdma-tso/glob`"),
                );
            }
        }
        None
    }

    fn operand(&mut self, observed: &Observed, threads: &[Thread]) -> Option<Operand> {
        let name = &observed.name;
        let diagnostic = match &observed.thread {
            Some(number) => {
                let index = usize::try_from(number.value).ok().filter(|&t| t < threads.len());
                let Some((t, thread)) = index.and_then(|t| Some((t, threads.get(t)?))) else {
                    self.diagnostics.push(no_thread(number, threads.len()));
                    return None;
                };
                if let Some(r) = thread.registers.iter().position(|r| *r == name.text) {
                    // Threads and registers are bounded by THREADS_MAX and REGISTERS_MAX.
                    return Some(Operand::Reg(ThreadId(t as u8), Reg(r as u16)));
                }
                let message = format!("thread {} has no register `{}`", thread.name, name.text);
                let diagnostic = Diagnostic::new(Kind::UnknownRegister, name.span.clone(), message);
                let known = nearest(&name.text, thread.registers.iter().map(String::as_str));
                if self.globals.index.contains_key(&name.text) {
                    diagnostic.help(format!(
                        "`{0}` is a location: write `{0}` without the thread",
                        name.text
                    ))
                } else if let Some(known) = known {
                    diagnostic.help(format!("did you mean `{t}:{known}`?"))
                } else {
                    diagnostic
                }
            }
            None => {
                if let Some(&loc) = self.globals.index.get(&name.text) {
                    return Some(Operand::Loc(loc));
                }
                let message = format!("unknown location `{}`", name.text);
                let diagnostic = Diagnostic::new(Kind::UnknownLocation, name.span.clone(), message);
                let owner = threads.iter().position(|t| t.registers.contains(&name.text));
                let known = nearest(&name.text, self.globals.index.keys().map(String::as_str));
                match (owner, known) {
                    (Some(t), _) => diagnostic.help(format!(
                        "a register of thread P{t} is written `{t}:{}`",
                        name.text
                    )),
                    (None, Some(known)) => diagnostic.help(format!("did you mean `{known}`?")),
                    (None, None) => diagnostic,
                }
            }
        };
        self.diagnostics.push(diagnostic);
        None
    }
}

fn no_thread(number: &Number, threads: usize) -> Diagnostic {
    let message = format!(
        "there is no thread {}; the last one is {}",
        number.value,
        threads.saturating_sub(1)
    );
    Diagnostic::new(Kind::OutOfRange, number.span.clone(), message)
}
