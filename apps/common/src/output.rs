//! Standard output and error of a command. `println!` panics when the disk is full or the reader is gone; here the first
//! is an error with its reason, and the second ends the command quietly. Used by every command of this repository that
//! prints a result.

use std::fmt::Display;
use std::io::{self, Write};

/// Exit code when nobody reads the output any more: that of a program killed by SIGPIPE, as shells have it.
pub const OUTPUT_CLOSED: u8 = 128 + 13;

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("writing the output: {0}")]
pub struct OutputError(#[from] io::Error);

impl OutputError {
    /// [`OUTPUT_CLOSED`] if the reader is gone, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.0.kind() {
            io::ErrorKind::BrokenPipe => OUTPUT_CLOSED,
            _ => 1,
        }
    }
}

/// Prints `text` and a newline to standard output, at once.
///
/// # Errors
/// [`OutputError`] when standard output takes no more: its disk is full, or its reader is gone.
pub fn print(text: impl Display) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints `text` and a newline to standard error. What cannot be printed there is lost: there is nowhere else to say it.
pub fn complain(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
