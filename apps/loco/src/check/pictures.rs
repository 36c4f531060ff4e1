//! Pictures of the execution that a check ended with: its graph as SVG or DOT, and as a film in a document.
//!
//! Used by every way to check that ends with one execution: worlds of chosen size, ladders, and clients.

use std::path::{Path, PathBuf};

use loco_app::complain;
use loco_sim::{Config, ExecutionGraph, Failure, Film, Schedule, SimError, World, execution_graph};

use super::Args;
use crate::error::CliError;

/// An execution that can be drawn.
pub(super) struct Subject<'a> {
    /// The world or the client.
    pub(super) name: &'a str,
    /// Its schedule, if there is an execution to draw.
    pub(super) schedule: Option<&'a Schedule>,
    /// The judgement on the execution in words.
    pub(super) note: String,
    /// The judgement.
    pub(super) verdict: film::Verdict,
}

impl<'a> Subject<'a> {
    /// Returns the execution that a check ended with: a failure, or the one of `--replay`.
    pub(super) fn of(
        name: &'a str,
        failure: Option<&'a Failure>,
        replayed: Option<&'a Schedule>,
    ) -> Subject<'a> {
        let (note, verdict) = match failure {
            Some(failure) => (failure.summary(), film::Verdict::Violation),
            None => (
                "This execution breaks no promise.\n".to_owned(),
                film::Verdict::Ok,
            ),
        };
        Subject {
            name,
            schedule: failure.map(|failure| &failure.schedule).or(replayed),
            note,
            verdict,
        }
    }
}

impl Args {
    /// Returns whether some picture was asked for.
    pub(super) fn wants_pictures(&self) -> bool {
        self.svg.is_some() || self.dot.is_some() || self.wants_film()
    }

    fn wants_film(&self) -> bool {
        self.html.is_some() || self.open
    }
}

/// Writes the pictures that the options ask for, of an execution of `world`.
pub(super) fn write_world(
    args: &Args,
    subject: &Subject<'_>,
    config: &Config,
    world: impl Fn(&mut World) + Sync,
) -> Result<(), CliError> {
    let graph = |schedule: &Schedule| execution_graph(config, schedule, &world);
    write(args, subject, graph, |schedule| {
        loco_sim::film(config, schedule, &world)
    })
}

/// Writes the pictures that the options ask for.
pub(super) fn write(
    args: &Args,
    subject: &Subject<'_>,
    graph: impl FnOnce(&Schedule) -> Result<ExecutionGraph, SimError>,
    film: impl FnOnce(&Schedule) -> Result<Film, SimError>,
) -> Result<(), CliError> {
    if !args.wants_pictures() {
        return Ok(());
    }
    let Some(schedule) = subject.schedule else {
        nothing_to_draw(subject.name);
        return Ok(());
    };
    let impossible = |error: SimError| CliError::Usage(error.to_string());
    if args.svg.is_some() || args.dot.is_some() {
        let title = format!("{}: {schedule}", subject.name);
        let drawing = graph(schedule).map_err(impossible)?.drawing();
        save(args.svg.as_deref(), || drawing.svg(&title))?;
        save(args.dot.as_deref(), || drawing.dot(&title))?;
    }
    if args.wants_film() {
        let document = document(subject, schedule, &film(schedule).map_err(impossible)?)?;
        let file = args.html.clone().unwrap_or_else(temporary);
        save(Some(&file), || document)?;
        if args.open {
            open(&file);
        }
    }
    Ok(())
}

/// Reports that no picture was written.
pub(super) fn nothing_to_draw(name: &str) {
    complain(format_args!(
        "loco: {name}: no execution failed, so there is nothing to draw and no file was written"
    ));
}

/// Makes the document of a film.
fn document(subject: &Subject<'_>, schedule: &Schedule, film: &Film) -> Result<String, CliError> {
    let heading = film::Heading {
        title: subject.name,
        note: &format!("{}replay: '{schedule}'", subject.note),
        verdict: subject.verdict,
    };
    film::of_execution(heading, film).map_err(CliError::os("making the film"))
}

fn save(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        .map_err(CliError::os("cannot write the picture"))
}

/// Returns the file of a film that is only to be opened.
fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("loco-check-{}.html", std::process::id()))
}

/// Opens a file in the user's browser. Says where it is, so that there is another way if that fails.
fn open(file: &Path) {
    complain(format_args!("loco: the film is in {}", file.display()));
    if let Err(error) = film::open(file) {
        complain(format_args!("loco: {error}; open the file yourself"));
    }
}
