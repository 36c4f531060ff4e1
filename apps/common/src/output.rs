//! Standard output and error of a command. `println!` panics when the disk is full or the reader is gone.
//! Here a full disk is an error with its reason, and a reader that is gone ends the command quietly. Used by
//! every command of this repository that prints a result.

use std::fmt::Display;
use std::io::{self, Write};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};

/// The exit code when nobody reads the output any more. Shells report it for a program killed by SIGPIPE.
pub const OUTPUT_CLOSED: u8 = 128 + 13;

/// Standard output cannot be written any more.
#[derive(Debug, thiserror::Error)]
#[error("writing the output: {0}")]
pub struct OutputError(#[from] io::Error);

impl OutputError {
    /// Returns [`OUTPUT_CLOSED`] if the reader is gone, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.0.kind() {
            io::ErrorKind::BrokenPipe => OUTPUT_CLOSED,
            _ => 1,
        }
    }
}

/// Sets for this process when it prints in colours, as `--color` says it.
pub fn choose_colours(when: clap::ColorChoice) {
    let choice = match when {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Returns whether to print in colours to `stream`: as [`choose_colours`] has set it, else as the terminal and the variables
/// `NO_COLOR` and `CLICOLOR_FORCE` say.
pub fn is_coloured(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// Prints `text` and a newline to standard output, at once.
///
/// # Errors
/// Returns [`OutputError`] when standard output cannot be written: its disk is full, or its reader is gone.
pub fn print(text: impl Display) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes a number of things: `1 node`, `2 nodes`. The plural of `thing` must end in `s`.
pub fn counted<N: Display + PartialEq + From<bool>>(n: N, thing: &str) -> String {
    let plural = if n == N::from(true) { "" } else { "s" };
    format!("{n} {thing}{plural}")
}

/// Prints `text` and a newline to standard error. A text that cannot be printed is lost, because there is no
/// other place for it.
pub fn complain(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
