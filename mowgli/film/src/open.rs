//! Opens pages in the user's browser. Used by `mowgli serve --open` and `loco check --open`.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

/// Starts the system's opener with an address or a file, and does not wait for it.
///
/// # Errors
/// Fails if the opener cannot be started. The error names it.
pub fn open(page: impl AsRef<OsStr>) -> io::Result<()> {
    let opener = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    Command::new(opener)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {opener}: {error}")))
}
