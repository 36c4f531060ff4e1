//! Films of executions and timelines of histories, as a person sees them: Chromium, driven by Playwright
//! (`tests/films/films.test.mjs`), opens them from the disk.
//!
//! Needs what `ci/install-browser` installs; without it this is skipped, and says so, unless `LOCO_REQUIRE_BROWSER` is set.
//! `MOWGLI_BLESS=1` takes the screenshot anew.

#![allow(clippy::unwrap_used)]

#[path = "films/documents.rs"]
mod documents;

use std::path::Path;
use std::process::Command;

#[test]
fn documents_of_executions_and_histories_do_what_they_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/films");
    // Where `ci/install-browser` puts the packages: Node.js finds them beside the file that asks for them.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    let documents = ["film.html", "history.html"].map(|name| folder.join(name));
    std::fs::create_dir_all(&folder).unwrap();
    documents::write_film(&documents[0]);
    documents::write_history(&documents[1]);
    if loco_testing::browser::is_missing(&folder) {
        return;
    }
    let script = folder.join("films.test.mjs");
    std::fs::copy(here.join("films.test.mjs"), &script).unwrap();
    let shared = here.join("../../../../mowgli/cli/tests/page/browser.mjs");
    std::fs::copy(shared, folder.join("browser.mjs")).unwrap();
    let status = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(&script)
        .env("MOWGLI_FILM", &documents[0])
        .env("MOWGLI_HISTORY", &documents[1])
        .env("MOWGLI_SCREENSHOTS", here.join("screenshots"))
        .status()
        .unwrap();
    assert!(status.success(), "what was seen is in {}", folder.display());
}
