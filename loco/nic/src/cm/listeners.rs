//! Listeners: their files in the world's folder, the socket of this process, and the threads that read connections.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loco_host::dispatch::{has_address, on_port, port_file, socket_path};
use loco_host::places;

use super::addresses;
use super::frames::{Letter, kind};
use super::line::Line;
use super::state::{Phase, Shared, What};
use crate::abroad::{at_port, is_nobody};
use crate::child::is_child;
use crate::devices::own_addresses;
use crate::engine::{nic, welcome_by};
use crate::events::lock;
use crate::ffi::*;
use crate::log;
use crate::settings::abroad;
use crate::threads::spawn;
use crate::world::PREFIX;

/// The kind of the socket for connections.
const SOCKET: &str = "cm";
/// Ports that are chosen begin here.
const FIRST_PORT: u16 = 32768;
/// For so long, a host is asked for a connection before it counts as unreachable.
const CONNECT_PATIENCE: Duration = Duration::from_secs(4);
/// For so long, a listener that is not there is waited for, and looked for so often.
const LISTEN_PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

/// The listeners of this process, by their files.
static LISTENERS: Mutex<Option<HashMap<PathBuf, Arc<Shared>>>> = Mutex::new(None);

fn place() -> (PathBuf, u32) {
    let nic = nic();
    (nic.world.folder().to_owned(), nic.world.place())
}

/// Connects to the socket of another process, by a path that is short enough for its address.
fn reach(folder: &Path, number: u32) -> io::Result<UnixStream> {
    let opened = fs::File::open(folder)?;
    UnixStream::connect(socket_path(&opened, PREFIX, number, SOCKET))
}

/// Returns the ports that may be chosen, those first that others are less likely to choose.
fn choices(number: u32) -> impl Iterator<Item = u16> {
    let first = u16::try_from(number % 16384).unwrap_or(0);
    (0..32767).map(move |at| FIRST_PORT + first.wrapping_mul(7).wrapping_add(at) % 32767)
}

/// Returns a port on which nobody listens now.
pub(super) fn free_port(space: u32) -> u16 {
    let (folder, number) = place();
    choices(number)
        .find(|port| on_port(&folder, PREFIX, space, *port).is_empty())
        .unwrap_or(FIRST_PORT)
}

/// Takes a port for an identifier that is to listen. It keeps the port, by an empty file, until it is destroyed.
///
/// # Errors
/// Fails with `EADDRNOTAVAIL` when all are taken, and when the folder cannot be written.
pub(super) fn take_port(shared: &Shared, space: u32) -> io::Result<u16> {
    let (folder, number) = place();
    for port in choices(number) {
        let path = folder.join(places::named(PREFIX, number, &port_file(space, port)));
        match fs::File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => drop(made?),
        }
        // Of two processes that take it at once, at most one keeps it.
        if on_port(&folder, PREFIX, space, port).len() == 1 {
            lock(&shared.inner).listens = Some(path);
            return Ok(port);
        }
        let _ = fs::remove_file(&path);
    }
    Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))
}

/// Begins to listen.
///
/// # Errors
/// Fails with `EADDRINUSE` when another living process listens on the port, and when the folder cannot be written.
pub(super) fn listen(shared: &Arc<Shared>, address: SocketAddr, space: u32) -> io::Result<()> {
    let (folder, number) = place();
    let taken = lock(&shared.inner).listens.clone();
    // Two threads may want the same port.
    let mut listeners = lock(&LISTENERS);
    for (owner, file) in on_port(&folder, PREFIX, space, address.port()) {
        if taken.as_ref() == Some(&file) {
            continue;
        }
        let clashes = address.ip().is_unspecified() || has_address(&file, address.ip());
        if clashes && (owner == number || reach(&folder, owner).is_ok()) {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
    }
    let mut addresses = vec![address.ip()];
    if address.ip().is_unspecified() {
        addresses = own_addresses();
    }
    let text: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let path = folder.join(places::named(PREFIX, number, &port_file(space, address.port())));
    let all = match &mut *listeners {
        Some(all) => all,
        none => {
            accept_connections(&folder, number)?;
            none.insert(HashMap::new())
        }
    };
    all.insert(path.clone(), Arc::clone(shared));
    // Whoever sees the file sees all of it.
    let new = folder.join(places::named(PREFIX, number, "new"));
    fs::write(&new, text.join("\n"))?;
    fs::rename(&new, &path)?;
    lock(&shared.inner).listens = Some(path);
    Ok(())
}

/// Ends listening, and gives the port back.
pub(super) fn unlisten(shared: &Shared) {
    let Some(path) = lock(&shared.inner).listens.take() else {
        return;
    };
    // The file is the parent's.
    if is_child() {
        return;
    }
    // Without the file, the port is another's at once: nothing else of the listener may be left by then.
    let mut listeners = lock(&LISTENERS);
    if let Some(all) = &mut *listeners {
        all.remove(&path);
    }
    let _ = fs::remove_file(&path);
}

fn accept_connections(folder: &Path, number: u32) -> io::Result<()> {
    let opened = fs::File::open(folder)?;
    welcome_by(welcome);
    let listener = UnixListener::bind(socket_path(&opened, PREFIX, number, SOCKET))?;
    spawn("loco-nic-cm", move || {
        while let Ok((stream, _)) = listener.accept() {
            let line = Arc::new(Line::Here(stream));
            if let Err(error) = spawn("loco-nic-cm", move || greet(&line)) {
                log::say(format_args!("cannot read a connection: {error}"));
            }
        }
    })
}

/// Reads a connection that a process of another host has made, until it ends.
fn welcome(connection: loco_job::Link) {
    match Line::there(connection) {
        Ok(line) => greet(&Arc::new(line)),
        Err(error) => log::say(format_args!("cannot read a connection: {error}")),
    }
}

/// Takes the first message of a connection, and finds the listener that it is for.
fn greet(stream: &Arc<Line>) {
    let letter = match Letter::receive(stream) {
        Ok(letter) if letter.frame.kind == kind::REQUEST => letter,
        // One who only looks whether somebody lives says nothing.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
        _ => return log::say("closed a connection: it does not begin with a request"),
    };
    let space = u32::from(letter.frame.space);
    let target = addresses::from_bytes(&letter.frame.target);
    let source = addresses::from_bytes(&letter.frame.source);
    let found = target
        .filter(|_| source.is_some())
        .and_then(|target| listener(space, target));
    let Some(listening) = found else {
        let _ = Letter::new(kind::REJECT).send(stream);
        return;
    };
    let events = Arc::clone(&lock(&listening.inner).events);
    let child = Shared::new(events, false, space == RDMA_PS_UDP);
    {
        let mut inner = lock(&child.inner);
        inner.stream = Some(Arc::clone(stream));
        inner.peer = Some(letter.frame);
        if !inner.is_datagram {
            inner.phase = Phase::Asked;
        }
    }
    let what = What::Request(Box::new(letter), Arc::clone(&child));
    listening.happens(what);
    drop(listening);
    read(&child, stream);
}

fn listener(space: u32, target: SocketAddr) -> Option<Arc<Shared>> {
    let listeners = lock(&LISTENERS);
    let all = listeners.as_ref()?;
    let kind = port_file(space, target.port());
    let found = all.iter().find(|(path, _)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_on_port = places::parsed(PREFIX, &name).is_some_and(|(_, of)| of == kind);
        is_on_port && has_address(path, target.ip())
    });
    found.map(|(_, shared)| Arc::clone(shared))
}

/// Passes on what a connection brings, until it ends.
fn read(shared: &Arc<Shared>, stream: &Line) {
    loop {
        match Letter::receive(stream) {
            Ok(letter) => {
                if letter.frame.kind == kind::DISCONNECT {
                    let _ = Letter::new(kind::DISCONNECTED).send(stream);
                }
                shared.happens(What::Letter(Box::new(letter)));
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    log::say(format_args!("closed a connection: {error}"));
                    stream.shut();
                }
                shared.happens(What::Gone);
                return;
            }
        }
    }
}

/// Connects to the listener of an address and sends a request. What comes of it is an event: that nobody listens, too, since a
/// listener may be about to.
///
/// # Errors
/// Fails when the process may have no more threads.
pub(super) fn connect(
    shared: &Arc<Shared>,
    target: SocketAddr,
    space: u32,
    request: &Letter,
) -> io::Result<()> {
    let (shared, request) = (Arc::clone(shared), request.clone());
    spawn("loco-nic-cm", move || match find(target, space) {
        Ok(line) => ask(&shared, &Arc::new(line), &request),
        Err(error) if is_nobody(&error) => shared.happens(What::Letter(Box::new(Letter::new(kind::REJECT)))),
        Err(error) => {
            log::once(format_args!("cannot connect to {}: {error}", target.ip()));
            shared.happens(What::Gone);
        }
    })
}

/// Connects to a listener. One that is not there has a while to come: a request takes time to travel, and programs count on that.
fn find(target: SocketAddr, space: u32) -> io::Result<Line> {
    let begun = Instant::now();
    loop {
        let found = reach_listener(target, space);
        match found {
            Err(error) if is_nobody(&error) && begun.elapsed() < LISTEN_PATIENCE => {
                std::thread::sleep(LOOK);
            }
            found => return found,
        }
    }
}

fn reach_listener(target: SocketAddr, space: u32) -> io::Result<Line> {
    if let Some(abroad) = abroad()
        && let Some(host) = abroad.host_at(target.ip())
    {
        return Line::there(abroad.connect(host, at_port(space, target), CONNECT_PATIENCE)?);
    }
    let (folder, _) = place();
    // The files of processes that are gone may still be there.
    let stream = on_port(&folder, PREFIX, space, target.port())
        .into_iter()
        .filter(|(_, file)| has_address(file, target.ip()))
        .find_map(|(number, _)| reach(&folder, number).ok());
    stream
        .map(Line::Here)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Sends a request, and passes on what comes until the connection ends.
fn ask(shared: &Arc<Shared>, line: &Arc<Line>, request: &Letter) {
    {
        let mut inner = lock(&shared.inner);
        if inner.destroyed {
            return;
        }
        inner.stream = Some(Arc::clone(line));
    }
    if request.send(line).is_err() {
        return shared.happens(What::Gone);
    }
    read(shared, line);
}
