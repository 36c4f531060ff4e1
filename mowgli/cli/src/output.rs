//! Writes to standard output and standard error. It is no error if the reader goes away, and lines fit the terminal.

use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, Write};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};

/// Sets for this process when it prints in colours, as `--color` says it.
pub(crate) fn choose_colours(when: clap::ColorChoice) {
    let choice = match when {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Returns whether to print in colours to `stream`: as [`choose_colours`] has set it, else as the terminal and the variables
/// `NO_COLOR` and `CLICOLOR_FORCE` say.
pub(crate) fn is_coloured(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// Writes a text to standard output. When the reader has gone away (`mowgli check | head`), the text is dropped and the command
/// goes on, because its exit status is still the answer.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a line to standard error. A message that cannot be written is dropped: the command ends as it would otherwise.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes a text to standard output. Lines that are wider than the terminal are broken between words; what is carried over stands
/// four columns further in than its line.
pub(crate) fn print_wrapped(text: &str) -> io::Result<()> {
    match width() {
        Some(width) => print(&wrapped(text, width, None)),
        None => print(text),
    }
}

/// Writes a text to standard output like [`print_wrapped`]; what is carried over stands below the column `indent`.
pub(crate) fn print_columns(text: &str, indent: usize) -> io::Result<()> {
    match width() {
        Some(width) => print(&wrapped(text, width, Some(indent))),
        None => print(text),
    }
}

/// Writes a value as JSON to standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), crate::Error> {
    let text = serde_json::to_string_pretty(value)?;
    print(&text)?;
    print("\n")?;
    Ok(())
}

/// Returns the width of the terminal: the variable `COLUMNS`, or else the width of the terminal behind standard output. A file or
/// a pipe has none, and its lines are never broken.
pub(crate) fn width() -> Option<usize> {
    let stated = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let found = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    stated.or_else(found).map(|width: usize| width.max(40))
}

/// Breaks lines between words; what is carried over stands `carried` columns in, or four further than its line.
pub(crate) fn wrapped(text: &str, width: usize, carried: Option<usize>) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let mut column = 0;
        for word in line.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if column > indent && column + length > width {
                out.truncate(out.trim_end_matches(' ').len());
                column = carried.unwrap_or(indent + 4);
                let _ = write!(out, "\n{:column$}", "");
            }
            out.push_str(word);
            column += word.trim_end_matches('\n').chars().count();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(
            wrapped("  aaa bbb ccc\nx\n", 10, None),
            "  aaa bbb\n      ccc\nx\n"
        );
        assert_eq!(
            wrapped("  aaaaaaaaaaaaaa b\n", 10, None),
            "  aaaaaaaaaaaaaa\n      b\n"
        );
        assert_eq!(wrapped("short\n", 10, None), "short\n");
    }
}
