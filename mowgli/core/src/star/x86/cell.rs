//! The grammar of a cell: `MOV [x],$1`, `movq (%rdi),%rax`, `lock xchg %eax,(x)`, `L0: mfence`, and of what ends the last row of cells.

use super::Form;
use super::registers::{is_special, register};
use super::width::Width;
use crate::program::{BinaryOp, Value};
use crate::syntax::{Diagnostic, Kind, Name, Parser, Span, Step, Token, nearest};

/// The content of a cell of the table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// `L:` before an instruction.
    pub(super) labels: Vec<Name>,
    /// The instruction; nothing after a label at the end of a thread.
    pub(super) op: Option<Op>,
    /// The whole instruction.
    pub(super) span: Span,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// `mfence`.
    Fence,
    /// An instruction without effect on outcomes: `nop`; `sfence` and `lfence`, which order what x86-TSO orders anyway.
    Nothing,
    /// `ret`: the thread is over.
    Return,
    /// `jmp L`, or `je L` and its kin, which jump if the last comparison has this result.
    Jump(Option<BinaryOp>, Name),
    /// An instruction with two operands. `inc` and `dec` add a constant.
    Two {
        verb: Verb,
        locked: bool,
        to: Operand,
        from: Operand,
        /// The size of the operands.
        width: Width,
    },
}

/// The effect of an instruction with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Move,
    Compare,
    Add,
    Subtract,
    And,
    Or,
    Xor,
    Test,
    Exchange,
    CompareExchange,
}

/// Mnemonics of instructions with two operands, without the letter of a size.
const TWO: [(&str, Verb); 10] = [
    ("mov", Verb::Move),
    ("cmp", Verb::Compare),
    ("add", Verb::Add),
    ("sub", Verb::Subtract),
    ("and", Verb::And),
    ("or", Verb::Or),
    ("xor", Verb::Xor),
    ("test", Verb::Test),
    ("xchg", Verb::Exchange),
    ("cmpxchg", Verb::CompareExchange),
];

/// Mnemonics of instructions with one operand, and the constant that they add.
const ONE: [(&str, Value); 2] = [("inc", 1), ("dec", -1)];

/// Jumps and the result of a comparison on which they jump.
const JUMPS: [(&str, Option<BinaryOp>); 14] = [
    ("jmp", None),
    ("je", Some(BinaryOp::Eq)),
    ("jz", Some(BinaryOp::Eq)),
    ("jne", Some(BinaryOp::Ne)),
    ("jnz", Some(BinaryOp::Ne)),
    ("jl", Some(BinaryOp::Lt)),
    ("jlt", Some(BinaryOp::Lt)),
    ("jnge", Some(BinaryOp::Lt)),
    ("jle", Some(BinaryOp::Le)),
    ("jng", Some(BinaryOp::Le)),
    ("jg", Some(BinaryOp::Gt)),
    ("jgt", Some(BinaryOp::Gt)),
    ("jge", Some(BinaryOp::Ge)),
    ("jnl", Some(BinaryOp::Ge)),
];

/// Letters after a mnemonic, and the sizes that they name.
const SUFFIXES: [(char, Width); 4] = [
    ('b', Width::Byte),
    ('w', Width::Word),
    ('l', Width::Long),
    ('q', Width::Quad),
];

/// An operand.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Register(Name),
    Constant(Value, Span),
    Memory(Address),
}

/// A place in memory.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// `[x]`, `(x)`.
    Location(Name),
    /// `[ESI]`, `(%rsi)`, `0(%rsi)`: what the init block put into the register.
    Register(Name),
}

/// Reads a cell of a test whose text is `source`.
pub(super) fn cell(p: &mut Parser, form: Form, source: &str) -> Step<Cell> {
    p.count_instruction()?;
    let start = p.span();
    let mut labels = Vec::new();
    while *p.peek_at(1) == Token::Symbol(":") {
        labels.push(p.name("a label")?);
        p.skip();
    }
    let op = match ends(p) && !labels.is_empty() {
        true => None,
        false => Some(op(p, form, source)?),
    };
    Ok(Cell {
        labels,
        op,
        span: p.span_from(&start),
    })
}

fn op(p: &mut Parser, form: Form, source: &str) -> Step<Op> {
    let mut word = p.name("an instruction")?;
    let locked = word.text.eq_ignore_ascii_case("lock");
    if locked {
        p.eat(";");
        word = p.name("an instruction after `lock`")?;
    }
    let lower = word.text.to_ascii_lowercase();
    if let Some((verb, named)) = suffixed(&TWO, &lower) {
        return two(p, form, source, &word, verb, named, locked);
    }
    if let Some((addend, named)) = suffixed(&ONE, &lower) {
        return one(p, form, source, &word, addend, named, locked);
    }
    let alone = |p: &mut Parser, op: Op| match ends(p) {
        true => Ok(op),
        false => {
            let message = format!("{} has no operands", word.text.to_ascii_uppercase());
            Err(Diagnostic::new(Kind::Syntax, p.span(), message).help("end the cell with `|` or `;`"))
        }
    };
    if locked {
        let message = format!("`lock` does not go with `{}`", word.text);
        return Err(Diagnostic::new(Kind::UnknownInstruction, word.span, message)
            .help("it goes with xchg, cmpxchg, add, sub, inc and dec of a location"));
    }
    match lower.as_str() {
        "mfence" => alone(p, Op::Fence),
        "sfence" | "lfence" | "endbr64" => alone(p, Op::Nothing),
        "ret" | "retq" => alone(p, Op::Return),
        // The operands only make the instruction longer.
        "nop" | "nopw" | "nopl" => {
            while !matches!(p.peek(), Token::Symbol("|" | ";")) && !at_final_part(p) {
                p.skip();
            }
            Ok(Op::Nothing)
        }
        _ => match JUMPS.iter().find(|(name, _)| *name == lower) {
            Some((_, when)) => Ok(Op::Jump(*when, p.name("the label to jump to")?)),
            None => Err(unknown(word)),
        },
    }
}

/// Finds a mnemonic with or without the letter of a size.
fn suffixed<T: Copy>(table: &[(&str, T)], word: &str) -> Option<(T, Option<Width>)> {
    table.iter().find_map(|(stem, meaning)| {
        let rest = word.strip_prefix(stem)?;
        let mut letters = rest.chars();
        match (letters.next(), letters.next()) {
            (None, _) => Some((*meaning, None)),
            (Some(letter), None) => {
                let (_, width) = SUFFIXES.iter().find(|(l, _)| *l == letter)?;
                Some((*meaning, Some(*width)))
            }
            _ => None,
        }
    })
}

/// Says what is wrong with a mnemonic.
fn unknown(word: Name) -> Diagnostic {
    let message = format!("instruction `{}` is none of those that can be read", word.text);
    let unknown = Diagnostic::new(Kind::UnknownInstruction, word.span, message);
    let lower = word.text.to_ascii_lowercase();
    if ["movnti", "clflush", "movd", "movs"]
        .iter()
        .any(|s| lower.starts_with(s))
    {
        return unknown.help("the models are of memory that is cached in the usual way, and of whole words");
    }
    let known = TWO.iter().map(|(n, _)| *n).chain(ONE.iter().map(|(n, _)| *n));
    let known = known.chain(JUMPS.iter().map(|(n, _)| *n));
    match nearest(&lower, known.chain(["mfence", "sfence", "lfence", "nop", "ret"])) {
        Some(known) => unknown.help(format!("did you mean `{known}`?")),
        None => unknown.help(
            "known are mov, xchg, lock cmpxchg, add, sub, inc, dec, cmp, test, jumps, mfence, sfence, lfence, nop and ret",
        ),
    }
}

/// Returns whether the rows are over. A test of herd7 may begin its final part with `filter` or `final`.
pub(super) fn at_final_part(p: &Parser) -> bool {
    p.at_final_part() || p.is_word("filter") || p.is_word("final")
}

/// Returns whether an operand, or the cell, is over.
fn ends(p: &Parser) -> bool {
    matches!(p.peek(), Token::Symbol("," | "|" | ";")) || at_final_part(p)
}

/// Reads the operands of an instruction whose mnemonic names a size, or none.
fn two(
    p: &mut Parser,
    form: Form,
    source: &str,
    word: &Name,
    verb: Verb,
    named: Option<Width>,
    locked: bool,
) -> Step<Op> {
    let first = match ends(p) {
        true => None,
        false => Some(operand(p, form, source)?),
    };
    let (Some(a), true) = (first, p.eat(",")) else {
        let message = match verb {
            Verb::Move => "a move has two operands".to_owned(),
            _ => format!("`{}` has two operands", word.text),
        };
        let usage = match form {
            Form::Intel => "`MOV [x],$1` stores, `MOV EAX,[x]` loads",
            Form::Att => "`movl $1,(x)` stores, `movl (x),%eax` loads",
        };
        return Err(Diagnostic::new(Kind::Syntax, word.span.clone(), message).help(usage));
    };
    let b = operand(p, form, source)?;
    let width = width(p, form, word, [Some(&a), Some(&b)], named)?;
    let (to, from) = match (form, verb, &b) {
        (Form::Intel, ..) => (a, b),
        // herd7 writes the memory operand of `cmpxchg` first, assemblers write it last.
        (Form::Att, Verb::CompareExchange, Operand::Register(_)) if matches!(a, Operand::Memory(_)) => (a, b),
        (Form::Att, ..) => (b, a),
    };
    Ok(Op::Two {
        verb,
        locked,
        to,
        from,
        width,
    })
}

/// Reads the operand of `inc` or `dec`.
fn one(
    p: &mut Parser,
    form: Form,
    source: &str,
    word: &Name,
    addend: Value,
    named: Option<Width>,
    locked: bool,
) -> Step<Op> {
    let to = operand(p, form, source)?;
    let width = width(p, form, word, [Some(&to), None], named)?;
    Ok(Op::Two {
        verb: Verb::Add,
        locked,
        to,
        from: Operand::Constant(addend, word.span.clone()),
        width,
    })
}

/// Returns the size that a mnemonic and its operands state.
fn width(
    p: &Parser,
    form: Form,
    word: &Name,
    operands: [Option<&Operand>; 2],
    named: Option<Width>,
) -> Step<Width> {
    let stated = operands.into_iter().flatten().filter_map(|o| o.width(form));
    let widths: Vec<Width> = stated.chain(named).collect();
    if widths.windows(2).any(|pair| pair[0] != pair[1]) {
        let span = p.span_from(&word.span);
        return Err(
            Diagnostic::new(Kind::WrongOperand, span, "the operands have different sizes")
                .help("movl goes with 32-bit registers such as EAX, movq with 64-bit ones such as RAX"),
        );
    }
    Ok(widths.first().copied().unwrap_or(match form {
        Form::Intel => Width::Long,
        Form::Att => Width::Unknown,
    }))
}

impl Operand {
    /// Returns the size that the name of a register states.
    fn width(&self, form: Form) -> Option<Width> {
        match self {
            Operand::Register(name) => register(form, &name.text).map(|(_, width)| width),
            _ => None,
        }
    }
}

/// Reads an operand of a test whose text is `source`.
fn operand(p: &mut Parser, form: Form, source: &str) -> Step<Operand> {
    let start = p.span();
    // An offset of 0 before the brackets changes nothing.
    let zero = matches!(p.peek(), Token::Number(digits) if digits == "0" || digits == "0x0");
    if zero && matches!(p.peek_at(1), Token::Symbol("(" | "[")) {
        p.skip();
    }
    let brackets = [("[", "]"), ("(", ")")];
    let mut found = match (p.peek().clone(), p.peek_at(1).clone(), p.peek_at(2).clone()) {
        (Token::Symbol(open), Token::Name(text), Token::Symbol(close))
            if brackets.contains(&(open, close)) =>
        {
            (0..3).for_each(|_| p.skip());
            let span = p.span_from(&start);
            memory(form, Name { text, span })?.map(Operand::Memory)
        }
        (Token::Symbol("$" | "-") | Token::Number(_), ..) => {
            p.eat("$");
            let value = p.signed().ok();
            value.map(|number| Operand::Constant(number.value, p.span_from(&start)))
        }
        // A `%` in a test for X86 would mean that the operands stand in the other order.
        (Token::Name(text), ..) if text.starts_with('%') == (form == Form::Att) => {
            p.skip();
            let span = start.clone();
            if is_special(&text) && register(form, &text).is_some() {
                let message = format!("no instruction names `{text}`");
                return Err(Diagnostic::new(Kind::WrongOperand, span, message)
                    .help("only the init block and the conditions may name it"));
            }
            Some(Operand::Register(Name { text, span }))
        }
        _ => None,
    };
    while !ends(p) {
        found = None;
        p.skip();
    }
    found.ok_or_else(|| {
        let span = match ends(p) && p.span() == start {
            true => start.clone(),
            false => p.span_from(&start),
        };
        let help = match form {
            Form::Intel => "operands are `[x]`, `EAX` and `$1`",
            Form::Att => "operands are `(x)`, `%rax` and `$1`",
        };
        let message = format!("`{}` is no operand", &source[span.clone()]);
        Diagnostic::new(Kind::Syntax, span, message).help(help)
    })
}

/// Returns the place in memory that a name in brackets means, if it means one.
fn memory(form: Form, name: Name) -> Step<Option<Address>> {
    let is_register = register(form, &name.text).is_some();
    let percent = name.text.starts_with('%');
    match (form, percent) {
        (Form::Intel, true) => Ok(None),
        (Form::Att, false) if is_register => {
            let message = format!("`{}` is a register's name", name.text);
            let help = format!("write `(%{})`, or give the location another name", name.text);
            Err(Diagnostic::new(Kind::WrongOperand, name.span, message).help(help))
        }
        (Form::Intel, false) if is_register => Ok(Some(Address::Register(name))),
        (Form::Att, true) => Ok(Some(Address::Register(name))),
        (_, false) => Ok(Some(Address::Location(name))),
    }
}
