//! Reads herd7's litmus tests for x86: loads, stores and `mfence`, as a [`Litmus`] on one node.
//!
//! herd7 has two forms. The header `X86` goes with `MOV [x],$1`, destination first; the header `X86_64` goes with `movl $1,(x)`,
//! destination last. `test` and `cell` are the grammar, on top of [`crate::syntax`]; `width` says for which constants sizes make no
//! difference, and this module gives names their meaning. What has no meaning here is refused. Used by the command; a test reads the tests
//! in `benches/peers/x86`, another compares random tests with an interpreter of x86.

mod cell;
mod test;
mod width;

use std::collections::{BTreeMap, BTreeSet};

use crate::litmus::limits::LOCATIONS_MAX;
use crate::litmus::{Condition, Expected, Formula, Litmus, Operand, Quantifier, Query};
use crate::program::{Expr, Instr, Loc, Location, Node, Program, Reg, Thread, ThreadId, Value};
use crate::syntax::{Diagnostic, Formula as RawFormula, Kind, Name, Observed, ParseError, Span};

use cell::{Address, Cell, Operand as Place};
use test::{Entry, Test};
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
/// block does not name start at 0, as in herd7. A `filter` becomes a part of each condition.
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
    for (thread, cell) in &test.code {
        reader.instruction(*thread, cell.clone());
    }
    if !reader.errors.is_empty() {
        return Err(ParseError {
            diagnostics: reader.errors,
        });
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

/// Returns the sizes that the test uses; 32 bits in any test for X86. A condition uses 32 bits of a register that it gives a 32-bit name in a test of 64 bits.
fn widths(test: &Test) -> Widths {
    let mut widths = Widths::default();
    if test.form == Form::Intel {
        widths.add(Width::Long);
    }
    for (_, cell) in &test.code {
        if let Cell::Move { width, .. } = cell {
            widths.add(*width);
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
        let found = cell::register(test.form, &observed.name.text);
        if observed.thread.is_some() && found.is_some_and(|(_, width)| width == Width::Long) {
            widths.add(Width::Long);
        }
    };
    test.observed.iter().for_each(&mut narrow);
    let formulas = test.queries.iter().map(|q| &q.formula).chain(&test.filter);
    formulas.for_each(|f| f.each_operand(&mut narrow));
    widths
}

/// The program under construction.
struct Reader {
    form: Form,
    widths: Widths,
    locations: Vec<Location>,
    threads: Vec<Thread>,
    /// Registers that hold the address of a location at this point, by thread and name.
    addresses: BTreeMap<(usize, String), Loc>,
    errors: Vec<Diagnostic>,
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
            errors: Vec::new(),
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

    /// Returns one name for the 32-bit and the 64-bit name of a register, `EAX` in tests for X86 and `rax` in those for X86_64, and the
    /// size that the name states.
    fn canonical(&self, name: &Name) -> Result<(String, Width), Diagnostic> {
        cell::register(self.form, &name.text).ok_or_else(|| {
            let example = match self.form {
                Form::Intel => "EAX, EBX, ECX, EDX, ESI, EDI, EBP, ESP, R8D to R15D",
                Form::Att => "%rax, %rbx, %rcx, %rdx, %rsi, %rdi, %rbp, %rsp, %r8 to %r15",
            };
            Diagnostic::new(
                Kind::UnknownRegister,
                name.span.clone(),
                format!("there is no register `{}`", name.text),
            )
            .help(format!("registers are {example}, and their other width"))
        })
    }

    fn register(&mut self, thread: usize, name: &Name) -> Result<Reg, Diagnostic> {
        let (text, _) = self.canonical(name)?;
        self.check_thread(thread, &name.span)?;
        let registers = &mut self.threads[thread].registers;
        let at = registers.iter().position(|r| *r == text).unwrap_or_else(|| {
            registers.push(text);
            registers.len() - 1
        });
        // A machine has fewer registers than u16 has values.
        Ok(Reg(at as u16))
    }

    /// Adds an instruction, or keeps the mistake in it.
    fn instruction(&mut self, thread: usize, cell: Cell) {
        let instr = match cell {
            Cell::Mfence => Ok(Some(Instr::Mfence)),
            Cell::Move {
                to,
                from,
                width,
                span,
            } => self.moved(thread, to, from, width, &span),
        };
        match instr {
            Ok(instr) => self.threads[thread].code.extend(instr),
            Err(diagnostic) => self.errors.push(diagnostic),
        }
    }

    /// Translates a move; one of an address into a register is followed here and needs no instruction.
    fn moved(
        &mut self,
        thread: usize,
        to: Place,
        from: Place,
        width: Width,
        span: &Span,
    ) -> Result<Option<Instr>, Diagnostic> {
        let moved = self.held(thread, &from)?;
        match (to, from) {
            (Place::Register(reg), Place::Memory(address)) => {
                let loc = self.address(thread, address)?;
                self.forget(thread, &reg)?;
                let reg = self.register(thread, &reg)?;
                Ok(Some(Instr::Load { loc, reg }))
            }
            (Place::Register(reg), from) => {
                self.forget(thread, &reg)?;
                let Some(loc) = moved else {
                    let value = self.value(thread, from)?;
                    let reg = self.register(thread, &reg)?;
                    return Ok(Some(Instr::Assign { reg, value }));
                };
                if (self.form, width) == (Form::Att, Width::Long) {
                    return Err(Diagnostic::new(
                        Kind::WrongOperand,
                        span.clone(),
                        "this cuts an address in half",
                    )
                    .help("move addresses with movq and 64-bit registers"));
                }
                let (name, _) = self.canonical(&reg)?;
                self.addresses.insert((thread, name), loc);
                Ok(None)
            }
            (Place::Memory(_), _) if moved.is_some() => Err(Diagnostic::new(
                Kind::WrongOperand,
                span.clone(),
                "this stores an address",
            )
            .help("memory holds numbers only: store a constant or a register that holds a number")),
            (Place::Memory(address), from) => Ok(Some(Instr::Store {
                loc: self.address(thread, address)?,
                value: self.value(thread, from)?,
            })),
            (Place::Constant(_, span), _) => {
                Err(
                    Diagnostic::new(Kind::WrongOperand, span, "a constant cannot be the destination")
                        .help("the destination is a register or a location"),
                )
            }
        }
    }

    /// Returns the location whose address an operand holds.
    fn held(&self, thread: usize, from: &Place) -> Result<Option<Loc>, Diagnostic> {
        let Place::Register(name) = from else {
            return Ok(None);
        };
        let (register, _) = self.canonical(name)?;
        Ok(self.addresses.get(&(thread, register)).copied())
    }

    /// Notes that a register is overwritten.
    fn forget(&mut self, thread: usize, name: &Name) -> Result<(), Diagnostic> {
        let (register, _) = self.canonical(name)?;
        self.addresses.remove(&(thread, register));
        Ok(())
    }

    fn value(&mut self, thread: usize, from: Place) -> Result<Expr, Diagnostic> {
        match from {
            Place::Constant(value, span) => Ok(Expr::Const(self.widths.constant(value, None, &span)?)),
            Place::Register(name) => Ok(Expr::Reg(self.register(thread, &name)?)),
            Place::Memory(Address::Location(name) | Address::Register(name)) => Err(Diagnostic::new(
                Kind::WrongOperand,
                name.span,
                "an instruction cannot have two memory operands",
            )
            .help("load into a register first, then store the register")),
        }
    }

    fn address(&mut self, thread: usize, address: Address) -> Result<Loc, Diagnostic> {
        match address {
            Address::Location(name) => self.location(&name),
            Address::Register(name) => {
                let (register, width) = self.canonical(&name)?;
                if (self.form, width) == (Form::Att, Width::Long) {
                    let message = format!("`{}` is half of an address", name.text);
                    return Err(Diagnostic::new(Kind::WrongOperand, name.span, message)
                        .help(format!("write `(%{register})`")));
                }
                let known = self.addresses.get(&(thread, register)).copied();
                known.ok_or_else(|| {
                    let message = format!("register `{}` of P{thread} holds no address here", name.text);
                    Diagnostic::new(Kind::WrongOperand, name.span.clone(), message).help(format!(
                        "give it one in the init block, `{thread}:{}=x;`, and use it before it is overwritten",
                        name.text.trim_start_matches('%')
                    ))
                })
            }
        }
    }

    /// Reads the part after the rows.
    fn last(&mut self, last: &Test) -> Result<(Vec<Operand>, Vec<Query>), Diagnostic> {
        let observed = last.observed.iter().map(|o| self.observed(o));
        let observed = observed.collect::<Result<Vec<_>, _>>()?;
        let filter = last.filter.as_ref().map(|f| self.formula(f)).transpose()?;
        let mut queries = Vec::new();
        for query in &last.queries {
            let quantifier = query.quantifier;
            let formula = self.formula(&query.formula)?;
            let formula = match (filter.clone(), quantifier) {
                (None, _) => formula,
                (Some(filter), Quantifier::Forall) => {
                    Formula::Or(vec![Formula::Not(Box::new(filter)), formula])
                }
                (Some(filter), _) => Formula::And(vec![filter, formula]),
            };
            queries.push(Query {
                condition: Condition { quantifier, formula },
                expected: Expected::new(),
            });
        }
        Ok((observed, queries))
    }

    fn observed(&mut self, observed: &Observed) -> Result<Operand, Diagnostic> {
        let name = &observed.name;
        let Some(number) = &observed.thread else {
            if cell::register(self.form, &name.text).is_some() {
                let message = format!("`{}` is a register of no thread", name.text);
                return Err(Diagnostic::new(Kind::WrongOperand, name.span.clone(), message)
                    .help(format!("name its thread: `0:{}`", name.text)));
            }
            return Ok(Operand::Loc(self.location(name)?));
        };
        let thread = usize::try_from(number.value).unwrap_or(usize::MAX);
        self.check_thread(thread, &number.span)?;
        let (register, _) = self.canonical(name)?;
        if self.addresses.contains_key(&(thread, register)) {
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
                    let (_, width) = cell::register(self.form, &operand.name.text)?;
                    Some(width)
                });
                let value = self.widths.constant(*value, width, &operand.name.span)?;
                Formula::Atom(self.observed(operand)?, *relation, value)
            }
        })
    }
}
