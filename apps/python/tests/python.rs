//! Programs in Python as a user runs them: the module that Cargo has built for these tests, beside the files in Python, and
//! programs of `examples/` and `tests/programs/` as the nodes of a job.
//!
//! Needs Python 3.11 or newer, and for arrays NumPy. What is missing makes a test say *skipped*, or fail where
//! `LOCO_REQUIRE_PYTHON` or `LOCO_REQUIRE_NUMPY` is set, as `test.sh` and `ci/python-wheel` do. `LOCO_TEST_PYTHON` names an interpreter
//! that has the wheel installed, which is then tested in place of what Cargo has built.

#![allow(clippy::unwrap_used)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use loco_testing::launched::{alone, launched, launcher};
use loco_testing::skipped;

/// An interpreter, and where it finds the modules; nowhere special if they are installed.
struct Python {
    program: OsString,
    path: Option<PathBuf>,
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of what Cargo has built: that of this test.
fn built() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().to_owned()
}

/// Makes an empty folder for this process: another one may test at the same time. Removes those of processes that have ended.
fn folder() -> PathBuf {
    const PREFIX: &str = "python-";
    let folders = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for folder in std::fs::read_dir(folders).unwrap().flatten() {
        let name = folder.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let has_ended = |process: &str| !Path::new("/proc").join(process).exists();
        if process.is_some_and(has_ended) {
            // Another process may be removing it, too.
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
    let folder = folders.join(format!("{PREFIX}{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// Puts the modules together, once. `None` where there is no such Python: then the test has been skipped.
fn python() -> Option<&'static Python> {
    static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();
    let found = PYTHON.get_or_init(|| {
        if let Some(program) = std::env::var_os("LOCO_TEST_PYTHON") {
            return Ok(Python { program, path: None });
        }
        let program = OsString::from("python3");
        let new_enough = "import sys; sys.exit(sys.version_info < (3, 11))";
        match Command::new(&program).args(["-c", new_enough]).status() {
            Err(error) => return Err(format!("there is no python3: {error}")),
            Ok(status) if !status.success() => return Err("python3 is older than 3.11".to_owned()),
            Ok(_) => {}
        }
        let path = folder();
        for module in ["loco", "mowgli"] {
            copy(&here().join("python").join(module), &path.join(module));
        }
        let library = built().join("libloco_python.so");
        assert!(library.exists(), "first: cargo build -p loco-python");
        std::os::unix::fs::symlink(library, path.join("loco/_native.abi3.so")).unwrap();
        let path = Some(path);
        Ok(Python { program, path })
    });
    match found {
        Ok(python) => Some(python),
        Err(why) => {
            skipped("PYTHON", why);
            None
        }
    }
}

/// Copies the files of a folder that has no folders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

impl Python {
    /// Lets a command that runs the interpreter find the modules.
    fn found_by<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        match &self.path {
            Some(path) => command.env("PYTHONPATH", path),
            None => command.env_remove("PYTHONPATH"),
        }
    }

    /// Runs a program in no job.
    fn alone(&self, program: &str, arguments: &[&OsStr]) -> Output {
        let mut command = alone(&self.program);
        command.arg(here().join(program)).args(arguments);
        self.found_by(&mut command).output().unwrap()
    }

    /// Runs a program as so many nodes.
    fn job(&self, nodes: usize, program: &str) -> Output {
        let any = built().parent().unwrap().join("any");
        let mut command = launched(any.to_str().unwrap(), nodes, self.program.to_str().unwrap());
        command.arg(here().join(program));
        self.found_by(&mut command).output().unwrap()
    }
}

/// Returns the lines of an output that must be a success, in alphabetical order.
fn lines(output: &Output) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Runs a program as so many nodes, which must all print this line.
fn all_print(nodes: usize, program: &str, line: &str) {
    let Some(python) = python() else { return };
    assert_eq!(lines(&python.job(nodes, program)), vec![line; nodes]);
}

#[test]
fn hello() {
    let Some(python) = python() else { return };
    let said: Vec<_> = (0..2)
        .map(|node| format!("node {node}: 2 nodes are here"))
        .collect();
    assert_eq!(lines(&python.job(2, "examples/hello.py")), said);
}

#[test]
fn the_guides_show_hello() {
    let hello = std::fs::read_to_string(here().join("examples/hello.py")).unwrap();
    for page in ["README.md", "../../README.md", "../../docs/python.md"] {
        let text = std::fs::read_to_string(here().join(page)).unwrap();
        assert!(text.contains(&format!("```python\n{hello}```\n")), "{page}");
    }
}

#[test]
fn objects() {
    let Some(python) = python() else { return };
    let said: Vec<_> = (0..3)
        .map(|node| format!("node {node}: all is as it should be"))
        .collect();
    assert_eq!(lines(&python.job(3, "tests/programs/objects.py")), said);
}

#[test]
fn messages_about_mistakes_name_object_node_and_remedy() {
    all_print(2, "tests/programs/mistakes.py", "every message says what to do");
}

#[test]
fn signals_end_calls_that_wait() {
    all_print(2, "tests/programs/signals.py", "signals are heard");
}

/// The launcher blames the node that ended, and not one for which its interrupted call waited.
#[test]
fn an_interrupted_wait_blames_nobody() {
    let Some(python) = python() else { return };
    let output = python.job(2, "tests/programs/interrupted.py");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("loco: node 0 ended with exit code 3"), "{said}");
}

/// The program makes its end last while a daemon thread waits. Many ends, as it is a matter of time what the thread does then.
#[test]
fn a_thread_that_waits_does_not_hinder_the_end() {
    let Some(python) = python() else { return };
    for _ in 0..25 {
        let output = python.alone("tests/programs/daemon_at_exit.py", &[]);
        assert_eq!(lines(&output), ["the main thread is done"]);
    }
}

#[test]
fn a_process_that_is_in_no_job() {
    let Some(python) = python() else { return };
    let output = python.alone("tests/programs/without_a_launcher.py", &[]);
    assert_eq!(lines(&output), ["[0] 3"]);
}

/// The launcher names the node that raised, and not one that noticed; the others end by themselves.
fn one_is_lost(program: &str, exit_code: Option<i32>) -> Option<String> {
    let python = python()?;
    let any = built().parent().unwrap().join("any");
    let mut command = alone(launcher(any.to_str().unwrap()));
    command.args([
        "run",
        "-n",
        "3",
        "--fabric",
        "shm",
        "--timeout",
        "5m",
        "--keep-going",
        "--no-prefix",
    ]);
    command.arg(&python.program).arg(here().join(program));
    let output = python.found_by(&mut command).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), exit_code, "{out}{err}");
    assert_eq!(out, "the rest is well\n".repeat(2), "{err}");
    Some(err)
}

#[test]
fn an_exception_with_a_lock() {
    let Some(said) = one_is_lost("tests/programs/lost.py", Some(1)) else {
        return;
    };
    assert!(said.contains("RuntimeError: on purpose"), "{said}");
    assert!(said.contains("node 1 ended with exit code 1"), "{said}");
}

#[test]
fn a_lock_that_is_held_at_the_exit() {
    one_is_lost("tests/programs/held_at_exit.py", Some(0));
}

#[test]
fn models() {
    let Some(python) = python() else { return };
    let test = here().join("../../litmus/rdma-tso24/SB3.litmus");
    let model = here().join("../../models/rdma-tso.cat");
    let output = python.alone("tests/programs/models.py", &[test.as_os_str(), model.as_os_str()]);
    assert_eq!(lines(&output), ["verdicts are as stated"]);
}

/// The program that the guide shows asks about a test of the catalogue, whose path begins at the root.
#[test]
fn the_guide_asks_the_models() {
    let Some(python) = python() else { return };
    let root = here().join("../..");
    let guide = std::fs::read_to_string(root.join("docs/python.md")).unwrap();
    let mut blocks = guide.split("```python\n").skip(1);
    let program = blocks.find(|block| block.starts_with("import mowgli")).unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let mut command = alone(&python.program);
    command.args(["-c", program]).current_dir(root);
    let said = lines(&python.found_by(&mut command).output().unwrap());
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("SB3 allowed ["), "{said:?}");
}

#[test]
fn arrays_of_numpy() {
    let Some(python) = python() else { return };
    let has_numpy = Command::new(&python.program)
        .args(["-c", "import numpy"])
        .output()
        .unwrap();
    if !has_numpy.status.success() {
        return skipped("NUMPY", "there is no NumPy");
    }
    all_print(2, "tests/programs/numpy_views.py", "views are arrays");
}
