//! Reads one cell: `MOV [x],$1`, `movq (%rdi),%rax`, `mfence`, or nothing.

use super::Form;
use super::width::Width;
use crate::litmus::syntax::{Name, nearest, value_of};
use crate::litmus::{Diagnostic, Kind, Span};
use crate::program::Value;

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
        "mov" => moved(form, operands, at, &span, None).map(Some),
        "movl" => moved(form, operands, at, &span, Some(Width::Long)).map(Some),
        "movq" => moved(form, operands, at, &span, Some(Width::Quad)).map(Some),
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

/// Reads the operands of a move whose mnemonic names a size, or none.
fn moved(
    form: Form,
    text: &str,
    start: usize,
    word: &Span,
    named: Option<Width>,
) -> Result<Cell, Diagnostic> {
    let Some((first, second)) = text.split_once(',') else {
        let usage = match form {
            Form::Intel => "`MOV [x],$1` stores, `MOV EAX,[x]` loads",
            Form::Att => "`movl $1,(x)` stores, `movl (x),%eax` loads",
        };
        return Err(Diagnostic::new(Kind::Syntax, word.clone(), "a move has two operands").help(usage));
    };
    let a = operand(form, first, start)?;
    let b = operand(form, second, start + first.len() + 1)?;
    let span = word.start..start + text.len();
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
        let percent = name.text.starts_with('%');
        return match (form, register(form, &name.text).is_some(), is_name(&name.text)) {
            (Form::Intel, ..) if percent => Err(wrong()),
            (Form::Att, true, _) if !percent => {
                let message = format!("`{}` is a register's name", name.text);
                Err(Diagnostic::new(Kind::WrongOperand, span, message).help(format!(
                    "write `(%{})`, or give the location another name",
                    name.text
                )))
            }
            _ if percent => Ok(Operand::Memory(Address::Register(name))),
            (Form::Intel, true, _) => Ok(Operand::Memory(Address::Register(name))),
            (_, _, true) => Ok(Operand::Memory(Address::Location(name))),
            (_, _, false) => Err(wrong()),
        };
    }
    if let Some(digits) = text.strip_prefix('$') {
        return match value_of(digits) {
            Some(value) => Ok(Operand::Constant(value, span)),
            None => Err(wrong()),
        };
    }
    match (form, text.strip_prefix('%')) {
        // A `%` in a test for X86 would mean that the operands stand in the other order.
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
