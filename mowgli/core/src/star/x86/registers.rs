//! The registers of x86, their parts, and the names by which reports show them.

use super::Form;
use super::width::Width;

/// The names of each register: 64, 32, 16 and 8 bits.
const REGISTERS: [[&str; 4]; 16] = [
    ["rax", "eax", "ax", "al"],
    ["rbx", "ebx", "bx", "bl"],
    ["rcx", "ecx", "cx", "cl"],
    ["rdx", "edx", "dx", "dl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["rbp", "ebp", "bp", "bpl"],
    ["rsp", "esp", "sp", "spl"],
    ["r8", "r8d", "r8w", "r8b"],
    ["r9", "r9d", "r9w", "r9b"],
    ["r10", "r10d", "r10w", "r10b"],
    ["r11", "r11d", "r11w", "r11b"],
    ["r12", "r12d", "r12w", "r12b"],
    ["r13", "r13d", "r13w", "r13b"],
    ["r14", "r14d", "r14w", "r14b"],
    ["r15", "r15d", "r15w", "r15b"],
];

/// The sizes of the names, in the order of a row of [`REGISTERS`].
const PARTS: [Width; 4] = [Width::Quad, Width::Long, Width::Word, Width::Byte];

/// Registers that no instruction of a test may name. A test may give them a value and ask for it.
const SPECIAL: [(&str, Width); 3] = [("rip", Width::Quad), ("eip", Width::Long), ("cs", Width::Word)];

/// Names of the second byte of a register.
const SECOND_BYTES: [&str; 4] = ["ah", "bh", "ch", "dh"];

/// Returns the name under which reports show the register, and the part of it that `name` means; `None` if there is no such register.
///
/// In a test for X86, which is one of 32 bits, the short names of parts are registers only in capitals: `al` may be a location.
pub(super) fn register(form: Form, name: &str) -> Option<(String, Width)> {
    let lower = name.trim_start_matches('%').to_ascii_lowercase();
    let show = |shown: &str| match form {
        Form::Att => shown.to_owned(),
        Form::Intel => shown.to_ascii_uppercase(),
    };
    let in_capitals = !name.bytes().any(|b| b.is_ascii_lowercase());
    let found = REGISTERS.iter().find_map(|names| {
        let part = names.iter().position(|n| *n == lower)?;
        let shown = match form {
            Form::Att => names[0],
            Form::Intel => names[1],
        };
        Some((show(shown), PARTS[part]))
    });
    let special = || SPECIAL.iter().find(|(n, _)| *n == lower);
    let (shown, width) = found.or_else(|| special().map(|(n, width)| (show(n), *width)))?;
    let is_short = matches!(width, Width::Word | Width::Byte) || is_special(name);
    (form == Form::Att || !is_short || in_capitals).then_some((shown, width))
}

/// Returns whether no instruction of a test may name the register.
pub(super) fn is_special(name: &str) -> bool {
    let lower = name.trim_start_matches('%').to_ascii_lowercase();
    SPECIAL.iter().any(|(n, _)| *n == lower)
}

/// Returns whether the name is that of the second byte of a register, which is no number of its own here.
pub(super) fn is_second_byte(name: &str) -> bool {
    let lower = name.trim_start_matches('%').to_ascii_lowercase();
    SECOND_BYTES.contains(&lower.as_str())
}
