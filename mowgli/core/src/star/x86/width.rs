//! Sizes of accesses, and the constants for which they make no difference.
//!
//! A location or register of the translation holds one number and not two halves. This is right for tests whose accesses all have one
//! size. It is also right for tests of both sizes whose constants are from 0 to 2^31 - 1, since a move changes no number and the upper
//! halves are then always 0. The other tests are refused.

use crate::litmus::{Diagnostic, Kind, Span};
use crate::program::Value;

/// The size of an access, or the part of a register that a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// 32 bits.
    Long,
    /// 64 bits.
    Quad,
    /// Not stated.
    Unknown,
}

/// The sizes that a test uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widths {
    long: bool,
    quad: bool,
}

impl Widths {
    /// Adds a size to those in use.
    pub(super) fn add(&mut self, width: Width) {
        self.long |= width != Width::Quad;
        self.quad |= width != Width::Long;
    }

    /// Returns the number that stands for a constant of the test. In a test of 32 bits, `0xffffffff` and `-1` are one number. `by` is
    /// the size that a register beside the constant states.
    ///
    /// # Errors
    /// Fails for a constant that is not the same number in both sizes where both matter, and one that does not fit.
    pub(super) fn constant(self, value: Value, by: Option<Width>, span: &Span) -> Result<Value, Diagnostic> {
        let plain = 0..=Value::from(i32::MAX);
        let long = Value::from(i32::MIN)..=Value::from(u32::MAX);
        let both = self.long && (self.quad || by == Some(Width::Quad));
        let out = |message: String, help: &str| {
            Err(Diagnostic::new(Kind::OutOfRange, span.clone(), message).help(help))
        };
        match (both, self.long) {
            (true, _) if !plain.contains(&value) => out(
                format!("`{value}` is not the same number in 32 and in 64 bits, and the test uses both"),
                "use one size in the whole test, registers and types included, or numbers from 0 to 2147483647",
            ),
            (false, true) if !long.contains(&value) => out(
                format!("`{value}` does not fit in the 32 bits of this test's accesses"),
                "use movq and 64-bit registers, or a smaller number",
            ),
            // Keeps the lower half and repeats its sign.
            (false, true) => Ok(Value::from(value as i32)),
            _ => Ok(value),
        }
    }
}
