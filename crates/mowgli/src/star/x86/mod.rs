//! Reads herd7's litmus tests for x86: loads, stores and `mfence`, as a [`Litmus`] on one node.
//!
//! herd7 has two forms. The header `X86` goes with `MOV [x],$1`, destination first; the header `X86_64` goes with `movl $1,(x)`,
//! destination last. `frame` splits the text, `cell` reads instructions, and this module gives names their meaning. Used by
//! [`crate::star`]'s command. The tests in `benches/peers/x86` are read by a test.

mod cell;
mod frame;

use std::collections::BTreeMap;

use crate::litmus::limits::{LOCATIONS_MAX, SOURCE_BYTES_MAX, THREADS_MAX};
use crate::litmus::syntax::{Formula as RawFormula, Name, Observed, parse_final_part};
use crate::litmus::{
    Condition, Diagnostic, Expected, Formula, Kind, Litmus, Operand, ParseError, Query, Span,
};
use crate::program::{Expr, Instr, Loc, Location, Node, Program, Reg, Thread, ThreadId, Value};

use cell::{Address, Cell, Operand as Place};
use frame::{Entry, Frame};

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
    frame::form(source).is_some()
}

/// Parses a test. Operand sizes are ignored, so that every access is to a whole word. Locations that the init block does not name
/// start at 0, as in herd7.
///
/// # Errors
///
/// Every mistake found in the rows, or else the first one.
pub fn parse(source: &str) -> Result<Litmus, ParseError> {
    let one = |d: Diagnostic| ParseError { diagnostics: vec![d] };
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!(
            "the text has {} bytes; SOURCE_BYTES_MAX is {SOURCE_BYTES_MAX}",
            source.len()
        );
        return Err(one(Diagnostic::new(Kind::LimitExceeded, 0..0, message)));
    }
    let frame = frame::split(source).map_err(one)?;
    let mut reader = Reader::new(&frame).map_err(one)?;
    reader.init(&frame.init).map_err(one)?;
    for row in &frame.rows {
        for (thread, cell) in row.iter().enumerate() {
            match cell::parse(frame.form, &cell.text, cell.start) {
                Ok(None) => {}
                Ok(Some(cell)) => reader.instruction(thread, cell),
                Err(diagnostic) => reader.errors.push(diagnostic),
            }
        }
    }
    if !reader.errors.is_empty() {
        return Err(ParseError {
            diagnostics: reader.errors,
        });
    }
    let (observed, queries) = parse_final_part(source, frame.rest).map_err(one)?;
    let observed = observed
        .iter()
        .map(|o| reader.observed(o))
        .collect::<Result<Vec<_>, _>>()
        .map_err(one)?;
    let mut conditions = Vec::new();
    for query in queries {
        conditions.push(Query {
            condition: Condition {
                quantifier: query.quantifier,
                formula: reader.formula(&query.formula).map_err(one)?,
            },
            expected: Expected::new(),
        });
    }
    Ok(Litmus {
        name: frame.name,
        description: frame.description,
        program: Program {
            nodes: 1,
            locations: reader.locations,
            threads: reader.threads,
        },
        observed,
        queries: conditions,
        stated: Vec::new(),
    })
}

/// The program under construction.
struct Reader {
    form: Form,
    locations: Vec<Location>,
    threads: Vec<Thread>,
    /// Registers that hold the address of a location, by thread and name.
    addresses: BTreeMap<(usize, String), Loc>,
    errors: Vec<Diagnostic>,
}

impl Reader {
    fn new(frame: &Frame) -> Result<Reader, Diagnostic> {
        if frame.threads > THREADS_MAX {
            let message = format!("more threads than THREADS_MAX ({THREADS_MAX})");
            return Err(Diagnostic::new(
                Kind::LimitExceeded,
                frame.header.clone(),
                message,
            ));
        }
        let thread = |t: usize| Thread {
            name: format!("P{t}"),
            node: Node(0),
            registers: Vec::new(),
            work_ids: Vec::new(),
            code: Vec::new(),
        };
        Ok(Reader {
            form: frame.form,
            locations: Vec::new(),
            threads: (0..frame.threads).map(thread).collect(),
            addresses: BTreeMap::new(),
            errors: Vec::new(),
        })
    }

    fn init(&mut self, entries: &[Entry]) -> Result<(), Diagnostic> {
        for entry in entries {
            match entry {
                Entry::Location { name, value } => {
                    let loc = self.location(name)?;
                    self.locations[usize::from(loc.0)].init = *value;
                }
                Entry::Register { thread, name, value } => {
                    let reg = self.register(*thread, name)?;
                    // Registers of litmus programs start at 0.
                    if *value != 0 {
                        let value = Expr::Const(*value);
                        self.threads[*thread].code.push(Instr::Assign { reg, value });
                    }
                }
                Entry::Address { thread, name, target } => {
                    let loc = self.location(target)?;
                    let register = self.canonical(name)?;
                    self.check_thread(*thread, &name.span)?;
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
        self.locations.push(Location {
            name: name.text.clone(),
            node: Node(0),
            init: 0,
            relaxed: false,
        });
        // Bounded by LOCATIONS_MAX.
        Ok(Loc(self.locations.len() as u16 - 1))
    }

    /// Returns one name for the 32-bit and the 64-bit name of a register: `EAX` in tests for X86, `rax` in those for X86_64.
    fn canonical(&self, name: &Name) -> Result<String, Diagnostic> {
        cell::register(self.form, &name.text).ok_or_else(|| {
            let example = match self.form {
                Form::Intel => "EAX, EBX, ECX, EDX, ESI, EDI",
                Form::Att => "%rax, %rbx, %rcx, %rdx, %rsi, %rdi, %r8 to %r15",
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
        let text = self.canonical(name)?;
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
            Cell::Mfence => Ok(Instr::Mfence),
            Cell::Move { to, from } => self.moved(thread, to, from),
        };
        match instr {
            Ok(instr) => self.threads[thread].code.push(instr),
            Err(diagnostic) => self.errors.push(diagnostic),
        }
    }

    fn moved(&mut self, thread: usize, to: Place, from: Place) -> Result<Instr, Diagnostic> {
        match (to, from) {
            (Place::Register(reg), Place::Memory(address)) => Ok(Instr::Load {
                loc: self.address(thread, address)?,
                reg: self.register(thread, &reg)?,
            }),
            (Place::Memory(address), from) => Ok(Instr::Store {
                loc: self.address(thread, address)?,
                value: self.value(thread, from)?,
            }),
            (Place::Register(reg), from) => Ok(Instr::Assign {
                value: self.value(thread, from)?,
                reg: self.register(thread, &reg)?,
            }),
            (Place::Constant(_, span), _) => {
                Err(
                    Diagnostic::new(Kind::WrongOperand, span, "a constant cannot be the destination")
                        .help("the destination is a register or a location"),
                )
            }
        }
    }

    fn value(&mut self, thread: usize, from: Place) -> Result<Expr, Diagnostic> {
        match from {
            Place::Constant(value, _) => Ok(Expr::Const(value)),
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
                let register = self.canonical(&name)?;
                let known = self.addresses.get(&(thread, register)).copied();
                known.ok_or_else(|| {
                    let message = format!("register `{}` of P{thread} holds no address", name.text);
                    Diagnostic::new(Kind::WrongOperand, name.span.clone(), message).help(format!(
                        "give it one in the init block: `{thread}:{}=x;`",
                        name.text
                    ))
                })
            }
        }
    }

    fn observed(&mut self, observed: &Observed) -> Result<Operand, Diagnostic> {
        match &observed.thread {
            None => Ok(Operand::Loc(self.location(&observed.name)?)),
            Some(number) => {
                let thread = usize::try_from(number.value).unwrap_or(usize::MAX);
                self.check_thread(thread, &number.span)?;
                let reg = self.register(thread, &observed.name)?;
                // Bounded by THREADS_MAX.
                Ok(Operand::Reg(ThreadId(thread as u8), reg))
            }
        }
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
                Formula::Atom(self.observed(operand)?, *relation, *value)
            }
        })
    }
}
