//! Runs the units of a source on several threads and writes their tests, one file a test, as they come.
//!
//! Files and manifest do not depend on the number of workers. A run that is stopped, by Ctrl-C or by a full disk, leaves a
//! folder with which the next run goes on.

use mowgli::counted::counted;
use mowgli::outcome::Limit;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::manifest::{Manifest, Unit, write_error};
use super::source::{Made, Source};
use crate::Error;
use crate::budget::Run;
use crate::shard::Shard;

/// Counts the tests that a run made, or found already made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Tests.
    pub(super) tests: usize,
    /// Outcomes of all tests.
    pub(super) outcomes: usize,
    /// Units that were on disk before.
    pub(super) found: usize,
    /// Units that are not complete, because the run was stopped.
    pub(super) left: usize,
}

impl Totals {
    fn add(&mut self, unit: &Unit) {
        self.tests += unit.tests;
        self.outcomes += unit.outcomes;
    }
}

/// Settings of a run of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    /// Folder of the tests. Without a folder they are made and counted only.
    pub(super) folder: Option<&'a Path>,
    /// The share of the units.
    pub(super) shard: Shard,
    /// Threads that make tests.
    pub(super) workers: usize,
}

/// Makes the tests of a source and writes them.
///
/// # Errors
///
/// Fails when a file cannot be written, or when the folder holds the tests of another source.
pub(super) fn run(
    source: &dyn Source,
    settings: Settings<'_>,
    run: &Run,
    bar: &ProgressBar,
) -> Result<Totals, Error> {
    let units = source.units();
    let manifest = settings
        .folder
        .map(|folder| Manifest::open(folder, &source.describe(), units, settings.shard));
    let mut manifest = manifest.transpose()?;
    let mut totals = Totals::default();
    let mut todo: Vec<usize> = (0..units).filter(|&u| settings.shard.has(u)).collect();
    if let Some(manifest) = &manifest {
        todo.retain(|unit| !manifest.done().contains_key(unit));
        manifest.done().values().for_each(|unit| totals.add(unit));
        totals.found = manifest.done().len();
    }
    bar.set_length((todo.len() + totals.found) as u64);
    bar.set_position(totals.found as u64);
    let cancel = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let written = std::thread::scope(|scope| {
        // As many finished units may wait for the disk as there are workers: memory stays bounded.
        let (send, receive) = sync_channel(settings.workers);
        for _ in 0..settings.workers {
            let (send, next, todo, cancel) = (send.clone(), &next, &todo, &cancel);
            scope.spawn(move || {
                while let Some(&unit) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let made = source.unit(unit, cancel);
                    let is_last = made.is_err();
                    if send.send((unit, made)).is_err() || is_last {
                        return;
                    }
                }
            });
        }
        drop(send);
        let written = write_all(
            &receive,
            settings.folder,
            manifest.as_mut(),
            &mut totals,
            run,
            bar,
        );
        // Workers that are still at a unit stop, and those that wait for the disk find the channel closed.
        cancel.store(true, Ordering::Relaxed);
        drop(receive);
        written
    });
    let done = written?;
    totals.left = todo.len() - done;
    if let Some(manifest) = manifest.filter(|_| totals.left == 0) {
        manifest.finish()?;
    }
    Ok(totals)
}

/// Writes units as they come, until none is left or the run is stopped. Returns how many were written.
fn write_all(
    receive: &Receiver<(usize, Result<Vec<Made>, Limit>)>,
    folder: Option<&Path>,
    mut manifest: Option<&mut Manifest>,
    totals: &mut Totals,
    run: &Run,
    bar: &ProgressBar,
) -> Result<usize, Error> {
    let start = Instant::now();
    let (mut done, mut tests_made) = (0, 0usize);
    loop {
        if run.stopped().is_some() {
            return Ok(done);
        }
        // The wait ends now and then to look at Ctrl-C.
        let (unit, made) = match receive.recv_timeout(Duration::from_millis(50)) {
            Ok(made) => made,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(done),
        };
        let tests = made.map_err(|limit| {
            Error::Usage(format!(
                "the tests of unit {unit} are not all known: {}",
                limit.advice()
            ))
        })?;
        if let Some(folder) = folder {
            write_tests(folder, &tests)?;
        }
        let unit = Unit {
            unit,
            tests: tests.len(),
            outcomes: tests.iter().map(|test| test.outcomes).sum(),
        };
        if let Some(manifest) = manifest.as_deref_mut() {
            manifest.complete(unit)?;
        }
        totals.add(&unit);
        done += 1;
        tests_made += tests.len();
        bar.inc(1);
        let rate = tests_made as f64 / start.elapsed().as_secs_f64().max(0.001);
        bar.set_message(format!("{}, {rate:.0} a second", counted(totals.tests, "test")));
    }
}

fn write_tests(folder: &Path, tests: &[Made]) -> Result<(), Error> {
    for test in tests {
        let path = folder.join(format!("{}.litmus", test.name));
        if let Err(error) = fs::write(&path, &test.text) {
            // Half a test is worse than none. The unit has no line in the manifest, so the next run makes it again.
            let _ = fs::remove_file(&path);
            return Err(write_error(&path, error));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Limits;
    use std::collections::BTreeMap;

    /// Ten units; unit n has n tests.
    struct Triangle;

    impl Source for Triangle {
        fn describe(&self) -> String {
            "triangle".to_owned()
        }

        fn units(&self) -> usize {
            10
        }

        fn unit(&self, unit: usize, _: &AtomicBool) -> Result<Vec<Made>, Limit> {
            let made = |n| Made {
                name: format!("t{unit}-{n}"),
                text: format!("test {n} of {unit}\n"),
                outcomes: unit,
            };
            Ok((0..unit).map(made).collect())
        }
    }

    /// A source whose only unit needs more than a search may do.
    struct Huge;

    impl Source for Huge {
        fn describe(&self) -> String {
            "huge".to_owned()
        }

        fn units(&self) -> usize {
            1
        }

        fn unit(&self, _: usize, _: &AtomicBool) -> Result<Vec<Made>, Limit> {
            Err(Limit::States(7))
        }
    }

    #[test]
    fn a_limit_is_no_end() {
        let settings = Settings {
            folder: None,
            shard: "1/1".parse().unwrap(),
            workers: 2,
        };
        let result = run(
            &Huge,
            settings,
            &Run::start(Limits::default()),
            &ProgressBar::hidden(),
        );
        assert!(result.unwrap_err().to_string().contains("limit of 7 states"));
    }

    fn make(folder: &Path, shard: &str, workers: usize) -> Totals {
        let settings = Settings {
            folder: Some(folder),
            shard: shard.parse().unwrap(),
            workers,
        };
        let limits = Limits::default();
        run(&Triangle, settings, &Run::start(limits), &ProgressBar::hidden()).unwrap()
    }

    fn files(folder: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries
            .map(|e| {
                let name = e.file_name().into_string().unwrap();
                (name, fs::read_to_string(e.path()).unwrap())
            })
            .collect()
    }

    #[test]
    fn the_number_of_workers_changes_nothing() {
        let (one, four) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let totals = make(one.path(), "1/1", 1);
        assert_eq!((totals.tests, totals.outcomes, totals.left), (45, 285, 0));
        assert_eq!(make(four.path(), "1/1", 4), totals);
        assert_eq!(files(one.path()), files(four.path()));
    }

    #[test]
    fn the_shards_of_a_run_are_the_whole() {
        let (whole, shards) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make(whole.path(), "1/1", 2);
        let tests: usize = ["1/3", "2/3", "3/3"]
            .map(|shard| make(shards.path(), shard, 2).tests)
            .iter()
            .sum();
        assert_eq!(tests, 45);
        let of = |folder: &Path| {
            let mut files = files(folder);
            files.retain(|name, _| !name.starts_with("manifest"));
            files
        };
        assert_eq!(of(whole.path()), of(shards.path()));
    }

    #[test]
    fn a_run_goes_on_where_it_was_stopped() {
        let (whole, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make(whole.path(), "1/1", 2);
        make(again.path(), "1/1", 2);
        // The state in which a stop leaves the folder: two lines fewer, and a file that is half written.
        let manifest = again.path().join("manifest.jsonl");
        let text = fs::read_to_string(&manifest).unwrap();
        let kept: Vec<&str> = text.lines().take(9).collect();
        fs::write(&manifest, kept.join("\n") + "\n").unwrap();
        fs::write(again.path().join("t9-0.litmus"), "te").unwrap();
        fs::remove_file(again.path().join("t8-7.litmus")).unwrap();
        let totals = make(again.path(), "1/1", 2);
        assert_eq!((totals.tests, totals.found, totals.left), (45, 8, 0));
        assert_eq!(files(whole.path()), files(again.path()));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("t5-2.litmus")).unwrap();
        let settings = Settings {
            folder: Some(folder.path()),
            shard: Shard::WHOLE,
            workers: 2,
        };
        let limits = Limits::default();
        let result = run(&Triangle, settings, &Run::start(limits), &ProgressBar::hidden());
        let error = result.unwrap_err().to_string();
        assert!(error.contains("t5-2.litmus"), "{error}");
    }
}
