//! Helps the command's tests: runs the command, reads its output, and writes tests into folders.
#![allow(clippy::unwrap_used, dead_code)] // Helpers of tests are tests; each test crate uses its part.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the command to its end, without standard input.
pub fn mowgli(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts the exit status; shows the output if it differs.
#[track_caller]
pub fn exits(output: &Output, status: i32) {
    assert_eq!(
        output.status.code(),
        Some(status),
        "{}{}",
        stdout(output),
        stderr(output)
    );
}

/// Returns a folder with one test called `t`, with this condition and statement.
pub fn folder_with(condition: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("RDMA t\n{{ x@1=0; z@2=0; }}\nP0@1 ;\nz^2 := x ;\nx := 1 ;\n{condition}\n");
    write(folder.path(), "t", &text);
    folder
}

/// Writes `NAME.litmus`.
pub fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(format!("{name}.litmus")), text).unwrap();
}

/// Four threads with seven instructions each, nearly all remote, and a condition that shows everything. The
/// search takes far more than a minute.
pub const ENDLESS: &str = "\
RDMA endless
{ x@1=0; a@1=0; b@1=0; y@2=0; c@2=0; d@2=0; z@3=0; w@3=0; e@3=0; f@3=0; }
P0@1     | P1@2     | P2@3     | P3@1     ;
y^2 := x | x^1 := y | y^2 := z | z^3 := 3 ;
a := z^3 | c := w^3 | e := x^1 | w^3 := 4 ;
z^3 := a | w^3 := c | x^1 := e | y^2 := 5 ;
b := y^2 | d := x^1 | f := y^2 | z^3 := 6 ;
x := 1   | y := 1   | z := 1   | y^2 := 7 ;
y^2 := b | x^1 := d | y^2 := f | w^3 := 8 ;
a := z^3 | c := w^3 | e := x^1 | z^3 := 9 ;
locations [x; a; b; y; c; d; z; w; e; f;]
exists (x=99)
";
