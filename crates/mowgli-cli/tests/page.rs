//! `mowgli serve` in a browser: Chromium, driven by Playwright (`tests/page/page.test.mjs`), does what a user would do.
//!
//! Needs Chromium, Node.js and the packages that `ci/install-browser` installs; without them it is skipped, and says so, unless
//! `LOCO_REQUIRE_BROWSER` is set. `MOWGLI_BLESS=1` takes the screenshots anew.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and returns it with the address of its page.
fn serve(args: &[&str]) -> (Served, String) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .arg("serve")
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let output = server.stdout.take().expect("a pipe");
    let served = Served(server);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a first line");
    let url = line.split_whitespace().last().expect("an address").to_owned();
    (served, url)
}

#[test]
fn a_port_that_is_taken_is_an_error_and_ctrl_c_is_the_end() {
    let (mut first, url) = serve(&[]);
    let port = url.split([':', '/']).nth(4).unwrap();
    let second = Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .args(["serve", "--port", port])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    let message = String::from_utf8_lossy(&second.stderr);
    assert!(message.contains("--port 0 takes a free port"), "{message}");
    let interrupted = Command::new("kill")
        .args(["-INT", &first.0.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    assert_eq!(first.0.wait().unwrap().code(), Some(0));
}

#[test]
fn the_page_does_what_it_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
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
    if !lacking.is_empty() {
        let message = format!("no {}: run ci/install-browser", lacking.join(", no "));
        assert!(std::env::var_os("LOCO_REQUIRE_BROWSER").is_none(), "{message}");
        eprintln!("SKIPPED: the page is not tested in a browser: {message}");
        return;
    }
    // A search that would not end stops after two seconds.
    let (_served, url) = serve(&["--limit", "time=2s,memory=1G"]);
    // Node.js finds packages above the file that asks for them.
    let script = folder.join("page.test.mjs");
    std::fs::copy(here.join("page.test.mjs"), &script).unwrap();
    let status = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(&script)
        .env("MOWGLI_PAGE", &url)
        .env("MOWGLI_SCREENSHOTS", here.join("screenshots"))
        .status()
        .unwrap();
    assert!(
        status.success(),
        "the browser tests failed; what was seen is in {}",
        folder.display()
    );
}
