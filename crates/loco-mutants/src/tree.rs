//! A copy of the workspace, in which mutations are built and checked one after another.
//!
//! The copy has its own target directory, which is kept between runs. Only the crates above the mutated file
//! are therefore built again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use crate::{Misfit, Mutation};

/// The result of trying a mutation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The ladder found a failing execution, after this many seconds.
    Found {
        /// Seconds that the ladder took.
        seconds: f64,
    },
    /// The ladder found nothing.
    Survived {
        /// Seconds that the ladder took.
        seconds: f64,
    },
    /// The mutated code does not compile, so the mutation shows nothing.
    DoesNotBuild,
}

/// The reason why a mutation could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The mutation does not fit the sources.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The copy could not be made or changed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The system's reason.
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
    /// Copies the files that git tracks in the repository at `from`, as they are in the work tree, to `to`.
    ///
    /// # Errors
    /// Returns [`TreeError::Io`].
    pub fn copy(from: &Path, to: &Path) -> Result<Tree, TreeError> {
        let io = |what: String| move |source| TreeError::Io { what, source };
        let listed = Command::new("git")
            .arg("-C")
            .arg(from)
            .args(["ls-files", "-z"])
            .output()
            .map_err(io("running git".into()))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for file in listed.split('\0').filter(|file| !file.is_empty()) {
            let (source, copy) = (from.join(file), to.join(file));
            let Ok(text) = fs::read(&source) else { continue };
            if fs::read(&copy).is_ok_and(|old| old == text) {
                continue; // An unchanged file keeps its time, so that cargo builds nothing for it.
            }
            if let Some(folder) = copy.parent() {
                fs::create_dir_all(folder).map_err(io(format!("making {}", folder.display())))?;
            }
            fs::write(&copy, text).map_err(io(format!("writing {}", copy.display())))?;
        }
        Ok(Tree { root: to.to_owned() })
    }

    /// Builds the code as shipped, so that later messages of a build come from the mutation.
    ///
    /// # Errors
    /// Returns [`TreeError::AsShipped`] if the code does not build.
    pub fn build_as_shipped(&self) -> Result<(), TreeError> {
        match self.build()? {
            true => Ok(()),
            false => Err(TreeError::AsShipped("the code as shipped does not build".into())),
        }
    }

    /// Applies the mutation, builds `loco`, runs the ladder of its object for at most `seconds`, and restores
    /// the code.
    ///
    /// # Errors
    /// Returns [`TreeError`] when the mutation does not fit or the tree cannot be changed.
    pub fn check(&self, mutation: &Mutation, seconds: u64) -> Result<Outcome, TreeError> {
        let path = self.root.join(&mutation.file);
        let io = |source| TreeError::Io {
            what: format!("changing {}", path.display()),
            source,
        };
        let shipped = fs::read_to_string(&path).map_err(io)?;
        let mutated = mutation.apply(&self.root)?;
        fs::write(&path, mutated).map_err(io)?;
        let outcome = self.outcome(mutation, seconds);
        fs::write(&path, shipped).map_err(io)?;
        outcome
    }

    fn outcome(&self, mutation: &Mutation, seconds: u64) -> Result<Outcome, TreeError> {
        if !self.build()? {
            return Ok(Outcome::DoesNotBuild);
        }
        let begun = Instant::now();
        let status = Command::new(self.target().join("release/loco"))
            .args(["check", &mutation.object, "--time", &seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|source| TreeError::Io {
                what: "running loco check".into(),
                source,
            })?;
        let seconds = begun.elapsed().as_secs_f64();
        // Exit code 1 means a failing execution. Any other code except 0 means that the mutated code brought
        // the checker down, which counts as found.
        Ok(match status.code() {
            Some(0) => Outcome::Survived { seconds },
            _ => Outcome::Found { seconds },
        })
    }

    fn build(&self) -> Result<bool, TreeError> {
        let status = Command::new("cargo")
            .args(["build", "--release", "--quiet", "--package", "loco-cli"])
            // Thin link-time optimisation would take most of the time of a build.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
            .env("CARGO_TARGET_DIR", self.target())
            .current_dir(&self.root)
            .stdin(Stdio::null())
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
