//! The grammar of a cell: `MOV [x],$1`, `movq (%rdi),%rax`, `mfence`, and of what ends the last row of cells.

use super::Form;
use super::width::Width;
use crate::program::Value;
use crate::syntax::{Diagnostic, Kind, Name, Parser, Span, Step, Token, nearest};

/// An instruction.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Mfence,
    Move {
        to: Operand,
        from: Operand,
        /// The size of what is moved.
        width: Width,
        /// The whole instruction.
        span: Span,
    },
}

/// An operand of a move.
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
    /// `[ESI]`, `(%rsi)`: what the init block put into the register.
    Register(Name),
}

/// Beginnings of instructions that read and write memory at once.
const ATOMIC: [&str; 4] = ["lock", "xchg", "cmpxchg", "xadd"];

/// Names of the 64-bit registers and of their lower halves. The other names are of parts of a word, which are refused.
const REGISTERS: [(&str, &str); 16] = [
    ("rax", "eax"),
    ("rbx", "ebx"),
    ("rcx", "ecx"),
    ("rdx", "edx"),
    ("rsi", "esi"),
    ("rdi", "edi"),
    ("rbp", "ebp"),
    ("rsp", "esp"),
    ("r8", "r8d"),
    ("r9", "r9d"),
    ("r10", "r10d"),
    ("r11", "r11d"),
    ("r12", "r12d"),
    ("r13", "r13d"),
    ("r14", "r14d"),
    ("r15", "r15d"),
];

/// Returns the name under which reports show the register, and the part of it that `name` means; `None` if there is no such register.
pub(super) fn register(form: Form, name: &str) -> Option<(String, Width)> {
    let lower = name.trim_start_matches('%').to_ascii_lowercase();
    let (wide, narrow) = REGISTERS.iter().find(|(w, n)| *w == lower || *n == lower)?;
    let width = if *wide == lower { Width::Quad } else { Width::Long };
    match form {
        Form::Att => Some(((*wide).to_owned(), width)),
        Form::Intel => Some((narrow.to_ascii_uppercase(), width)),
    }
}

/// Reads an instruction of a test whose text is `source`.
pub(super) fn cell(p: &mut Parser, form: Form, source: &str) -> Step<Cell> {
    p.count_instruction()?;
    let word = p.name("an instruction")?;
    match word.text.to_ascii_lowercase().as_str() {
        "mfence" if ends(p) => Ok(Cell::Mfence),
        "mfence" => Err(Diagnostic::new(Kind::Syntax, p.span(), "MFENCE has no operands")
            .help("end the cell with `|` or `;`")),
        "mov" => moved(p, form, source, &word.span, None),
        "movl" => moved(p, form, source, &word.span, Some(Width::Long)),
        "movq" => moved(p, form, source, &word.span, Some(Width::Quad)),
        _ => Err(unknown(word)),
    }
}

/// Says what is wrong with a mnemonic.
fn unknown(word: Name) -> Diagnostic {
    let lower = word.text.to_ascii_lowercase();
    if ["movb", "movw"].contains(&lower.as_str()) {
        let message = format!("`{}` accesses a part of a word", word.text);
        return Diagnostic::new(Kind::UnknownInstruction, word.span, message)
            .help("every access is to a whole word: write MOV, movl or movq");
    }
    let message = format!(
        "instruction `{}` is none of those that can be translated",
        word.text
    );
    let unknown = Diagnostic::new(Kind::UnknownInstruction, word.span, message);
    if ATOMIC.iter().any(|stem| lower.starts_with(stem)) {
        return unknown.help(
            "locked instructions have no translation; a litmus test on one node may have `cas` (docs/litmus.md)",
        );
    }
    if ["sfence", "lfence"].contains(&lower.as_str()) {
        return unknown
            .help("it orders nothing that plain loads and stores do not: leave it out, or write mfence");
    }
    match nearest(&word.text, ["mov", "movl", "movq", "mfence"]) {
        Some(known) => unknown.help(format!("did you mean `{known}`?")),
        None => unknown.help("only loads, stores and mfence are: MOV (movl, movq) and MFENCE"),
    }
}

/// Returns whether the rows are over. A test of herd7 may begin its final part with `filter`.
pub(super) fn at_final_part(p: &Parser) -> bool {
    p.at_final_part() || p.is_word("filter")
}

/// Returns whether an operand, or the cell, is over.
fn ends(p: &Parser) -> bool {
    matches!(p.peek(), Token::Symbol("," | "|" | ";")) || at_final_part(p)
}

/// Reads the operands of a move whose mnemonic names a size, or none.
fn moved(p: &mut Parser, form: Form, source: &str, word: &Span, named: Option<Width>) -> Step<Cell> {
    let first = match ends(p) {
        true => None,
        false => Some(operand(p, form, source)?),
    };
    let (Some(a), true) = (first, p.eat(",")) else {
        let usage = match form {
            Form::Intel => "`MOV [x],$1` stores, `MOV EAX,[x]` loads",
            Form::Att => "`movl $1,(x)` stores, `movl (x),%eax` loads",
        };
        return Err(Diagnostic::new(Kind::Syntax, word.clone(), "a move has two operands").help(usage));
    };
    let b = operand(p, form, source)?;
    let span = p.span_from(word);
    let mut widths: Vec<Width> = [&a, &b].into_iter().filter_map(|o| o.width(form)).collect();
    widths.extend(named);
    if widths.windows(2).any(|pair| pair[0] != pair[1]) {
        let message = "the operands have different sizes";
        return Err(Diagnostic::new(Kind::WrongOperand, span, message)
            .help("movl goes with 32-bit registers such as EAX, movq with 64-bit ones such as RAX"));
    }
    let width = widths.first().copied().unwrap_or(match form {
        Form::Intel => Width::Long,
        Form::Att => Width::Unknown,
    });
    let (to, from) = match form {
        Form::Intel => (a, b),
        Form::Att => (b, a),
    };
    Ok(Cell::Move {
        to,
        from,
        width,
        span,
    })
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
    let brackets = match form {
        Form::Intel => (Token::Symbol("["), Token::Symbol("]")),
        Form::Att => (Token::Symbol("("), Token::Symbol(")")),
    };
    let mut found = match (p.peek().clone(), p.peek_at(1).clone(), p.peek_at(2).clone()) {
        (open, Token::Name(text), close) if (&open, &close) == (&brackets.0, &brackets.1) => {
            (0..3).for_each(|_| p.skip());
            let span = p.span_from(&start);
            memory(form, Name { text, span })?.map(Operand::Memory)
        }
        (Token::Symbol("$"), ..) => {
            p.skip();
            let value = p.signed().ok();
            value.map(|number| Operand::Constant(number.value, p.span_from(&start)))
        }
        // A `%` in a test for X86 would mean that the operands stand in the other order.
        (Token::Name(text), ..) if text.starts_with('%') == (form == Form::Att) => {
            p.skip();
            let span = start.clone();
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
