//! Reads files of users as text, of a length that somebody may have written: a device gives bytes without end.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

/// The longest text, and the longest line of a longer one.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a text.
///
/// # Errors
/// Returns the system's errors, and [`InvalidData`](io::ErrorKind::InvalidData) for what is no UTF-8 or longer than 64 MiB.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(too_long("text"));
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads the next line, without its end; `None` after the last.
///
/// # Errors
/// Returns the errors of [`read_text`] for a line.
pub(crate) fn read_line(source: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    source.take(BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if line.len() as u64 > BYTES_MAX {
        return Err(too_long("line"));
    }
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") {
        line.pop();
    }
    let line = String::from_utf8(line);
    line.map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn too_long(what: &str) -> io::Error {
    let mebibytes = BYTES_MAX >> 20;
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a {what} of more than {mebibytes} MiB"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_end_is_refused() {
        let zero = Path::new("/dev/zero");
        assert!(read_text(zero).is_err_and(|error| error.to_string() == "a text of more than 64 MiB"));
        let mut zero = io::BufReader::new(File::open(zero).unwrap());
        assert!(read_line(&mut zero).is_err_and(|error| error.to_string() == "a line of more than 64 MiB"));
    }

    #[test]
    fn lines_come_one_by_one() {
        let mut text: &[u8] = b"a\n\nb";
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut text).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["a", "", "b"]);
        assert!(read_line(&mut &b"\xff\n"[..]).is_err());
    }
}
