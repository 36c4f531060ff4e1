//! Reads herd7's litmus tests for x86 as a [`Litmus`] on one node.
//!
//! herd7 has two forms. The header `X86` goes with `MOV [x],$1`, destination first; the header `X86_64` goes with `movl $1,(x)`,
//! destination last. `test` and `cell` are the grammar, on top of [`crate::syntax`]; `registers` has their names; `width` says for which
//! constants sizes make no difference; `code` translates the instructions, and this module gives names their meaning. What has no meaning
//! here is refused. Used by every command that takes tests; a test reads the tests in `benches/peers/x86`, another compares random tests
//! with an interpreter of x86.

mod cell;
mod code;
mod registers;
mod test;
mod width;

use std::collections::{BTreeMap, BTreeSet};

use crate::litmus::limits::LOCATIONS_MAX;
use crate::litmus::{Condition, Expected, Formula, Litmus, Operand, Quantifier, Query, Setting};
use crate::model::RmwAtomicity;
use crate::program::{Expr, Instr, Loc, Location, Node, Program, Reg, Thread, ThreadId, Value};
use crate::syntax::{Diagnostic, Formula as RawFormula, Kind, Name, Observed, ParseError, Span};

use cell::{Op, Operand as Place, Verb};
use registers::register;
use test::{Entry, Question, Test};
use width::{Width, Widths};

/// The two forms of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Header `X86`: `MOV [x],$1`.
    Intel,
    /// Header `X86_64`: `movl $1,(x)`.
    Att,
}

/// Returns whether the text's header is one that [`parse`] reads.
pub fn is_x86(source: &str) -> bool {
    test::form(source).is_some()
}

/// Parses a test. Every access is to a whole word; tests for which the sizes of accesses matter are refused. Locations that the init
/// block does not name start at 0, as in herd7. A `filter` becomes a part of each condition. A verdict that the test states for a model
/// of ours, as in `final (..) with tso: ~exists;`, is stated in the result.
///
/// # Errors
///
/// Returns every mistake found in the rows, or else the first one.
pub fn parse(source: &str) -> Result<Litmus, ParseError> {
    let one = |d: Diagnostic| ParseError { diagnostics: vec![d] };
    let test = test::test(source).map_err(ParseError::of)?;
    let mut reader = Reader::new(&test);
    reader.widths = widths(&test);
    reader.init(&test.init).map_err(one)?;
    let mut errors = Vec::new();
    for (thread, cells) in test.code.iter().enumerate() {
        let of_thread =
            |(at, register): &(usize, String), loc: &Loc| (*at == thread).then(|| (register.clone(), *loc));
        let addresses = reader.addresses.iter().filter_map(|(k, loc)| of_thread(k, loc));
        let addresses = addresses.collect();
        let (code, ends, wrong) = code::thread(&mut reader, thread, cells, addresses);
        reader.threads[thread].code.extend(code);
        reader
            .ends
            .extend(ends.into_iter().map(|register| (thread, register)));
        errors.extend(wrong);
    }
    if !errors.is_empty() {
        // In the order of the text.
        errors.sort_by_key(|d| d.span.start);
        return Err(ParseError { diagnostics: errors });
    }
    let (observed, queries) = reader.last(&test).map_err(one)?;
    Ok(Litmus {
        name: test.name,
        description: test.description,
        program: Program {
            nodes: 1,
            locations: reader.locations,
            threads: reader.threads,
        },
        observed,
        queries,
        stated: Vec::new(),
    })
}

/// Returns the sizes that the test uses, at least 32 bits in any test for X86, and what it adds. A condition uses a part of a register if
/// it gives it the name of that part in a test of larger sizes.
fn widths(test: &Test) -> Widths {
    let mut widths = Widths::default();
    if test.form == Form::Intel {
        widths.add(Width::Long);
    }
    for op in test.code.iter().flatten().filter_map(|cell| cell.op.as_ref()) {
        let Op::Two {
            verb, from, width, ..
        } = op
        else {
            continue;
        };
        widths.add(*width);
        match (verb, from) {
            (Verb::Add, Place::Constant(addend, _)) => widths.add_sum(*addend),
            (Verb::Subtract, Place::Constant(addend, _)) => widths.add_sum(addend.saturating_neg()),
            _ => {}
        }
    }
    for entry in &test.init {
        if let Entry::Location {
            width: Some(width), ..
        }
        | Entry::Register {
            width: Some(width), ..
        } = entry
        {
            widths.add(*width);
        }
    }
    let mut narrow = |observed: &Observed| {
        if observed.thread.is_some()
            && let Some((_, width)) = register(test.form, &observed.name.text)
            && width != Width::Quad
        {
            widths.add(width);
        }
    };
    test.observed.iter().for_each(&mut narrow);
    let formulas = test
        .questions
        .iter()
        .map(|q| &q.query.formula)
        .chain(&test.filter);
    formulas.for_each(|f| f.each_operand(&mut narrow));
    widths
}

/// The program under construction.
struct Reader {
    form: Form,
    widths: Widths,
    locations: Vec<Location>,
    threads: Vec<Thread>,
    /// Registers that start with the address of a location, by thread and name.
    addresses: BTreeMap<(usize, String), Loc>,
    /// Registers that may end with an address.
    ends: BTreeSet<(usize, String)>,
}

impl Reader {
    fn new(test: &Test) -> Reader {
        let thread = |t: usize| Thread {
            name: format!("P{t}"),
            node: Node(0),
            registers: Vec::new(),
            work_ids: Vec::new(),
            code: Vec::new(),
        };
        Reader {
            form: test.form,
            widths: Widths::default(),
            locations: Vec::new(),
            threads: (0..test.threads).map(thread).collect(),
            addresses: BTreeMap::new(),
            ends: BTreeSet::new(),
        }
    }

    fn init(&mut self, entries: &[Entry]) -> Result<(), Diagnostic> {
        let mut given = BTreeSet::new();
        let mut twice = |thread: Option<usize>, text: String, name: &Name| match given.insert((thread, text))
        {
            true => Ok(()),
            false => {
                let message = format!("`{}` has two values", name.text);
                Err(Diagnostic::new(Kind::Duplicate, name.span.clone(), message).help("remove one of them"))
            }
        };
        for entry in entries {
            match entry {
                Entry::Location { name, value, .. } => {
                    let loc = self.location(name)?;
                    if let Some(value) = value {
                        twice(None, name.text.clone(), name)?;
                        let value = self.widths.constant(*value, None, &name.span)?;
                        self.locations[usize::from(loc.0)].init = value;
                    }
                }
                Entry::Register {
                    thread, name, value, ..
                } => {
                    let reg = self.register(*thread, name)?;
                    let Some(value) = *value else { continue };
                    let (text, width) = self.canonical(name)?;
                    twice(Some(*thread), text, name)?;
                    let value = self.widths.constant(value, Some(width), &name.span)?;
                    // Registers of litmus programs start at 0.
                    if value != 0 {
                        let value = Expr::Const(value);
                        self.threads[*thread].code.push(Instr::Assign { reg, value });
                    }
                }
                Entry::Address { thread, name, target } => {
                    let loc = self.location(target)?;
                    self.check_thread(*thread, &name.span)?;
                    let (register, _) = self.canonical(name)?;
                    twice(Some(*thread), register.clone(), name)?;
                    self.addresses.insert((*thread, register), loc);
                }
            }
        }
        Ok(())
    }

    fn check_thread(&self, thread: usize, span: &Span) -> Result<(), Diagnostic> {
        if thread < self.threads.len() {
            return Ok(());
        }
        let last = self.threads.len().saturating_sub(1);
        let message = format!("there is no thread {thread}; the last one is {last}");
        Err(Diagnostic::new(Kind::OutOfRange, span.clone(), message))
    }

    fn location(&mut self, name: &Name) -> Result<Loc, Diagnostic> {
        if let Some(at) = self.locations.iter().position(|l| l.name == name.text) {
            return Ok(Loc(at as u16));
        }
        if self.locations.len() == LOCATIONS_MAX {
            let message = format!("more locations than LOCATIONS_MAX ({LOCATIONS_MAX})");
            return Err(Diagnostic::new(Kind::LimitExceeded, name.span.clone(), message));
        }
        if name.text.starts_with('%') {
            let message = format!("`{}` is no location", name.text);
            return Err(Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                .help("only registers have a `%`"));
        }
        self.locations.push(Location {
            name: name.text.clone(),
            node: Node(0),
            init: 0,
            relaxed: false,
        });
        // Bounded by LOCATIONS_MAX.
        Ok(Loc(self.locations.len() as u16 - 1))
    }

    /// Returns one name for all names of a register, `EAX` in tests for X86 and `rax` in those for X86_64, and the size that the name
    /// states.
    fn canonical(&self, name: &Name) -> Result<(String, Width), Diagnostic> {
        register(self.form, &name.text).ok_or_else(|| {
            let unknown =
                |message: String| Diagnostic::new(Kind::UnknownRegister, name.span.clone(), message);
            if registers::is_second_byte(&name.text) {
                return unknown(format!("`{}` is the second byte of a register", name.text))
                    .help("whole registers and their lower parts are read: use another register");
            }
            let example = match self.form {
                Form::Intel => "EAX, EBX, ECX, EDX, ESI, EDI, EBP, ESP, R8D to R15D",
                Form::Att => "%rax, %rbx, %rcx, %rdx, %rsi, %rdi, %rbp, %rsp, %r8 to %r15",
            };
            unknown(format!("there is no register `{}`", name.text))
                .help(format!("registers are {example}, and the names of their parts"))
        })
    }

    fn register(&mut self, thread: usize, name: &Name) -> Result<Reg, Diagnostic> {
        let (text, _) = self.canonical(name)?;
        self.check_thread(thread, &name.span)?;
        Ok(self.register_named(thread, &text))
    }

    /// Returns the register of a thread of the result that has this name.
    fn register_named(&mut self, thread: usize, text: &str) -> Reg {
        let registers = &mut self.threads[thread].registers;
        let at = registers.iter().position(|r| r == text).unwrap_or_else(|| {
            registers.push(text.to_owned());
            registers.len() - 1
        });
        // A machine has fewer registers than u16 has values.
        Reg(at as u16)
    }

    /// Reads the part after the rows.
    fn last(&mut self, last: &Test) -> Result<(Vec<Operand>, Vec<Query>), Diagnostic> {
        let observed = last.observed.iter().map(|o| self.observed(o));
        let observed = observed.collect::<Result<Vec<_>, _>>()?;
        let filter = last.filter.as_ref().map(|f| self.formula(f)).transpose()?;
        let mut queries = Vec::new();
        for Question { query, stated } in &last.questions {
            let quantifier = query.quantifier;
            let formula = self.formula(&query.formula)?;
            let formula = match (filter.clone(), quantifier) {
                (None, _) => formula,
                (Some(filter), Quantifier::Forall) => {
                    Formula::Or(vec![Formula::Not(Box::new(filter)), formula])
                }
                (Some(filter), _) => Formula::And(vec![filter, formula]),
            };
            let setting = |model| Setting {
                model,
                rmw: RmwAtomicity::Hca,
            };
            let expected = stated.iter().map(|(model, verdict)| (setting(*model), *verdict));
            queries.push(Query {
                condition: Condition { quantifier, formula },
                expected: expected.collect::<Expected>(),
            });
        }
        Ok((observed, queries))
    }

    fn observed(&mut self, observed: &Observed) -> Result<Operand, Diagnostic> {
        let name = &observed.name;
        let Some(number) = &observed.thread else {
            if register(self.form, &name.text).is_some() {
                let message = format!("`{}` is a register of no thread", name.text);
                return Err(Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                    .help(format!("name its thread: `0:{}`", name.text)));
            }
            return Ok(Operand::Loc(self.location(name)?));
        };
        let thread = usize::try_from(number.value).unwrap_or(usize::MAX);
        self.check_thread(thread, &number.span)?;
        let (register, _) = self.canonical(name)?;
        if self.ends.contains(&(thread, register)) {
            let message = format!("`{}` of P{thread} ends with an address", name.text);
            return Err(Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                .help("ask about a register that ends with a number"));
        }
        let reg = self.register(thread, name)?;
        // Bounded by THREADS_MAX.
        Ok(Operand::Reg(ThreadId(thread as u8), reg))
    }

    fn formula(&mut self, raw: &RawFormula<Value>) -> Result<Formula, Diagnostic> {
        let mut all =
            |fs: &[RawFormula<Value>]| fs.iter().map(|f| self.formula(f)).collect::<Result<Vec<_>, _>>();
        Ok(match raw {
            RawFormula::Const(b) => Formula::Const(*b),
            RawFormula::And(fs) => Formula::And(all(fs)?),
            RawFormula::Or(fs) => Formula::Or(all(fs)?),
            RawFormula::Not(f) => Formula::Not(Box::new(self.formula(f)?)),
            RawFormula::Atom(operand, relation, value) => {
                let width = operand.thread.as_ref().and_then(|_| {
                    let (_, width) = register(self.form, &operand.name.text)?;
                    Some(width)
                });
                let value = self.widths.constant(*value, width, &operand.name.span)?;
                Formula::Atom(self.observed(operand)?, *relation, value)
            }
        })
    }
}
