//! A copy of the workspace, in which all mutations are built at once and tried one after another.
//!
//! The copy has its own target directory, kept between runs. A file is written only if its text changes, so that a
//! second run builds nothing. The mutations that [`crate::schemata`] keeps apart are built alone.
//!
//! Used by the command `loco-mutants`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schemata::{Schemata, VARIABLE};
use crate::{Misfit, Mutation};

/// The time that a ladder may take beyond its own.
const GRACE: Duration = Duration::from_secs(60);
/// The time between checks whether a ladder has ended.
const POLL: Duration = Duration::from_millis(10);
/// Ticks a second of the times in `/proc`, which Linux fixes for programs (`USER_HZ`).
const TICKS: f64 = 100.0;

/// The outcome of a mutation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The ladder found a failing execution.
    Found {
        /// Seconds that the ladder took.
        seconds: f64,
        /// Seconds of processor time that it took.
        processor: f64,
        /// The world or client with that execution; empty if the ladder could not be run at all.
        by: String,
    },
    /// The ladder found nothing.
    Survived {
        /// Seconds that the ladder took.
        seconds: f64,
        /// Seconds of processor time that it took.
        processor: f64,
    },
    /// The ladder did not end in its time, and was ended; this does not count as found.
    Hangs {
        /// Seconds until it was ended.
        seconds: f64,
    },
    /// The mutated code does not compile, so it says nothing.
    DoesNotBuild,
}

/// The reason that a mutation could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The mutation does not fit the sources.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The copy could not be made or changed.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The ladder of an object fails with the code as shipped, so it says nothing about mutations.
    #[error("the ladder of {object} fails without a mutation, in world '{by}': mend that first")]
    ShippedFails {
        /// The object.
        object: String,
        /// The world; empty if the checker crashed.
        by: String,
    },
    /// The code as shipped does not build; the compiler's messages.
    #[error("the code as shipped does not build:\n{0}")]
    AsShipped(String),
}

/// A copy of the workspace.
pub struct Tree {
    from: PathBuf,
    root: PathBuf,
    /// The files whose text may differ from the shipped one.
    laid: BTreeSet<String>,
    mutations: Vec<Mutation>,
    apart: BTreeSet<usize>,
    trial: Trial,
    /// The programs that are built, by package.
    programs: BTreeMap<String, PathBuf>,
}

/// What tries mutations.
enum Trial {
    /// An example of a package.
    Example {
        package: &'static str,
        example: &'static str,
    },
    /// The tests within the libraries of [`PROTOCOLS`].
    Models,
}

/// Explores the ladder of an object.
const LADDERS: Trial = Trial::Example {
    package: "loco-check",
    example: "ladder",
};
/// Runs litmus tests on a fabric over a network that is played.
const NETWORKS: Trial = Trial::Example {
    package: "loco-litmus",
    example: "played",
};
/// Explores the worlds of the agreement on who is in.
const MESH: Trial = Trial::Example {
    package: "loco-mesh-check",
    example: "mesh",
};
/// The lock-free protocols: for each the package that has it, and the tests of its library that are to find mutations.
const PROTOCOLS: [(&str, &str, &str); 5] = [
    ("gate", "loco-shm", "gate::model"),
    ("bell", "loco-shm", "bell::model"),
    ("back-off", "loco-host", "backoff::"),
    ("send-queue", "loco-verbs", "window::model"),
    ("slots", "loco-rdma", "slots::model"),
];
/// Runs a program at random under the model.
const PROGRAMS: Trial = Trial::Example {
    package: "loco-programs",
    example: "program",
};
/// The litmus tests by which missing purchases are to be found, from the root of the workspace: those of the fabrics' orders, those
/// of operations that are held, those of flushes, and those of the catalogue.
const TESTS: [&str; 4] = [
    "checkers/litmus/tests/demanded",
    "checkers/litmus/tests/held",
    "checkers/litmus/tests/flushed",
    "litmus/ordering",
];

impl Tree {
    /// Copies the sources of the workspace at `from` to `to`, with `mutations` in them, removes files that `from`
    /// does not have any more, and builds. The mutations are either all [purchases](Mutation::network) or none is,
    /// and likewise for those of [the mesh](Mutation::is_of_mesh), of [lock-free code](Mutation::lock_free) and for
    /// [livelocks](Mutation::livelock).
    ///
    /// # Errors
    /// Returns [`TreeError`] when a mutation does not fit, the copy cannot be written, or the code as shipped does
    /// not build.
    pub fn build(from: &Path, to: &Path, mutations: Vec<Mutation>) -> Result<Tree, TreeError> {
        // Cargo runs in the copy, where a relative path would name another folder.
        let root = std::path::absolute(to).map_err(|source| TreeError::Io {
            what: format!("finding {}", to.display()),
            source,
        })?;
        let trial = match mutations.first() {
            Some(mutation) if mutation.network.is_some() => NETWORKS,
            Some(mutation) if mutation.is_of_mesh() => MESH,
            Some(mutation) if mutation.lock_free => Trial::Models,
            Some(mutation) if mutation.program.is_some() => PROGRAMS,
            _ => LADDERS,
        };
        let mut tree = Tree {
            from: from.to_owned(),
            root,
            laid: BTreeSet::new(),
            mutations,
            apart: BTreeSet::new(),
            trial,
            programs: BTreeMap::new(),
        };
        tree.weave()?;
        Ok(tree)
    }

    /// Returns the numbers of the mutations that are built alone, which takes a while for each.
    pub fn apart(&self) -> &BTreeSet<usize> {
        &self.apart
    }

    /// Runs the ladder of a mutation's object, or generated clients of the size `clients` on it, for `seconds` at most; for a
    /// purchase, litmus tests on its network; for one of the mesh, its worlds; for one of lock-free code, its tests under loom. For a
    /// [livelock](Mutation::livelock), asks whether every call of its world ends, or explores the world if `clients` is `--world`.
    ///
    /// # Errors
    /// Returns [`TreeError`] when the tree cannot be changed or the ladder cannot be started.
    pub fn check(
        &mut self,
        number: usize,
        seconds: u64,
        clients: Option<&str>,
    ) -> Result<Outcome, TreeError> {
        let mutation = &self.mutations[number];
        let explore = |tree: &Tree| tree.explore(number, true, seconds, clients);
        if !self.apart.contains(&number) {
            return explore(self);
        }
        let mutated = mutation.apply(&mutation.shipped(&self.from)?)?;
        self.lay([(mutation.file.clone(), mutated)].into())?;
        match self.cargo()? {
            Built::Yes => explore(self),
            Built::No { .. } => Ok(Outcome::DoesNotBuild),
        }
    }

    /// Builds all mutations in one tree, except those that the compiler refuses.
    fn weave(&mut self) -> Result<(), TreeError> {
        loop {
            let woven = Schemata::weave(&self.from, &self.mutations, self.apart.clone())?;
            self.apart.clone_from(&woven.apart);
            let texts = woven
                .files
                .iter()
                .map(|(file, woven)| (file.clone(), woven.text.clone()))
                .collect();
            if self.laid.is_empty() {
                copy_folder(&self.from, &self.root, Path::new(""), &texts)?;
                self.laid = texts.into_keys().collect();
            } else {
                self.lay(texts)?;
            }
            let (places, said) = match self.cargo()? {
                Built::Yes => return Ok(()),
                Built::No { places, said } => (places, said),
            };
            let blamed: BTreeSet<usize> = places
                .iter()
                .flat_map(|place| woven.blamed(&place.file, place.first..=place.last))
                .collect();
            if blamed.is_empty() {
                return Err(TreeError::AsShipped(said));
            }
            self.apart.extend(blamed);
        }
    }

    /// Gives these files these texts, and gives files that were changed before the text as shipped.
    fn lay(&mut self, texts: BTreeMap<String, String>) -> Result<(), TreeError> {
        for file in self.laid.iter().filter(|file| !texts.contains_key(*file)) {
            let path = self.from.join(file);
            let shipped = fs::read_to_string(&path).map_err(changing(&path))?;
            write(&self.root.join(file), shipped.as_bytes())?;
        }
        for (file, text) in &texts {
            write(&self.root.join(file), text.as_bytes())?;
        }
        self.laid.extend(texts.into_keys());
        Ok(())
    }

    /// Does what [`check`](Tree::check) does with the code as shipped, for a second. A harness that fails then would count every
    /// mutation as found.
    ///
    /// # Errors
    /// Returns [`TreeError::ShippedFails`] if that finds something or crashes.
    pub fn check_shipped(&self, number: usize) -> Result<(), TreeError> {
        match self.explore(number, false, 1, None)? {
            Outcome::Found { by, .. } => Err(TreeError::ShippedFails {
                object: self.mutations[number].object.clone(),
                by,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the arguments of the program that tries a mutation.
    fn arguments(&self, number: usize, seconds: u64, clients: Option<&str>) -> Vec<String> {
        let mutation = &self.mutations[number];
        let seconds = seconds.to_string();
        if mutation.is_of_mesh() {
            return vec![seconds];
        }
        if mutation.lock_free {
            // Tests that leave a part of the protocol out by themselves say nothing about the shipped one.
            let (_, tests) = protocol(mutation);
            return [tests, "--skip", "::without::"].map(str::to_owned).to_vec();
        }
        if let Some(program) = &mutation.program {
            let call = program.split_whitespace().map(str::to_owned);
            return [seconds].into_iter().chain(call).collect();
        }
        let Some(network) = &mutation.network else {
            let own = [mutation.object.clone(), seconds];
            let asked = clients.or(mutation.livelock.is_some().then_some("--liveness"));
            let options = asked
                .map(str::to_owned)
                .into_iter()
                .chain(mutation.livelock.clone());
            return own.into_iter().chain(options).collect();
        };
        let folders = match &mutation.tests {
            Some(folder) => vec![folder.as_str()],
            None => TESTS.to_vec(),
        };
        let tests = folders
            .into_iter()
            .map(|folder| self.root.join(folder).display().to_string());
        let limits = ["--runs", "100", "--batch", "50", "--until-forbidden", &seconds];
        let options = limits.into_iter().chain(network.split_whitespace());
        tests.chain(options.map(str::to_owned)).collect()
    }

    /// Runs the ladder with a mutation, or with the code as shipped in its place.
    fn explore(
        &self,
        number: usize,
        is_mutated: bool,
        seconds: u64,
        clients: Option<&str>,
    ) -> Result<Outcome, TreeError> {
        let running = |source| TreeError::Io {
            what: "running the ladder".into(),
            source,
        };
        let mutated = match is_mutated {
            true => number.to_string(),
            false => String::new(),
        };
        let begun = Instant::now();
        let before = processor_time_of_children();
        let package = match self.trial {
            Trial::Example { package, .. } => package,
            Trial::Models => protocol(&self.mutations[number]).0,
        };
        let program = self.programs.get(package).ok_or_else(|| TreeError::Io {
            what: format!("finding what was built of {package}"),
            source: io::ErrorKind::NotFound.into(),
        })?;
        let mut child = Command::new(program)
            .args(self.arguments(number, seconds, clients))
            .env(VARIABLE, mutated)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(running)?;
        // Read by another thread, so that a long text does not stop the child.
        let mut stdout = child.stdout.take();
        let text = thread::spawn(move || {
            let mut text = String::new();
            // Unreadable output is not shown.
            let _ = stdout.as_mut().map(|out| out.read_to_string(&mut text));
            text
        });
        let patience = Duration::from_secs(seconds) + GRACE;
        let status = loop {
            match child.try_wait().map_err(running)? {
                Some(status) => break Some(status),
                None if begun.elapsed() > patience => {
                    child.kill().map_err(running)?;
                    child.wait().map_err(running)?;
                    break None;
                }
                None => thread::sleep(POLL),
            }
        };
        let text = text.join().unwrap_or_default();
        let seconds = begun.elapsed().as_secs_f64();
        // No other child ends meanwhile.
        let processor = processor_time_of_children() - before;
        // 1 is a failing execution. Any other status but 0 means that the mutated code crashed the checker, which is
        // noticed too.
        Ok(match status.map(|status| status.code()) {
            Some(Some(0)) => Outcome::Survived { seconds, processor },
            Some(_) => Outcome::Found {
                seconds,
                processor,
                by: match self.trial {
                    Trial::Example { .. } => text.split(':').next().unwrap_or_default().to_owned(),
                    Trial::Models => failed_test(&text).to_owned(),
                },
            },
            None => Outcome::Hangs { seconds },
        })
    }

    /// Builds the programs that try mutations.
    fn cargo(&mut self) -> Result<Built, TreeError> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        match self.trial {
            Trial::Example { package, example } => {
                command.args(["build", "--package", package, "--example", example]);
                // The profile optimises the explorer. The objects' code costs more to optimise than to run.
                command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
            }
            Trial::Models => {
                command.args(["test", "--no-run", "--lib"]);
                let packages: BTreeSet<_> = PROTOCOLS.iter().map(|(_, package, _)| package).collect();
                for package in packages {
                    command.args(["--package", package]);
                }
            }
        }
        let output = command
            .args(["--quiet", "--message-format", "json"])
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", self.target())
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| TreeError::Io {
                what: "running cargo".into(),
                source,
            })?;
        let lines = output.stdout.split(|&byte| byte == b'\n');
        let messages = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap_or_default());
        if output.status.success() {
            self.programs
                .extend(messages.filter_map(|message| program_of(&message)));
            return Ok(Built::Yes);
        }
        let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut places = Vec::new();
        for message in messages {
            let message = &message["message"];
            if message["level"] == "error" {
                said.push_str(message["rendered"].as_str().unwrap_or_default());
                places.extend(places_of(message));
            }
        }
        Ok(Built::No { places, said })
    }

    fn target(&self) -> PathBuf {
        self.root.join("target")
    }
}

/// The result of a build.
enum Built {
    Yes,
    /// The places of the errors, and the compiler's messages.
    No {
        places: Vec<Place>,
        said: String,
    },
}

/// Lines of a source file.
struct Place {
    file: String,
    first: usize,
    last: usize,
}

/// Returns the package that has a mutation of lock-free code, and its tests.
fn protocol(mutation: &Mutation) -> (&'static str, &'static str) {
    let mut protocols = PROTOCOLS.iter().filter(|(name, ..)| *name == mutation.object);
    // A test of the lists makes sure that there is one.
    protocols
        .next()
        .map_or(("", ""), |&(_, package, tests)| (package, tests))
}

/// Returns the package and the path of the program of which cargo says that it is built, if it does.
fn program_of(message: &Value) -> Option<(String, PathBuf)> {
    let path = message["executable"].as_str()?;
    // `path+file:///…/loco/objects#loco-rdma@0.1.0`, or without the name where the folder has it.
    let id = message["package_id"].as_str()?;
    let (folder, name) = id.rsplit_once('#')?;
    let name = match name.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next()?,
    };
    Some((name.to_owned(), path.into()))
}

/// Returns the first test that failed in the output of a program of tests, or that it was in when it ended.
fn failed_test(output: &str) -> &str {
    let tests = output.lines().filter_map(|line| line.strip_prefix("test "));
    let mut failed = tests.filter(|line| line.ends_with("FAILED"));
    let name = failed.next().and_then(|line| line.split(' ').next());
    name.unwrap_or_default()
}

/// Returns the places that an error of the compiler marks as its own.
fn places_of(message: &Value) -> Vec<Place> {
    let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    spans
        .iter()
        .filter(|span| span["is_primary"] == true)
        .filter_map(|span| {
            Some(Place {
                file: plain(span["file_name"].as_str()?),
                first: number(&span["line_start"])?,
                last: number(&span["line_end"])?,
            })
        })
        .collect()
}

/// Returns a path without `folder/..`, which the compiler leaves in the path of a module that another folder has.
fn plain(path: &str) -> String {
    let mut folders = Vec::new();
    for folder in path.split('/') {
        match folder {
            ".." if !folders.is_empty() => drop(folders.pop()),
            _ => folders.push(folder),
        }
    }
    folders.join("/")
}

/// Returns the seconds of processor time of the children of this process that have ended, or 0 if the system does not
/// report them.
fn processor_time_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may have blanks. After it the fields begin with the third.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let of_children = fields.split_whitespace().skip(13).take(2);
    of_children
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// Copies a folder without hidden files and build output. `texts` are the texts of changed files of the workspace,
/// and `place` is the folder's place in it.
fn copy_folder(
    from: &Path,
    to: &Path,
    place: &Path,
    texts: &BTreeMap<String, String>,
) -> Result<(), TreeError> {
    fs::create_dir_all(to).map_err(changing(to))?;
    let mut kept = Vec::new();
    for entry in fs::read_dir(from).map_err(changing(from))? {
        let entry = entry.map_err(changing(from))?;
        let name = entry.file_name();
        if name == "target" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        let (source, copy, place) = (entry.path(), to.join(&name), place.join(&name));
        kept.push(name);
        if source.is_dir() {
            copy_folder(&source, &copy, &place, texts)?;
        } else if let Some(text) = place.to_str().and_then(|place| texts.get(place)) {
            write(&copy, text.as_bytes())?;
        } else {
            write(&copy, &fs::read(&source).map_err(changing(&source))?)?;
        }
    }
    for entry in fs::read_dir(to).map_err(changing(to))? {
        let entry = entry.map_err(changing(to))?;
        let (path, name) = (entry.path(), entry.file_name());
        if name != "target" && !kept.contains(&name) {
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.map_err(changing(&path))?;
        }
    }
    Ok(())
}

/// Writes a file. An unchanged one keeps its time, so that nothing is built for it.
fn write(path: &Path, text: &[u8]) -> Result<(), TreeError> {
    if fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(changing(path))
}

fn changing(path: &Path) -> impl Fn(io::Error) -> TreeError {
    let what = format!("changing {}", path.display());
    move |source| TreeError::Io {
        what: what.clone(),
        source,
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
