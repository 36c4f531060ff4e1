//! `mowgli serve` in a browser: Chromium, driven by Playwright (`tests/page/page.test.mjs`), does what a user would do.
//!
//! Needs Chromium, Node.js and the packages that `ci/install-browser` installs; without them it is skipped, and says so, unless
//! `LOCO_REQUIRE_BROWSER` is set. `MOWGLI_BLESS=1` takes the screenshots anew.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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
    assert_eq!(first.0.wait().unwrap().code(), Some(130));
}

/// A server with 64 files, and more half-open connections than that: it waits until they are closed, and does not spin meanwhile.
#[test]
fn connections_beyond_the_files_of_the_process_are_survived() {
    let script = "ulimit -n 64; exec \"$0\" serve";
    let mut child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_mowgli")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let served = Served(child);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().unwrap().to_owned();
    let host = url.split('/').nth(2).unwrap().to_owned();
    let half_open: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&host).unwrap()).collect();
    let small = "RDMA t\n{ x@1=0; }\n P0@1 ;\n x := 1 ;\nexists (x=1)\n";
    let body = serde_json::json!({ "text": small, "setting": "tso" });
    let found = answer(question(&url, "check", &body));
    assert_eq!(found["conditions"][0]["verdict"], "required", "{found}");
    // Fields 14 and 15 are the time in user and system mode, in hundredths of a second; the second field may contain spaces.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", served.0.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|f| f.parse::<u64>().unwrap()).sum();
    assert!(ticks < 200, "{ticks} hundredths of a second of processor time");
    drop(half_open);
}

/// Asks a question as the page does, and returns the connection on which the answer comes.
fn question(url: &str, name: &str, body: &serde_json::Value) -> TcpStream {
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /{path}api/{name} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> serde_json::Value {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{text}");
    serde_json::from_str(body).unwrap()
}

/// A test with more states than any memory: eight threads that count up and read one another.
fn endless() -> String {
    let row = |cell: &dyn Fn(usize) -> String| (0..8).map(cell).collect::<Vec<_>>().join(" | ") + " ;\n";
    let words: String = (0..8).map(|t| format!("x{t}@1=0; ")).collect();
    let mut text = format!("RDMA endless\n{{ {words}}}\n{}", row(&|t| format!("P{t}@1")));
    for r in 0..6 {
        text += &row(&|t| format!("x{t} := {}", r + 1));
        text += &row(&|t| format!("a{t}{r} := x{}", (t + r + 1) % 8));
    }
    text + "exists (x0=9)\n"
}

#[test]
fn searches_that_reach_the_limit_of_memory_end_and_the_page_stays_usable() {
    let (served, url) = serve(&["--limit", "time=1h,memory=48M"]);
    let machine = serde_json::json!({ "text": endless(), "setting": "rdma-tso", "formula": "x0=9" });
    let three: Vec<TcpStream> = (0..3).map(|_| question(&url, "replay", &machine)).collect();
    for stream in three {
        let answer = answer(stream);
        let limit = answer["limit"].as_str().unwrap_or("");
        assert!(limit.starts_with("memory limit of 48 MiB reached"), "{answer}");
        assert!(answer["schedule"].is_null(), "{answer}");
    }
    // The process itself, and what a search may add between two looks at the limit.
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.0.id())).unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most < 192 << 10, "{most} kB");
    let small = "RDMA SB\n{ x@1=0; y@1=0; }\n P0@1 | P1@1 ;\n x := 1 | y := 1 ;\n a := y | b := x ;\nexists (0:a=0 /\\ 1:b=0)\n";
    let next = serde_json::json!({ "text": small, "setting": "rdma-tso", "formula": "0:a=0 /\\ 1:b=0" });
    let found = answer(question(&url, "replay", &next));
    assert!(
        found["schedule"].is_array() && found["limit"].is_null(),
        "{found}"
    );
}

#[test]
fn the_page_does_what_it_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    if loco_testing::browser::is_missing(&folder) {
        return;
    }
    let (_served, url) = serve(&["--limit", "time=120s,memory=1G"]);
    // Here a search that would not end stops soon.
    let (_hurried, hurried) = serve(&["--limit", "time=5s,memory=1G"]);
    // Node.js finds packages above the file that asks for them.
    let script = folder.join("page.test.mjs");
    std::fs::copy(here.join("page.test.mjs"), &script).unwrap();
    std::fs::copy(here.join("browser.mjs"), folder.join("browser.mjs")).unwrap();
    let status = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(&script)
        .env("MOWGLI_PAGE", &url)
        .env("MOWGLI_HURRIED_PAGE", &hurried)
        .env("MOWGLI_SCREENSHOTS", here.join("screenshots"))
        .status()
        .unwrap();
    assert!(
        status.success(),
        "the browser tests failed; what was seen is in {}",
        folder.display()
    );
}
