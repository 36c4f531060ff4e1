//! Listeners: their files in the world's folder, the socket of this process, and the threads that read connections.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::addresses;
use super::frames::{Letter, kind};
use super::state::{Arrived, Shared, What};
use crate::engine::nic;
use crate::events::lock;
use crate::ffi::*;
use crate::log;
use crate::verbs::device::own_addresses;

/// Ports that are chosen begin here.
const FIRST_PORT: u16 = 32768;

/// The listeners of this process, by their files.
static LISTENERS: Mutex<Option<HashMap<PathBuf, Arc<Shared>>>> = Mutex::new(None);

fn place() -> (PathBuf, u32) {
    let nic = nic();
    (nic.world.folder().to_owned(), nic.world.number)
}

fn socket(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("cm-{number}.sock"))
}

/// Returns a path to a socket that is short enough for its address.
fn through(folder: &Path, number: u32) -> io::Result<(fs::File, PathBuf)> {
    use std::os::fd::AsRawFd as _;
    let opened = fs::File::open(folder)?;
    let path = format!("/proc/self/fd/{}/cm-{number}.sock", opened.as_raw_fd());
    Ok((opened, path.into()))
}

/// Returns the files of listeners on a port.
fn on_port(folder: &Path, space: u32, port: u16) -> Vec<PathBuf> {
    let prefix = format!("port-{space:x}-{port}-");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// Returns whether a listener's file is of a living process, and has an address.
fn has(path: &Path, address: IpAddr) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| line.parse() == Ok(address))
}

/// Returns the number of the process that a listener's file belongs to.
fn owner(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.rsplit('-').next()?.parse().ok()
}

/// Returns a port on which nobody listens.
pub(super) fn free_port(space: u32) -> u16 {
    let (folder, number) = place();
    let first = u16::try_from(number % 16384).unwrap_or(0);
    let ports = (0..32767).map(|at| FIRST_PORT + first.wrapping_mul(7).wrapping_add(at) % 32767);
    ports
        .into_iter()
        .find(|port| on_port(&folder, space, *port).is_empty())
        .unwrap_or(FIRST_PORT)
}

/// Begins to listen.
///
/// # Errors
/// Fails with `EADDRINUSE` when another living process listens on the port, and when the folder cannot be written.
pub(super) fn listen(shared: &Arc<Shared>, address: SocketAddr, space: u32) -> io::Result<()> {
    let (folder, number) = place();
    for other in on_port(&folder, space, address.port()) {
        let alive = owner(&other).is_some_and(|owner| {
            owner == number
                || through(&folder, owner).is_ok_and(|(_open, path)| UnixStream::connect(path).is_ok())
        });
        let clashes = address.ip().is_unspecified() || has(&other, address.ip());
        if alive && clashes {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
        if !alive {
            let _ = fs::remove_file(&other);
        }
    }
    let mut addresses = vec![address.ip()];
    if address.ip().is_unspecified() {
        addresses = own_addresses();
    }
    let text: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let path = folder.join(format!("port-{space:x}-{}-{number}", address.port()));
    let mut listeners = lock(&LISTENERS);
    let all = match &mut *listeners {
        Some(all) => all,
        none => {
            accept_connections(&folder, number)?;
            none.insert(HashMap::new())
        }
    };
    all.insert(path.clone(), Arc::clone(shared));
    // Whoever sees the file sees all of it.
    let new = folder.join(format!("new-{number}"));
    fs::write(&new, text.join("\n"))?;
    fs::rename(&new, &path)?;
    lock(&shared.inner).listens = Some(path);
    Ok(())
}

/// Ends listening.
pub(super) fn unlisten(shared: &Shared) {
    let Some(path) = lock(&shared.inner).listens.take() else {
        return;
    };
    let _ = fs::remove_file(&path);
    if let Some(all) = &mut *lock(&LISTENERS) {
        all.remove(&path);
    }
}

/// Removes the files of this process's listeners, when it ends.
extern "C" fn leave() {
    if let Ok(mut listeners) = LISTENERS.try_lock()
        && let Some(all) = listeners.take()
    {
        for path in all.keys() {
            let _ = fs::remove_file(path);
            if let (Some(folder), Some(number)) = (path.parent(), owner(path)) {
                let _ = fs::remove_file(socket(folder, number));
            }
        }
    }
}

fn accept_connections(folder: &Path, number: u32) -> io::Result<()> {
    let _ = fs::remove_file(socket(folder, number));
    let (_opened, path) = through(folder, number)?;
    let listener = UnixListener::bind(path)?;
    // SAFETY: the function takes and returns nothing, and does not unwind.
    unsafe { libc::atexit(leave) };
    std::thread::Builder::new()
        .name("loco-nic-cm".to_owned())
        .spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let started = std::thread::Builder::new().spawn(move || greet(&Arc::new(stream)));
                if let Err(error) = started {
                    log::say(format_args!("cannot read a connection: {error}"));
                }
            }
        })?;
    Ok(())
}

/// Takes the first message of a connection, and finds the listener that it is for.
fn greet(stream: &Arc<UnixStream>) {
    let letter = match Letter::receive(stream) {
        Ok(letter) if letter.frame.kind == kind::REQUEST => letter,
        // One who only looks whether somebody lives says nothing.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
        _ => return log::say("closed a connection: it does not begin with a request"),
    };
    let target = addresses::from_bytes(&letter.frame.target);
    let found = target.and_then(|target| listener(u32::from(letter.frame.space), target));
    let Some(listening) = found else {
        let _ = Letter::new(kind::REJECT).send(stream);
        return;
    };
    let events = Arc::clone(&lock(&listening.inner).events);
    let child = Shared::new(Arc::clone(&events), false);
    {
        let mut inner = lock(&child.inner);
        inner.stream = Some(Arc::clone(stream));
        inner.peer = Some(letter.frame);
    }
    let what = What::Request(Box::new(letter), Arc::clone(&child));
    events.push(Arrived {
        shared: listening,
        what,
    });
    read(&child, stream);
}

fn listener(space: u32, target: SocketAddr) -> Option<Arc<Shared>> {
    let listeners = lock(&LISTENERS);
    let all = listeners.as_ref()?;
    let prefix = format!("port-{space:x}-{}-", target.port());
    let found = all.iter().find(|(path, _)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix) && has(path, target.ip())
    });
    found.map(|(_, shared)| Arc::clone(shared))
}

/// Passes on what a connection brings, until it ends.
fn read(shared: &Arc<Shared>, stream: &UnixStream) {
    loop {
        match Letter::receive(stream) {
            Ok(letter) => shared.happens(What::Letter(Box::new(letter))),
            Err(_) => {
                // The other process is gone, or its identifier is.
                shared.happens(What::Letter(Box::new(Letter::new(kind::DISCONNECT))));
                return;
            }
        }
    }
}

/// Connects to the listener of an address and sends a request.
///
/// # Errors
/// Fails when nobody listens there.
pub(super) fn connect(
    shared: &Arc<Shared>,
    target: SocketAddr,
    space: u32,
    request: &Letter,
) -> io::Result<()> {
    let (folder, _) = place();
    let refused = || io::Error::from_raw_os_error(libc::ECONNREFUSED);
    let files = on_port(&folder, space, target.port());
    let file = files
        .into_iter()
        .find(|file| has(file, target.ip()))
        .ok_or_else(refused)?;
    let number = owner(&file).ok_or_else(refused)?;
    let (_opened, path) = through(&folder, number)?;
    let stream = Arc::new(UnixStream::connect(path)?);
    request.send(&stream)?;
    lock(&shared.inner).stream = Some(Arc::clone(&stream));
    let shared = Arc::clone(shared);
    std::thread::Builder::new().spawn(move || read(&shared, &stream))?;
    Ok(())
}

/// Returns the GID of this port that connections use.
pub(super) fn own_gid() -> RawGid {
    let nic = nic();
    let index = usize::from(crate::verbs::device::ADDRESS_GID);
    nic.gids.get(index).copied().unwrap_or_default()
}
