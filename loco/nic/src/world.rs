//! The folder where the processes of a world meet that are of one host. Each takes a place, and listens on the socket of that place.
//! Its number, which is the upper half of the numbers of its queue pairs, is that of the place. With several hosts, each has a range
//! of numbers of its own.

use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use loco_host::dispatch::{HostTable, socket_path};
use loco_host::places::{self, Place};

/// The number of bits of a queue pair's number that belong to its process.
pub(crate) const LOCAL_BITS: u32 = 12;
/// Processes have numbers below this.
pub(crate) const PROCESSES: u32 = 1 << (24 - LOCAL_BITS);
/// What the names of a world's files begin with.
pub(crate) const PREFIX: &str = "nic";
/// The kind of the socket for messages between NICs.
const SOCKET: &str = "sock";

/// A process's place in a world.
pub(crate) struct World {
    place: Place,
    /// The folder, opened: paths through it are short enough for the address of a socket.
    pub opened: File,
    /// The number of this process, which no other of the world has.
    pub number: u32,
    hosts: Option<HostTable>,
    /// Where the others connect.
    pub listener: UnixListener,
}

impl World {
    /// Takes a place in the world of a folder, which is made if it is not there. What processes have left that are gone is removed.
    /// `hosts` are all hosts of the world, if there are others.
    ///
    /// # Errors
    /// Fails when the folder cannot be made or written, is another user's, or has no place left.
    pub fn enter(folder: &Path, hosts: Option<&HostTable>) -> io::Result<World> {
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
        let last = hosts.map_or(PROCESSES, HostTable::numbers_each) - 1;
        let (place, listener) = Place::take(folder, PREFIX, last, |place| {
            match UnixListener::bind(socket_path(&opened, PREFIX, place.number(), SOCKET)) {
                // Something that is no socket of ours has the name.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
                Err(error) => Err(named("cannot listen in", folder, &error)),
                Ok(listener) => Ok(Some(listener)),
            }
        })?;
        listener.set_nonblocking(true)?;
        Ok(World {
            number: hosts.map_or(place.number(), |hosts| hosts.number(place.number())),
            place,
            opened,
            hosts: hosts.cloned(),
            listener,
        })
    }

    /// Connects to the process of this host with a number.
    ///
    /// # Errors
    /// Fails when there is none.
    pub fn connect(&self, number: u32) -> io::Result<UnixStream> {
        let place = match &self.hosts {
            None => number,
            Some(hosts) => hosts.place(number).ok_or(io::ErrorKind::NotFound)?,
        };
        UnixStream::connect(socket_path(&self.opened, PREFIX, place, SOCKET))
    }

    /// Returns this process's place in the folder.
    pub fn place(&self) -> u32 {
        self.place.number()
    }

    /// Returns the descriptor whose lock holds the place.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.place.lock()
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.place.folder()
    }

    /// Removes this process's files, and those of processes that are gone.
    pub fn leave(&self) {
        self.place.leave();
        let _ = places::sweep(self.place.folder(), PREFIX);
    }
}

fn named(what: &str, folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_its_place_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let one = World::enter(folder.path(), None).unwrap();
        let two = World::enter(folder.path(), None).unwrap();
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
        let number = World::enter(folder.path(), None).unwrap().number;
        assert_eq!(World::enter(folder.path(), None).unwrap().number, number);
    }

    #[test]
    fn a_name_that_is_taken_makes_the_next_place_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let number = World::enter(folder.path(), None).unwrap().number;
        let name = places::named(PREFIX, number, SOCKET);
        fs::remove_file(folder.path().join(&name)).unwrap();
        fs::create_dir(folder.path().join(&name)).unwrap();
        let world = World::enter(folder.path(), None).unwrap();
        assert_ne!(world.number, number);
        world.leave();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
