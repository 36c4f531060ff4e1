//! Places in a folder: each process of a group takes a number, and its files have that number in their names.
//!
//! A place is held by a lock on a file, which the system releases when the process is gone, however it ended. So whoever comes
//! later knows which files are of nobody, and removes them: [`sweep`].
//!
//! Whatever else is in the folder is left alone. A file, a folder or a pipe that stands where a process wants its own makes a
//! place unusable and nothing worse: the process takes the next one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

/// The kind of the file that is locked.
const LOCK: &str = "lock";
/// The most bytes of a file that are read.
const READ_MAX: u64 = 1 << 16;

/// A number that this process holds in a folder, until it leaves or is gone.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    prefix: String,
    number: u32,
    lock: File,
}

impl Place {
    /// Takes a number from 1 to `last`, and removes the files of processes that are gone. `usable` is asked for each number that
    /// is free; what it returns comes back with the place. `None` makes it try the next.
    ///
    /// # Errors
    /// Fails when the folder cannot be read or written, and when no number is left.
    pub fn take<T>(
        folder: &Path,
        prefix: &str,
        last: u32,
        mut usable: impl FnMut(&Place) -> io::Result<Option<T>>,
    ) -> io::Result<(Place, T)> {
        sweep(folder, prefix)?;
        let first = std::process::id() % last;
        for tried in 0..last {
            let number = (first + tried) % last + 1;
            let Some(lock) = claim(&folder.join(named(prefix, number, LOCK)))? else {
                continue;
            };
            let place = Place {
                folder: folder.to_owned(),
                prefix: prefix.to_owned(),
                number,
                lock,
            };
            match usable(&place) {
                Ok(Some(with)) => return Ok((place, with)),
                Ok(None) => place.leave(),
                Err(error) => {
                    place.leave();
                    return Err(error);
                }
            }
        }
        let text = format!("all {last} places of {} are taken", folder.display());
        Err(io::Error::other(text))
    }

    /// Returns the number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the descriptor whose lock holds the place. A child that inherits it holds the place, too, until it closes it.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Returns the path of this process's file of a kind, which is a name without `/`.
    pub fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(named(&self.prefix, self.number, kind))
    }

    /// Removes this process's files. Call it once, when the process ends: the place is another's from then on.
    pub fn leave(&self) {
        if let Ok(names) = names(&self.folder, &self.prefix) {
            remove(&self.folder, &self.prefix, self.number, &names);
        }
    }
}

/// Returns the name of a file of a place.
pub fn named(prefix: &str, number: u32, kind: &str) -> String {
    format!("{prefix}-{number}.{kind}")
}

/// Returns the number and the kind that a file's name has, if it is one of [`named`].
pub fn parsed<'n>(prefix: &str, name: &'n str) -> Option<(u32, &'n str)> {
    let (digits, kind) = name.strip_prefix(prefix)?.strip_prefix('-')?.split_once('.')?;
    let number: u32 = digits.parse().ok()?;
    // `+5` and `05` are no numbers of ours.
    (number.to_string() == digits).then_some((number, kind))
}

/// Returns the names in a folder that are of places.
///
/// # Errors
/// Fails when the folder cannot be read.
pub fn names(folder: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if parsed(prefix, &name).is_some() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes the files of processes that are gone.
///
/// # Errors
/// Fails when the folder cannot be read.
pub fn sweep(folder: &Path, prefix: &str) -> io::Result<()> {
    let names = names(folder, prefix)?;
    let numbers: BTreeSet<u32> = names
        .iter()
        .filter_map(|name| parsed(prefix, name))
        .map(|(number, _)| number)
        .collect();
    for number in numbers {
        // While the lock is held, nobody comes to this place.
        if let Ok(Some(_lock)) = claim(&folder.join(named(prefix, number, LOCK))) {
            remove(folder, prefix, number, &names);
        }
    }
    Ok(())
}

/// Removes the files of a place, its lock last. Leaves folders and pipes, which no process of the group has made.
fn remove(folder: &Path, prefix: &str, number: u32, names: &[String]) {
    for name in names {
        if parsed(prefix, name).is_some_and(|(owner, kind)| owner == number && kind != LOCK) {
            let _ = fs::remove_file(folder.join(name));
        }
    }
    let _ = fs::remove_file(folder.join(named(prefix, number, LOCK)));
}

/// Reads a small file of another process. Returns an empty text if it cannot be read, or is no file: a pipe in its
/// place would block.
pub fn read(path: &Path) -> String {
    let mut text = String::new();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(file) = open(path, flags, Mode::empty()).map(File::from)
        && file.metadata().is_ok_and(|found| found.is_file())
        && file.take(READ_MAX).read_to_string(&mut text).is_err()
    {
        text.clear();
    }
    text
}

/// Locks a file. Returns `None` if a living process has it, or if what is there is no file.
fn claim(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(_) if fs::symlink_metadata(path).is_ok() => return Ok(None),
        Err(error) => {
            let text = format!("cannot write {}: {error}", path.display());
            return Err(io::Error::new(io::Error::from(error).kind(), text));
        }
    };
    let here = file.metadata()?;
    if !here.is_file() || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // One who left may have removed the file between the two calls.
    let same =
        fs::symlink_metadata(path).is_ok_and(|there| here.ino() == there.ino() && here.dev() == there.dev());
    Ok(same.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path) -> Place {
        Place::take(folder, "it", 100, |_| Ok(Some(()))).unwrap().0
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn every_process_has_its_place_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (take(folder.path()), take(folder.path()));
        assert_ne!(one.number(), two.number());
        fs::write(one.file("data"), "1").unwrap();
        one.leave();
        assert_eq!(count(folder.path()), 1);
        two.leave();
        assert_eq!(count(folder.path()), 0);
    }

    #[test]
    fn what_the_dead_have_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ["it-5", "it-x.data", "it-05.data", "other-5.data", "it-+6.data"];
        for name in kept {
            fs::write(folder.path().join(name), "kept").unwrap();
        }
        let alive = take(folder.path());
        fs::write(alive.file("data"), "alive").unwrap();
        let gone = take(folder.path());
        fs::write(gone.file("data"), "gone").unwrap();
        fs::write(folder.path().join("it-77.data"), "of one whose lock is gone").unwrap();
        // The lock goes with the process, and here with the place.
        drop(gone);
        sweep(folder.path(), "it").unwrap();
        assert_eq!(count(folder.path()), kept.len() + 2);
        assert_eq!(read(&alive.file("data")), "alive");
    }

    #[test]
    fn garbage_in_the_way_is_stepped_over() {
        let folder = tempfile::tempdir().unwrap();
        for number in 1..=98 {
            fs::create_dir(folder.path().join(named("it", number, LOCK))).unwrap();
        }
        let pipe = folder.path().join(named("it", 99, LOCK));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read(&pipe), "");
        assert_eq!(read(folder.path()), "");
        assert_eq!(take(folder.path()).number(), 100);
        let held = take(folder.path());
        let full = Place::take(folder.path(), "it", 100, |_| Ok(Some(())));
        assert!(full.unwrap_err().to_string().contains("are taken"));
        drop(held);
    }
}
