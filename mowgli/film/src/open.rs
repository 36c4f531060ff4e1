//! Opens pages in the user's browser. Used by `mowgli serve --open` and `loco check --open`.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

use crate::null_device;

/// Starts the system's opener with an address or a file, and does not wait for it.
///
/// # Errors
/// Fails if the opener cannot be started, or if there is no null device. The error names which.
pub fn open(page: impl AsRef<OsStr>) -> io::Result<()> {
    let opener = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    Command::new(opener)
        .arg(page)
        .stdin(null_device()?)
        .stdout(null_device()?)
        .stderr(null_device()?)
        .spawn()
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {opener}: {error}")))
}
