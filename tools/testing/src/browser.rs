//! Says whether this host has a browser for tests.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::skipped;

/// Returns true if Chromium, Node.js or the packages in `folder` are missing, and reports the calling test as
/// [skipped](crate::skipped()) for want of `BROWSER`.
pub fn is_missing(folder: &Path) -> bool {
    let has = |program: &str| {
        let found = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    };
    let lacking = [
        (!has("chromium")).then_some("chromium"),
        (!has("node")).then_some("node"),
        (!folder.join("node_modules/playwright-core").exists()).then_some("playwright-core"),
    ];
    let lacking: Vec<&str> = lacking.into_iter().flatten().collect();
    if lacking.is_empty() {
        return false;
    }
    let why = format!("there is no {}: run ci/install-browser", lacking.join(", no "));
    skipped("BROWSER", why);
    true
}
