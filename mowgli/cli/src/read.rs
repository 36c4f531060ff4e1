//! Reads files, but never more of them than is of use: a device such as `/dev/zero` has no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::Error;

/// Most bytes of a list of tests.
pub(crate) const LIST_BYTES_MAX: u64 = 16 << 20;

/// Most bytes of a command's own output that a command reads again: shares of a run, and manifests.
pub(crate) const RESULT_BYTES_MAX: u64 = 256 << 20;

/// Reads a file up to `max` bytes and one more, by which a parser with this limit sees that the file is longer.
///
/// # Errors
/// Returns the system's error, with the path.
pub(crate) fn start(path: &Path, max: u64) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|source| error(path, source))?;
    first(file, path, max)
}

/// Reads standard input as [`start`] reads a file.
///
/// # Errors
/// Returns the system's error.
pub(crate) fn standard_input(max: u64) -> Result<Vec<u8>, Error> {
    first(io::stdin(), Path::new("standard input"), max)
}

fn first(from: impl Read, path: &Path, max: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = from.take(max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|source| error(path, source))?;
    Ok(bytes)
}

/// Reads a whole file as text, if it has at most `max` bytes. `what` says what such a file is.
///
/// # Errors
/// Fails with the system's error, for a text that is not UTF-8, and for a file that is longer; the error then names the limit
/// and the remedy.
pub(crate) fn text(path: &Path, max: u64, what: &str) -> Result<String, Error> {
    let bytes = start(path, max)?;
    if bytes.len() as u64 > max {
        return Err(Error::Usage(format!(
            "{} has more than {} MiB, the most that {what} may have: name the right file, or split it",
            path.display(),
            max >> 20
        )));
    }
    String::from_utf8(bytes)
        .map_err(|bad| error(path, io::Error::new(io::ErrorKind::InvalidData, bad.utf8_error())))
}

/// Names the path in an error of the system.
pub(crate) fn error(path: &Path, source: io::Error) -> Error {
    Error::Read {
        path: path.display().to_string(),
        source,
    }
}
