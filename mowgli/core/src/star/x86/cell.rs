//! Reads one cell: `MOV [x],$1`, `movq (%rdi),%rax`, `mfence`, or nothing.

use super::Form;
use crate::litmus::syntax::{Name, nearest};
use crate::litmus::{Diagnostic, Kind, Span};
use crate::program::Value;

/// An instruction.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Mfence,
    Move { to: Operand, from: Operand },
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

/// Names of the 64-bit registers and of their lower halves.
const REGISTERS: [(&str, &str); 14] = [
    ("rax", "eax"),
    ("rbx", "ebx"),
    ("rcx", "ecx"),
    ("rdx", "edx"),
    ("rsi", "esi"),
    ("rdi", "edi"),
    ("r8", "r8d"),
    ("r9", "r9d"),
    ("r10", "r10d"),
    ("r11", "r11d"),
    ("r12", "r12d"),
    ("r13", "r13d"),
    ("r14", "r14d"),
    ("r15", "r15d"),
];

/// Returns the name under which reports show the register, or `None` if there is no such register.
pub(super) fn register(form: Form, name: &str) -> Option<String> {
    let lower = name.trim_start_matches('%').to_ascii_lowercase();
    let (wide, narrow) = REGISTERS.iter().find(|(w, n)| *w == lower || *n == lower)?;
    match form {
        Form::Att => Some((*wide).to_owned()),
        Form::Intel => wide
            .starts_with("r")
            .then(|| narrow.to_ascii_uppercase())
            .filter(|n| n.starts_with('E')),
    }
}

/// Reads a cell that starts at byte `start` of the text.
pub(super) fn parse(form: Form, text: &str, start: usize) -> Result<Option<Cell>, Diagnostic> {
    let trimmed = text.trim_start();
    let start = start + (text.len() - trimmed.len());
    let text = trimmed.trim_end();
    if text.is_empty() {
        return Ok(None);
    }
    let word_len = text.find(char::is_whitespace).unwrap_or(text.len());
    let word = &text[..word_len];
    let span = start..start + word_len;
    let operands = text[word_len..].trim_start();
    let at = start + text.len() - operands.len();
    match word.to_ascii_lowercase().as_str() {
        "mfence" if operands.is_empty() => Ok(Some(Cell::Mfence)),
        "mfence" => Err(
            Diagnostic::new(Kind::Syntax, at..at + operands.len(), "MFENCE has no operands")
                .help("end the cell with `|` or `;`"),
        ),
        "mov" | "movl" | "movq" => moved(form, operands, at, &span).map(Some),
        "movb" | "movw" => Err(Diagnostic::new(
            Kind::UnknownInstruction,
            span,
            format!("`{word}` accesses a part of a word"),
        )
        .help("every access is to a whole word: write MOV, movl or movq")),
        lower => {
            let unknown = Diagnostic::new(
                Kind::UnknownInstruction,
                span,
                format!("instruction `{word}` is none of those that can be translated"),
            );
            if ATOMIC.iter().any(|stem| lower.starts_with(stem)) {
                return Err(unknown
                    .help("locked instructions have no translation; a litmus test on one node may have `cas` (docs/litmus.md)"));
            }
            if ["sfence", "lfence"].contains(&lower) {
                return Err(unknown.help(
                    "it orders nothing that plain loads and stores do not: leave it out, or write mfence",
                ));
            }
            Err(match nearest(word, ["mov", "movl", "movq", "mfence"]) {
                Some(known) => unknown.help(format!("did you mean `{known}`?")),
                None => unknown.help("only loads, stores and mfence are: MOV (movl, movq) and MFENCE"),
            })
        }
    }
}

fn moved(form: Form, text: &str, start: usize, span: &Span) -> Result<Cell, Diagnostic> {
    let Some((first, second)) = text.split_once(',') else {
        let usage = match form {
            Form::Intel => "`MOV [x],$1` stores, `MOV EAX,[x]` loads",
            Form::Att => "`movl $1,(x)` stores, `movl (x),%eax` loads",
        };
        return Err(Diagnostic::new(Kind::Syntax, span.clone(), "a move has two operands").help(usage));
    };
    let a = operand(form, first, start)?;
    let b = operand(form, second, start + first.len() + 1)?;
    Ok(match form {
        Form::Intel => Cell::Move { to: a, from: b },
        Form::Att => Cell::Move { to: b, from: a },
    })
}

fn operand(form: Form, text: &str, start: usize) -> Result<Operand, Diagnostic> {
    let trimmed = text.trim_start();
    let start = start + (text.len() - trimmed.len());
    let text = trimmed.trim_end();
    let span = start..start + text.len();
    let wrong = || {
        let help = match form {
            Form::Intel => "operands are `[x]`, `EAX` and `$1`",
            Form::Att => "operands are `(x)`, `%rax` and `$1`",
        };
        Diagnostic::new(Kind::Syntax, span.clone(), format!("`{text}` is no operand")).help(help)
    };
    let (open, close) = match form {
        Form::Intel => ('[', ']'),
        Form::Att => ('(', ')'),
    };
    if let Some(inner) = text.strip_prefix(open).and_then(|t| t.strip_suffix(close)) {
        let name = Name {
            text: inner.trim().to_owned(),
            span: span.clone(),
        };
        // In herd7's X86 form a location may have a register's name only in capitals.
        let is_register =
            name.text.starts_with('%') || (form == Form::Intel && register(form, &name.text).is_some());
        return match (is_register, is_name(&name.text)) {
            (true, _) => Ok(Operand::Memory(Address::Register(name))),
            (false, true) => Ok(Operand::Memory(Address::Location(name))),
            (false, false) => Err(wrong()),
        };
    }
    if let Some(digits) = text.strip_prefix('$') {
        let hexadecimal = digits.strip_prefix("0x").map(|d| Value::from_str_radix(d, 16));
        return match hexadecimal.unwrap_or_else(|| digits.parse()) {
            Ok(value) => Ok(Operand::Constant(value, span)),
            Err(_) => Err(wrong()),
        };
    }
    match (form, text.strip_prefix('%')) {
        (Form::Att, Some(_)) | (Form::Intel, None) if is_name(text.trim_start_matches('%')) => {
            Ok(Operand::Register(Name {
                text: text.to_owned(),
                span,
            }))
        }
        _ => Err(wrong()),
    }
}

/// Returns whether the text can name a location of a litmus test.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '\'')
}
