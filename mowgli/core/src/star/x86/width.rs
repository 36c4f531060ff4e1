//! Sizes of accesses, and the constants for which they make no difference.
//!
//! A location or register of the translation holds one number and not its bytes. This is right for tests whose accesses all have one
//! size. It is also right for tests of several sizes whose numbers are from 0 to the largest signed one of the smallest size: moves
//! change no number, and the upper parts of words are then always 0. Additions keep numbers in this range if the constants leave room
//! for all of them, since a test without loops makes each addition once. The other tests are refused.

use crate::litmus::{Diagnostic, Kind, Span};
use crate::program::Value;

/// The size of an access, or the part of a register that a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// 8 bits.
    Byte,
    /// 16 bits.
    Word,
    /// 32 bits.
    Long,
    /// 64 bits.
    Quad,
    /// Not stated: 32 or 64 bits.
    Unknown,
}

impl Width {
    /// Returns the least and the most bits that it may have.
    pub(super) fn bits(self) -> (u32, u32) {
        match self {
            Width::Byte => (8, 8),
            Width::Word => (16, 16),
            Width::Long => (32, 32),
            Width::Quad => (64, 64),
            Width::Unknown => (32, 64),
        }
    }

    /// Returns whether it may be less than a whole register of a test for X86_64, which an address needs.
    pub(super) fn is_part(self) -> bool {
        self.bits().1 < 64
    }
}

/// The sizes that a test uses, and what it adds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widths {
    /// The smallest and the largest size, in bits; nothing if the test uses none.
    bits: Option<(u32, u32)>,
    /// The sum of the magnitudes of all that is added.
    added: Value,
    /// Whether something is subtracted.
    subtracts: bool,
}

impl Widths {
    /// Adds a size to those in use.
    pub(super) fn add(&mut self, width: Width) {
        let (least, most) = width.bits();
        let (low, high) = self.bits.unwrap_or((least, most));
        self.bits = Some((low.min(least), high.max(most)));
    }

    /// Notes that an instruction adds a constant to a number.
    pub(super) fn add_sum(&mut self, addend: Value) {
        self.added = self.added.saturating_add(addend.saturating_abs());
        self.subtracts |= addend < 0;
    }

    /// Returns whether all numbers have 64 bits, so that arithmetic is that of the translation.
    pub(super) fn is_quad(self) -> bool {
        self.bits == Some((64, 64))
    }

    /// Returns the number that stands for a constant of the test. In a test of 32 bits, `0xffffffff` and `-1` are one number. `by` is
    /// the size that a register beside the constant states.
    ///
    /// # Errors
    /// Fails for a constant that is not the same number in all sizes in use, for one that does not fit, and for one that the test's
    /// additions may carry out of the range of its size.
    pub(super) fn constant(self, value: Value, by: Option<Width>, span: &Span) -> Result<Value, Diagnostic> {
        let Some((least, most)) = self.bits else {
            return Ok(value);
        };
        let (low, high) = by.map_or((least, most), Width::bits);
        let (least, most) = (least.min(low), most.max(high));
        let out = |message: String, help: &str| {
            Err(Diagnostic::new(Kind::OutOfRange, span.clone(), message).help(help))
        };
        let max = Value::MAX >> (64 - least);
        let several = least != most;
        if several && (!(0..=max).contains(&value) || self.subtracts) {
            let sizes = format!("in {least} and in {most} bits");
            let message = match self.subtracts {
                true => format!(
                    "the test subtracts, and may have a number below 0, which is not the same {sizes}"
                ),
                false => format!("`{value}` is not the same number {sizes}, and the test uses both"),
            };
            let help = format!(
                "use one size in the whole test, registers and types included, or numbers from 0 to {max}"
            );
            return out(message, &help);
        }
        let value = match (several, least) {
            (false, 64) => return Ok(value),
            (true, _) => value,
            (false, bits) => {
                // All numbers that `bits` bits may be read as, with and without a sign.
                if !(-max - 1..=2 * max + 1).contains(&value) {
                    return out(
                        format!("`{value}` does not fit in the {bits} bits of this test's accesses"),
                        "use movq and 64-bit registers, or a smaller number",
                    );
                }
                // Keeps the lower part and repeats its sign.
                value << (64 - bits) >> (64 - bits)
            }
        };
        if self.added > 0 && value.saturating_abs().saturating_add(self.added) > max {
            return out(
                format!("a sum of `{value}` and of what this test adds may not fit in {least} bits"),
                "use movq and 64-bit registers, or smaller numbers",
            );
        }
        Ok(value)
    }
}
