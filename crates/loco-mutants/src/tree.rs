//! A copy of the workspace, in which mutations are built and checked one after another.
//!
//! The copy has its own target directory, kept between runs, so that only the crates above the mutated file are built again.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Misfit, Mutation};

/// How much longer than its time a ladder may take.
const GRACE: Duration = Duration::from_secs(60);
/// Between two looks whether a ladder has ended.
const POLL: Duration = Duration::from_millis(50);

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The ladder found a failing execution, after this many seconds.
    Found {
        /// Seconds that the ladder took.
        seconds: f64,
        /// The rung with that execution; empty if the ladder could not be climbed at all.
        by: String,
    },
    /// The ladder found nothing.
    Survived {
        /// Seconds that the ladder took.
        seconds: f64,
    },
    /// The ladder did not end in its time, and was ended; this does not count as found.
    Hangs {
        /// Seconds until it was ended.
        seconds: f64,
    },
    /// The mutated code does not compile, so it says nothing.
    DoesNotBuild,
}

/// Why a mutation could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The mutation does not fit the sources.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The copy could not be made or changed.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The code as shipped does not build or does not pass its own ladder.
    #[error("{0}")]
    AsShipped(String),
}

/// A copy of the workspace.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Copies the sources of the workspace at `from` to `to`, and takes away there what `from` has no more.
    ///
    /// # Errors
    /// [`TreeError::Io`].
    pub fn copy(from: &Path, to: &Path) -> Result<Tree, TreeError> {
        copy_folder(from, to)?;
        Ok(Tree { root: to.to_owned() })
    }

    /// Builds the code as shipped, so that what a mutation's build says is the mutation's.
    ///
    /// # Errors
    /// [`TreeError::AsShipped`] if it does not build.
    pub fn build_as_shipped(&self) -> Result<(), TreeError> {
        match self.build()? {
            true => Ok(()),
            false => Err(TreeError::AsShipped("the code as shipped does not build".into())),
        }
    }

    /// Applies mutations that no ladder sees two of ([`groups`](crate::groups)), builds them together, runs the ladder of each
    /// one's object for `seconds` at most, and puts the code back. `each` gets every outcome as soon as it is known.
    ///
    /// # Errors
    /// [`TreeError`] when a mutation does not fit or the tree cannot be changed.
    pub fn check<'m>(
        &self,
        group: &[&'m Mutation],
        seconds: u64,
        each: &mut impl FnMut(&'m Mutation, Outcome),
    ) -> Result<(), TreeError> {
        let mut shipped = Vec::new();
        let applied = group
            .iter()
            .try_for_each(|mutation| self.apply(mutation, &mut shipped));
        let built = applied.and_then(|()| self.build());
        let outcome = match built {
            Ok(true) => group.iter().try_for_each(|&mutation| {
                let outcome = self.climb(mutation, seconds)?;
                each(mutation, outcome);
                Ok(())
            }),
            Ok(false) if group.len() == 1 => {
                each(group[0], Outcome::DoesNotBuild);
                Ok(())
            }
            Ok(false) => {
                self.restore(&mut shipped)?;
                return group
                    .iter()
                    .try_for_each(|&alone| self.check(&[alone], seconds, each));
            }
            Err(error) => Err(error),
        };
        self.restore(&mut shipped)?;
        outcome
    }

    /// Applies one mutation; `shipped` gets the file as it was.
    fn apply(&self, mutation: &Mutation, shipped: &mut Vec<(PathBuf, String)>) -> Result<(), TreeError> {
        let path = self.root.join(&mutation.file);
        let text = fs::read_to_string(&path).map_err(changing(&path))?;
        let mutated = mutation.apply(&self.root)?;
        shipped.push((path.clone(), text));
        fs::write(&path, mutated).map_err(changing(&path))
    }

    fn restore(&self, shipped: &mut Vec<(PathBuf, String)>) -> Result<(), TreeError> {
        for (path, text) in shipped.drain(..).rev() {
            fs::write(&path, text).map_err(changing(&path))?;
        }
        Ok(())
    }

    fn climb(&self, mutation: &Mutation, seconds: u64) -> Result<Outcome, TreeError> {
        let running = |source| TreeError::Io {
            what: "running the ladder".into(),
            source,
        };
        let begun = Instant::now();
        let mut child = Command::new(self.target().join("debug/examples/climb"))
            .args([&mutation.object, &seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(running)?;
        // Read by another thread, so that a long text does not stop the child.
        let mut stdout = child.stdout.take();
        let text = thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read is not shown.
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
        // 1 is a failing execution; anything else but 0 is the mutated code bringing the checker down, which is noticed too.
        Ok(match status.map(|status| status.code()) {
            Some(Some(0)) => Outcome::Survived { seconds },
            Some(_) => Outcome::Found {
                seconds,
                by: text.split(':').next().unwrap_or_default().to_owned(),
            },
            None => Outcome::Hangs { seconds },
        })
    }

    fn build(&self) -> Result<bool, TreeError> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args([
                "build",
                "--quiet",
                "--package",
                "loco-check",
                "--example",
                "climb",
            ])
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // The profile optimises the explorer all the same; the objects' code costs more to optimise than to run.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_DEV_CODEGEN_UNITS", "16")
            .env("CARGO_TARGET_DIR", self.target())
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|source| TreeError::Io {
                what: "running cargo".into(),
                source,
            })?;
        Ok(status.success())
    }

    fn target(&self) -> PathBuf {
        self.root.join("target")
    }
}

/// Copies a folder without what is hidden or built. An unchanged file keeps its time, so that nothing is built for it.
fn copy_folder(from: &Path, to: &Path) -> Result<(), TreeError> {
    fs::create_dir_all(to).map_err(changing(to))?;
    let mut kept = Vec::new();
    for entry in fs::read_dir(from).map_err(changing(from))? {
        let entry = entry.map_err(changing(from))?;
        let name = entry.file_name();
        if name == "target" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        let (source, copy) = (entry.path(), to.join(&name));
        kept.push(name);
        if source.is_dir() {
            copy_folder(&source, &copy)?;
            continue;
        }
        let text = fs::read(&source).map_err(changing(&source))?;
        if !fs::read(&copy).is_ok_and(|old| old == text) {
            fs::write(&copy, text).map_err(changing(&copy))?;
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

fn changing(path: &Path) -> impl Fn(io::Error) -> TreeError {
    let what = format!("changing {}", path.display());
    move |source| TreeError::Io {
        what: what.clone(),
        source,
    }
}
