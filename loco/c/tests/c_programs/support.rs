//! Installing the library, compiling programs, running them as jobs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use loco::fabric::{NodeId, var};
use loco_conformance::job::Processes;

use loco_testing::skipped;

/// The folder of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A language of programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
}

impl Language {
    fn compiler(self) -> Command {
        let (program, options) = match self {
            Language::C => ("cc", ["-x", "c", "-std=c99"]),
            Language::Cxx => ("c++", ["-x", "c++", "-std=c++11"]),
        };
        let mut command = Command::new(program);
        command.args(options);
        command
    }

    /// The need that `LOCO_REQUIRE_` names.
    fn need(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Cxx => "CXX",
        }
    }
}

/// Folder of the installed library.
pub struct Installation {
    pub prefix: PathBuf,
}

/// Installs the library that Cargo has built for these tests, once. `None` where the language cannot be compiled here: then the
/// test has been skipped.
pub fn installation(language: Language) -> Option<&'static Installation> {
    static INSTALLATION: OnceLock<Installation> = OnceLock::new();
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("probe-{}", language.need()));
    std::fs::write(&probe, "#include <stdio.h>\n").expect("a place for tests");
    match language.compiler().arg("-fsyntax-only").arg(&probe).output() {
        Err(error) => {
            skipped(language.need(), format!("there is no compiler: {error}"));
            return None;
        }
        Ok(output) if !output.status.success() => {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            skipped(language.need(), format!("the headers are missing: {words}"));
            return None;
        }
        Ok(_) => {}
    }
    Some(INSTALLATION.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        install(&prefix, |command| command);
        Installation { prefix }
    }))
}

/// Runs `install.sh` for `prefix`.
pub fn install(prefix: &Path, more: impl FnOnce(&mut Command) -> &mut Command) {
    let tests = std::env::current_exe().expect("this test");
    let built = tests.parent().expect("the folder of what is built");
    assert!(
        built.join("libloco_c.so").exists(),
        "first: cargo build -p loco-c"
    );
    let mut command = Command::new(here().join("install.sh"));
    command.arg("--prebuilt").arg(built).arg(prefix);
    run(more(&mut command));
}

/// Runs a command that must succeed; gives its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("a process");
    let (out, err) = texts(&output);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}{err}",
        output.status
    );
    out
}

/// Returns the texts that a process has written to its two outputs.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

impl Installation {
    /// Flags to compile and link with a shared library that is found where it is.
    pub fn flags(&self) -> Vec<String> {
        let prefix = self.prefix.display();
        vec![
            format!("-I{prefix}/include"),
            format!("-L{prefix}/lib"),
            "-lloco".to_owned(),
            format!("-Wl,-rpath,{prefix}/lib"),
        ]
    }

    /// Compiles the source below this crate with these flags; warnings are errors.
    pub fn compile(&self, language: Language, source: &str, flags: &[String]) -> PathBuf {
        // Tests run side by side: each has its own file.
        let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let name = source.replace(['/', '.'], "-");
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{name}-{}", language.need()));
        let source = here().join(source);
        let mut compiler = language.compiler();
        compiler.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"]);
        compiler.arg(&source).args(["-x", "none", "-o"]).arg(&program);
        run(compiler.args(flags).arg("-pthread"));
        program
    }
}

/// Starts `program` as a node of `job`, over shared memory.
pub fn start(job: &mut Processes, node: NodeId, program: &Path) {
    start_over("shm", job, node, program);
}

fn start_over(fabric: &str, job: &mut Processes, node: NodeId, program: &Path) {
    let mut command = Command::new(program);
    job.start_heard(node, command.env(var::FABRIC, fabric));
}

/// Runs `program` as each of `nodes` nodes, which all must succeed; gives what each has written.
pub fn job(test: &str, nodes: u16, program: &Path) -> Vec<String> {
    job_over("shm", test, nodes, program)
}

/// Runs `program` as [`job`] does, over `fabric`.
pub fn job_over(fabric: &str, test: &str, nodes: u16, program: &Path) -> Vec<String> {
    let mut job = Processes::new(test, nodes);
    for node in 0..nodes {
        start_over(fabric, &mut job, NodeId(node), program);
    }
    job.rendezvous();
    job.finish_well()
}
