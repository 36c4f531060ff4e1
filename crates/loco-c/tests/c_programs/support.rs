//! Installing the library, compiling programs, running them as jobs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use loco::fabric::{NodeId, Platform as _, Rendezvous, Secret, Std, var};

use crate::skip::skipped;

/// How long nodes wait for one another.
const PATIENCE: Duration = Duration::from_secs(90);

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

/// Where the library is installed.
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

/// What a process has written.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

impl Installation {
    /// How to compile and link, for a shared library that is found where it is.
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

/// Processes that are the nodes of a job; those that still run when a test ends, however it ends, are killed.
pub struct Job {
    id: String,
    secret: String,
    /// `None` once the nodes have met.
    rendezvous: Option<Rendezvous>,
    address: String,
    nodes: Vec<NodeId>,
    processes: BTreeMap<NodeId, Child>,
}

impl Job {
    /// A job of `nodes` nodes, none of which runs yet. `test` names it.
    pub fn new(test: &str, nodes: u16) -> Job {
        let rendezvous = Rendezvous::on_loopback().expect("a port");
        Job {
            id: test.to_owned(),
            secret: Secret::random_text().expect("randomness"),
            address: rendezvous.address().to_string(),
            rendezvous: Some(rendezvous),
            nodes: (0..nodes).map(NodeId).collect(),
            processes: BTreeMap::new(),
        }
    }

    /// The variables of a node.
    pub fn environment(&self, node: NodeId) -> Vec<(&'static str, String)> {
        vec![
            (var::NODE, node.0.to_string()),
            (var::NODES, self.nodes.len().to_string()),
            (var::LAUNCHER, self.address.clone()),
            (var::JOB, self.id.clone()),
            (var::SECRET, self.secret.clone()),
            (var::FABRIC, "shm".to_owned()),
        ]
    }

    /// Starts `program` as this node.
    pub fn start(&mut self, node: NodeId, program: &Path) {
        let process = Command::new(program)
            .envs(self.environment(node))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        self.processes.insert(node, process);
    }

    /// Lets the nodes meet.
    pub fn meet(&mut self) {
        let rendezvous = self.rendezvous.take().expect("they meet once");
        let secret = Secret::new(self.secret.as_bytes()).expect("a secret");
        let deadline = Std.now().after(PATIENCE);
        rendezvous
            .serve(&self.id, &secret, &self.nodes, deadline)
            .expect("all nodes come");
    }

    /// Waits for the ends of the processes.
    pub fn finish(mut self) -> BTreeMap<NodeId, Output> {
        let processes = std::mem::take(&mut self.processes);
        let ends = processes
            .into_iter()
            .map(|(node, process)| (node, process.wait_with_output().expect("its end")));
        ends.collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _gone_already = process.kill();
            let _status = process.wait();
        }
    }
}

/// Runs `program` as each of `nodes` nodes, which all must succeed; gives what each has written.
pub fn job(test: &str, nodes: u16, program: &Path) -> Vec<String> {
    let mut job = Job::new(test, nodes);
    for node in 0..nodes {
        job.start(NodeId(node), program);
    }
    job.meet();
    let ends = job.finish().into_iter().map(|(node, output)| {
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{node}: {}\n{out}{err}", output.status);
        out
    });
    ends.collect()
}
