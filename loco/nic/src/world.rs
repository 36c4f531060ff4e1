//! The folder where the processes of a world meet. Each takes a number, which is the upper half of the numbers of its queue
//! pairs, and listens on the socket of that number. A lock on a file tells a living process from one that is gone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The number of bits of a queue pair's number that belong to its process.
pub(crate) const LOCAL_BITS: u32 = 12;
/// Processes have numbers below this.
const PROCESSES: u32 = 1 << (24 - LOCAL_BITS);

/// A process's place in a world.
pub(crate) struct World {
    folder: PathBuf,
    /// The folder, opened: paths through it are short enough for the address of a socket.
    opened: File,
    /// The number of this process.
    pub number: u32,
    /// Where the others connect.
    pub listener: UnixListener,
    _lock: File,
}

impl World {
    /// Takes a place in the world of a folder, which is made if it is not there.
    ///
    /// # Errors
    /// Fails when the folder cannot be made or written, is another user's, or has no place left.
    pub fn enter(folder: &Path) -> io::Result<World> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| named("cannot make", folder, &error))?;
        let opened = File::open(folder).map_err(|error| named("cannot open", folder, &error))?;
        let owner = opened.metadata()?.uid();
        let me = rustix::process::geteuid().as_raw();
        if owner != me && me != 0 {
            let text = format!(
                "{} is another user's; choose a folder with --world",
                folder.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let first = std::process::id() % (PROCESSES - 1);
        for tried in 0..PROCESSES - 1 {
            let number = (first + tried) % (PROCESSES - 1) + 1;
            let Some(lock) = claim(&folder.join(format!("nic-{number}.lock")))? else {
                continue;
            };
            let socket = folder.join(socket_name(number));
            let _ = fs::remove_file(&socket);
            let listener = UnixListener::bind(through(&opened, number))
                .map_err(|error| named("cannot listen in", folder, &error))?;
            listener.set_nonblocking(true)?;
            return Ok(World {
                folder: folder.to_owned(),
                opened,
                number,
                listener,
                _lock: lock,
            });
        }
        let text = format!("all {} places of {} are taken", PROCESSES - 1, folder.display());
        Err(io::Error::other(text))
    }

    /// Connects to the process with a number.
    ///
    /// # Errors
    /// Fails when there is none.
    pub fn connect(&self, number: u32) -> io::Result<UnixStream> {
        UnixStream::connect(through(&self.opened, number))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes this process's files.
    pub fn leave(&self) {
        let _ = fs::remove_file(self.folder.join(socket_name(self.number)));
        let _ = fs::remove_file(self.folder.join(format!("nic-{}.lock", self.number)));
    }
}

fn socket_name(number: u32) -> String {
    format!("nic-{number}.sock")
}

fn through(folder: &File, number: u32) -> String {
    format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), socket_name(number))
}

fn named(what: &str, folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", folder.display()))
}

/// Locks a file. Returns `None` if a living process has it.
fn claim(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| named("cannot write", path, &error))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // One who left may have removed the file between the two calls.
    let same = fs::metadata(path).is_ok_and(|there| {
        file.metadata()
            .is_ok_and(|here| here.ino() == there.ino() && here.dev() == there.dev())
    });
    Ok(same.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_its_place_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let one = World::enter(folder.path()).unwrap();
        let two = World::enter(folder.path()).unwrap();
        assert_ne!(one.number, two.number);
        assert!(two.connect(one.number).is_ok());
        one.leave();
        two.leave();
        assert!(two.connect(one.number).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_place_is_free_when_its_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let number = World::enter(folder.path()).unwrap().number;
        assert_eq!(World::enter(folder.path()).unwrap().number, number);
    }
}
