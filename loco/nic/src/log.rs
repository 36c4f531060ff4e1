//! Lines on standard error, each of which names the NIC.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// Writes a line. A closed standard error is no reason to fail.
pub(crate) fn say(what: impl Display) {
    let line = format!("loco nic: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Says, once for each request, that the NIC does not support it, and returns the error for it.
pub(crate) fn unsupported(request: &str) -> i32 {
    once(format_args!("{request} is not supported (EOPNOTSUPP)"));
    libc::EOPNOTSUPP
}

/// Writes a line once.
pub(crate) fn once(what: impl Display) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = what.to_string();
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.clone()) {
        drop(said);
        say(line);
    }
}
