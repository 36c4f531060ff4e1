//! Translates the instructions of a thread.
//!
//! A register's address is followed here and needs no instruction. Jumps become branches: each side of a branch holds all that the
//! thread does from there on. An exchange, which is one step of x86, is a load, a `cas` that expects what was loaded, and an `assume`
//! that the `cas` succeeded. This has the outcomes of the exchange: any execution with the exchange stays one if the exchange is
//! preceded by a load of the same write, and the executions in which the `cas` fails are discarded.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{Address, Cell, Op, Operand as Place, Verb};
use super::width::Width;
use super::{Form, Reader};
use crate::program::{BinaryOp, Expr, Instr, Loc, Reg};
use crate::syntax::limits::INSTRUCTIONS_MAX;
use crate::syntax::{Diagnostic, Kind, Name, Span};

/// Registers of the translation. No name in a test has an apostrophe.
const OLD: &str = "old'";
const FOUND: &str = "found'";
const COMPARED: [&str; 2] = ["left'", "right'"];

/// The result of the last comparison, for a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flags {
    /// Nothing set the flags.
    Unset,
    /// Whether the registers [`COMPARED`] are equal.
    Equality,
    /// Which of them is greater.
    Order,
}

/// The facts at a point of a thread, on the path that led there.
#[derive(Clone)]
struct Path {
    /// Registers that hold the address of a location.
    addresses: BTreeMap<String, Loc>,
    flags: Flags,
}

/// A thread under translation.
pub(super) struct Code<'r> {
    reader: &'r mut Reader,
    thread: usize,
    cells: &'r [Cell],
    labels: BTreeMap<&'r str, usize>,
    /// Which instructions the path has gone through.
    visited: Vec<bool>,
    /// Registers that end with an address on some path.
    ends: BTreeSet<String>,
    errors: Vec<Diagnostic>,
    /// Number of instructions so far.
    count: usize,
}

/// Translates a thread. Returns the code, the registers that may end with an address, and the mistakes.
pub(super) fn thread(
    reader: &mut Reader,
    thread: usize,
    cells: &[Cell],
    addresses: BTreeMap<String, Loc>,
) -> (Vec<Instr>, BTreeSet<String>, Vec<Diagnostic>) {
    let mut code = Code {
        reader,
        thread,
        cells,
        labels: BTreeMap::new(),
        visited: vec![false; cells.len()],
        ends: BTreeSet::new(),
        errors: Vec::new(),
        count: 0,
    };
    for (at, label) in cells
        .iter()
        .enumerate()
        .flat_map(|(at, c)| c.labels.iter().map(move |l| (at, l)))
    {
        if code.labels.insert(&label.text, at).is_some() {
            let message = format!("P{thread} has two labels `{}`", label.text);
            let twice = Diagnostic::new(Kind::Duplicate, label.span.clone(), message);
            code.errors.push(twice.help("rename one of them"));
        }
    }
    let flags = Flags::Unset;
    let instrs = code.from(0, Path { addresses, flags });
    (instrs, code.ends, code.errors)
}

fn wrong(span: &Span, message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Kind::WrongOperand, span.clone(), message).help(help)
}

fn two_memory_operands(span: &Span) -> Diagnostic {
    wrong(
        span,
        "an instruction cannot have two memory operands",
        "load into a register first, then store the register",
    )
}

impl Code<'_> {
    /// Translates what the thread does from instruction `at` on.
    fn from(&mut self, mut at: usize, mut path: Path) -> Vec<Instr> {
        let mut out = Vec::new();
        let mut passed = Vec::new();
        let cells = self.cells;
        while let Some(cell) = cells.get(at) {
            if self.visited[at] {
                let message = "a jump back makes a loop, which is not read";
                let help = "write the test with `while` (docs/litmus.md), or unroll the loop";
                self.error(wrong(&cell.span, message, help));
                break;
            }
            self.visited[at] = true;
            passed.push(at);
            at += 1;
            let result = match &cell.op {
                None | Some(Op::Nothing) => Ok(()),
                Some(Op::Return) => break,
                Some(Op::Fence) => {
                    out.push(Instr::Mfence);
                    Ok(())
                }
                Some(Op::Jump(None, label)) => self.target(label).map(|to| at = to),
                Some(Op::Jump(Some(when), label)) => match self.branch(*when, label, &path) {
                    Ok((to, cond)) => {
                        let then = self.from(to, path.clone());
                        let otherwise = self.from(at, path);
                        out.push(Instr::If {
                            cond,
                            then,
                            otherwise,
                        });
                        passed.iter().for_each(|p| self.visited[*p] = false);
                        return out;
                    }
                    Err(error) => Err(error),
                },
                Some(Op::Two {
                    verb,
                    locked,
                    to,
                    from,
                    width,
                }) => self.two(
                    &mut path,
                    (*verb, *locked, *width),
                    to,
                    from,
                    &cell.span,
                    &mut out,
                ),
            };
            if let Err(error) = result {
                self.error(error);
            }
            self.count += 1;
            if self.count > INSTRUCTIONS_MAX {
                let message =
                    format!("the branches have more instructions than INSTRUCTIONS_MAX ({INSTRUCTIONS_MAX})");
                self.error(Diagnostic::new(Kind::LimitExceeded, cell.span.clone(), message));
                break;
            }
        }
        passed.iter().for_each(|p| self.visited[*p] = false);
        self.ends.extend(path.addresses.into_keys());
        out
    }

    /// Keeps a mistake. An instruction on several paths has it once.
    fn error(&mut self, error: Diagnostic) {
        let known = |e: &Diagnostic| e.span == error.span && e.message == error.message;
        if !self.errors.iter().any(known) {
            self.errors.push(error);
        }
    }

    fn target(&self, label: &Name) -> Result<usize, Diagnostic> {
        self.labels.get(label.text.as_str()).copied().ok_or_else(|| {
            let message = format!("P{} has no label `{}`", self.thread, label.text);
            wrong(
                &label.span,
                message,
                format!("write `{}:` before an instruction", label.text),
            )
        })
    }

    /// Returns where a jump leads, and when.
    fn branch(&mut self, when: BinaryOp, label: &Name, path: &Path) -> Result<(usize, Expr), Diagnostic> {
        let to = self.target(label)?;
        let equality = matches!(when, BinaryOp::Eq | BinaryOp::Ne);
        if path.flags == Flags::Unset || path.flags == Flags::Equality && !equality {
            return Err(wrong(
                &label.span,
                "nothing that this jump could ask was compared",
                "write `cmp` before the jump",
            ));
        }
        let [left, right] = COMPARED.map(|name| Box::new(Expr::Reg(self.own(name))));
        Ok((to, Expr::Binary(when, left, right)))
    }

    /// Returns a register of the translation.
    fn own(&mut self, name: &str) -> Reg {
        self.reader.register_named(self.thread, name)
    }

    fn canonical(&self, name: &Name) -> Result<String, Diagnostic> {
        Ok(self.reader.canonical(name)?.0)
    }

    /// Translates an instruction with two operands.
    fn two(
        &mut self,
        path: &mut Path,
        (verb, locked, width): (Verb, bool, Width),
        to: &Place,
        from: &Place,
        span: &Span,
        out: &mut Vec<Instr>,
    ) -> Result<(), Diagnostic> {
        if let (Place::Memory(_), Place::Memory(_)) = (to, from) {
            return Err(two_memory_operands(span));
        }
        let lockable = matches!(
            verb,
            Verb::Add | Verb::Subtract | Verb::Or | Verb::Exchange | Verb::CompareExchange
        );
        let in_memory = matches!((to, from), (Place::Memory(_), _) | (_, Place::Memory(_)));
        let first_in_memory = matches!(to, Place::Memory(_));
        if locked && (!lockable || !in_memory || !first_in_memory && verb != Verb::Exchange) {
            return Err(wrong(
                span,
                "`lock` goes with an instruction that reads and writes memory",
                "leave `lock` out",
            ));
        }
        match (verb, from) {
            (Verb::Move, _) => self.moved(path, to, from, width, span, out),
            (Verb::Exchange, _) => self.exchange(path, to, from, width, span, out),
            (Verb::CompareExchange, _) => self.compare_exchange(path, locked, to, from, span, out),
            (Verb::Compare, _) => {
                let left = self.value(path, to, out)?;
                let right = self.value(path, from, out)?;
                self.compare(path, left, right, Flags::Order, out);
                Ok(())
            }
            (Verb::Add | Verb::Subtract, _) => self.add(path, (verb, locked), to, from, span, out),
            // `lock orl $0,(x)` is a fence that leaves the location as it is.
            (Verb::Or, Place::Constant(0, _)) => self.add(path, (Verb::Add, locked), to, from, span, out),
            (Verb::And | Verb::Or | Verb::Xor | Verb::Test, _) => {
                self.bitwise(path, verb, to, from, span, out)
            }
        }
    }

    fn moved(
        &mut self,
        path: &mut Path,
        to: &Place,
        from: &Place,
        width: Width,
        span: &Span,
        out: &mut Vec<Instr>,
    ) -> Result<(), Diagnostic> {
        let held = self.held(path, from)?;
        match (to, from) {
            (Place::Register(reg), Place::Memory(address)) => {
                let loc = self.address(path, address)?;
                let reg = self.overwrite(path, reg)?;
                out.push(Instr::Load { loc, reg });
            }
            (Place::Register(reg), from) => {
                if let Some(loc) = held {
                    self.whole(width, span)?;
                    let name = self.canonical(reg)?;
                    path.addresses.insert(name, loc);
                } else {
                    let value = self.value(path, from, out)?;
                    let reg = self.overwrite(path, reg)?;
                    out.push(Instr::Assign { reg, value });
                }
            }
            (Place::Memory(_), _) if held.is_some() => return Err(stores_an_address(span)),
            (Place::Memory(address), from) => {
                let loc = self.address(path, address)?;
                let value = self.value(path, from, out)?;
                out.push(Instr::Store { loc, value });
            }
            (Place::Constant(_, span), _) => return Err(constant_destination(span)),
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        path: &mut Path,
        to: &Place,
        from: &Place,
        width: Width,
        span: &Span,
        out: &mut Vec<Instr>,
    ) -> Result<(), Diagnostic> {
        match (to, from) {
            (Place::Memory(address), Place::Register(name))
            | (Place::Register(name), Place::Memory(address)) => {
                let loc = self.address(path, address)?;
                if path.addresses.contains_key(&self.canonical(name)?) {
                    return Err(stores_an_address(span));
                }
                let reg = self.reader.register(self.thread, name)?;
                self.swap(loc, reg, |_| Expr::Reg(reg), out);
                Ok(())
            }
            (Place::Register(a), Place::Register(b)) => {
                let names = [self.canonical(a)?, self.canonical(b)?];
                let held = [0, 1].map(|i| path.addresses.remove(&names[i]));
                if held.iter().any(Option::is_some) {
                    self.whole(width, span)?;
                }
                let [from_a, from_b] = held;
                path.addresses.extend(from_a.map(|loc| (names[1].clone(), loc)));
                path.addresses.extend(from_b.map(|loc| (names[0].clone(), loc)));
                let (old, a, b) = (
                    self.own(OLD),
                    self.reader.register(self.thread, a)?,
                    self.reader.register(self.thread, b)?,
                );
                let moves = [(old, a), (a, b), (b, old)];
                out.extend(moves.map(|(reg, from)| Instr::Assign {
                    reg,
                    value: Expr::Reg(from),
                }));
                Ok(())
            }
            _ => Err(wrong(
                span,
                "an exchange is of two registers, or of a register and a location",
                "move the constant into a register first",
            )),
        }
    }

    fn compare_exchange(
        &mut self,
        path: &mut Path,
        locked: bool,
        to: &Place,
        from: &Place,
        span: &Span,
        out: &mut Vec<Instr>,
    ) -> Result<(), Diagnostic> {
        let (Place::Memory(address), Place::Register(_), true) = (to, from, locked) else {
            return Err(wrong(
                span,
                "only a locked cmpxchg of a location and a register is read",
                "write `lock cmpxchg`: without it the location is read and written in two steps",
            ));
        };
        let loc = self.address(path, address)?;
        let accumulator = Name {
            text: match self.reader.form {
                Form::Intel => "EAX".to_owned(),
                Form::Att => "%rax".to_owned(),
            },
            span: span.clone(),
        };
        let new = self.value(path, from, out)?;
        let expected = self.value(path, &Place::Register(accumulator.clone()), out)?;
        let reg = self.reader.register(self.thread, &accumulator)?;
        let [left, right] = COMPARED.map(|name| self.own(name));
        out.push(Instr::Assign {
            reg: left,
            value: expected.clone(),
        });
        out.push(Instr::Cas {
            reg: Some(reg),
            loc,
            expected,
            new,
        });
        out.push(Instr::Assign {
            reg: right,
            value: Expr::Reg(reg),
        });
        path.flags = Flags::Order;
        Ok(())
    }

    /// Adds a number to a register or location, or subtracts it.
    fn add(
        &mut self,
        path: &mut Path,
        (verb, locked): (Verb, bool),
        to: &Place,
        from: &Place,
        span: &Span,
        out: &mut Vec<Instr>,
    ) -> Result<(), Diagnostic> {
        if !matches!(from, Place::Constant(..)) && !self.reader.widths.is_quad() {
            return Err(wrong(
                span,
                "a sum of two numbers that are not constants may not fit in its size",
                "add constants, or use 64 bits in the whole test",
            ));
        }
        let addend = self.value(path, from, out)?;
        let op = match verb {
            Verb::Subtract => BinaryOp::Sub,
            _ => BinaryOp::Add,
        };
        let sum = |old: Reg| Expr::Binary(op, Box::new(Expr::Reg(old)), Box::new(addend.clone()));
        let result = match to {
            Place::Register(name) => {
                self.value(path, to, out)?;
                let reg = self.reader.register(self.thread, name)?;
                out.push(Instr::Assign { reg, value: sum(reg) });
                Expr::Reg(reg)
            }
            Place::Memory(address) => {
                let loc = self.address(path, address)?;
                let (old, found) = (self.own(OLD), self.own(FOUND));
                if locked {
                    self.swap(loc, found, sum, out);
                } else {
                    out.push(Instr::Load { reg: old, loc });
                    let value = sum(old);
                    out.push(Instr::Store { loc, value });
                }
                sum(old)
            }
            Place::Constant(_, span) => return Err(constant_destination(span)),
        };
        self.compare(path, result, Expr::Const(0), Flags::Equality, out);
        Ok(())
    }

    /// Translates operations of bits, of which the language has only those of a register with itself.
    fn bitwise(
        &mut self,
        path: &mut Path,
        verb: Verb,
        to: &Place,
        from: &Place,
        span: &Span,
        out: &mut Vec<Instr>,
    ) -> Result<(), Diagnostic> {
        let same = match (to, from) {
            (Place::Register(a), Place::Register(b)) => self.canonical(a)? == self.canonical(b)?,
            _ => false,
        };
        let (Place::Register(name), true) = (to, same) else {
            return Err(wrong(
                span,
                "bits of two different operands are not combined",
                "of and, or, xor and test only those of a register with itself are read, and `or $0`",
            ));
        };
        let result = match verb {
            Verb::Xor => {
                let reg = self.overwrite(path, name)?;
                let value = Expr::Const(0);
                out.push(Instr::Assign { reg, value });
                Expr::Const(0)
            }
            _ => self.value(path, to, out)?,
        };
        self.compare(path, result, Expr::Const(0), Flags::Order, out);
        Ok(())
    }

    /// Keeps two numbers for the jumps that follow.
    fn compare(&mut self, path: &mut Path, left: Expr, right: Expr, flags: Flags, out: &mut Vec<Instr>) {
        for (name, value) in COMPARED.into_iter().zip([left, right]) {
            let reg = self.own(name);
            out.push(Instr::Assign { reg, value });
        }
        path.flags = flags;
    }

    /// Exchanges a location's number for `new`, which is given the register with the old number, and puts the old number into `result`.
    fn swap(&mut self, loc: Loc, result: Reg, new: impl FnOnce(Reg) -> Expr, out: &mut Vec<Instr>) {
        let old = self.own(OLD);
        out.push(Instr::Load { reg: old, loc });
        out.push(Instr::Cas {
            reg: Some(result),
            loc,
            expected: Expr::Reg(old),
            new: new(old),
        });
        let [found, old] = [result, old].map(|reg| Box::new(Expr::Reg(reg)));
        out.push(Instr::Assume(Expr::Binary(BinaryOp::Eq, found, old)));
    }

    /// Returns the number that an operand holds, which is loaded if it is in memory.
    fn value(&mut self, path: &Path, from: &Place, out: &mut Vec<Instr>) -> Result<Expr, Diagnostic> {
        match from {
            Place::Constant(value, span) => {
                let value = self.reader.widths.constant(*value, None, span)?;
                Ok(Expr::Const(value))
            }
            Place::Register(name) => {
                if path.addresses.contains_key(&self.canonical(name)?) {
                    let message = format!("`{}` holds an address here", name.text);
                    let help = "only moves and brackets use addresses: give it a number first";
                    return Err(wrong(&name.span, message, help));
                }
                Ok(Expr::Reg(self.reader.register(self.thread, name)?))
            }
            Place::Memory(address) => {
                let loc = self.address(path, address)?;
                let reg = self.own(OLD);
                out.push(Instr::Load { reg, loc });
                Ok(Expr::Reg(reg))
            }
        }
    }

    /// Returns the location whose address an operand holds.
    fn held(&self, path: &Path, from: &Place) -> Result<Option<Loc>, Diagnostic> {
        let Place::Register(name) = from else {
            return Ok(None);
        };
        Ok(path.addresses.get(&self.canonical(name)?).copied())
    }

    /// Returns a register that is about to be overwritten by a number.
    fn overwrite(&mut self, path: &mut Path, name: &Name) -> Result<Reg, Diagnostic> {
        path.addresses.remove(&self.canonical(name)?);
        self.reader.register(self.thread, name)
    }

    /// Refuses a move of an address by less than a whole register.
    fn whole(&self, width: Width, span: &Span) -> Result<(), Diagnostic> {
        match self.reader.form == Form::Att && width.is_part() || matches!(width, Width::Byte | Width::Word) {
            true => Err(wrong(
                span,
                "this cuts an address in half",
                "move addresses with movq and 64-bit registers",
            )),
            false => Ok(()),
        }
    }

    fn address(&mut self, path: &Path, address: &Address) -> Result<Loc, Diagnostic> {
        let name = match address {
            Address::Location(name) => return self.reader.location(name),
            Address::Register(name) => name,
        };
        let (form, thread) = (self.reader.form, self.thread);
        let (register, width) = self.reader.canonical(name)?;
        if form == Form::Att && width.is_part() || matches!(width, Width::Byte | Width::Word) {
            let message = format!("`{}` is half of an address", name.text);
            let whole = match form {
                Form::Intel => format!("write `[{register}]`"),
                Form::Att => format!("write `(%{register})`"),
            };
            return Err(wrong(&name.span, message, whole));
        }
        path.addresses.get(&register).copied().ok_or_else(|| {
            let message = format!("register `{}` of P{thread} holds no address here", name.text);
            let register = name.text.trim_start_matches('%');
            let help = format!(
                "give it one in the init block, `{thread}:{register}=x;`, and use it before it is overwritten"
            );
            wrong(&name.span, message, help)
        })
    }
}

fn stores_an_address(span: &Span) -> Diagnostic {
    wrong(
        span,
        "this stores an address",
        "memory holds numbers only: store a constant or a register that holds a number",
    )
}

fn constant_destination(span: &Span) -> Diagnostic {
    wrong(
        span,
        "a constant cannot be the destination",
        "the destination is a register or a location",
    )
}
