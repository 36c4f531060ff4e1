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

/// The identifiers of this process that have a port, by its file. Those of one port listen at different addresses.
static HOLDERS: Mutex<Option<HashMap<PathBuf, Vec<Holder>>>> = Mutex::new(None);
/// True once somebody accepts connections for all of them.
static ACCEPTS: Mutex<bool> = Mutex::new(false);

/// An identifier that has a port.
struct Holder {
    shared: Arc<Shared>,
    /// Where it listens: nowhere, if it has the port and does not listen yet.
    addresses: Vec<IpAddr>,
}

/// Takes an identifier off a port. Returns false if nobody has the port any more.
fn leave(holders: &mut HashMap<PathBuf, Vec<Holder>>, path: &Path, shared: &Shared) -> bool {
    let Some(of_port) = holders.get_mut(path) else {
        return false;
    };
    of_port.retain(|holder| !std::ptr::eq(&*holder.shared, shared));
    if of_port.is_empty() {
        holders.remove(path);
    }
    holders.contains_key(path)
}

/// Writes the addresses of all holders of a port into its file. Whoever sees the file sees all of it.
fn publish(folder: &Path, number: u32, path: &Path, holders: &[Holder]) -> io::Result<()> {
    let addresses = holders.iter().flat_map(|holder| &holder.addresses);
    let text: Vec<String> = addresses.map(IpAddr::to_string).collect();
    let new = folder.join(places::named(PREFIX, number, "new"));
    fs::write(&new, text.join("\n"))?;
    fs::rename(&new, path)
}

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
pub(super) fn take_port(shared: &Arc<Shared>, space: u32) -> io::Result<u16> {
    let (folder, number) = place();
    let mut holders = lock(&HOLDERS);
    for port in choices(number) {
        let path = folder.join(places::named(PREFIX, number, &port_file(space, port)));
        match fs::File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => drop(made?),
        }
        // Of two processes that take it at once, at most one keeps it.
        if on_port(&folder, PREFIX, space, port).len() == 1 {
            let holder = Holder {
                shared: Arc::clone(shared),
                addresses: Vec::new(),
            };
            let all = holders.get_or_insert_default();
            all.insert(path.clone(), vec![holder]);
            lock(&shared.inner).listens = Some(path);
            return Ok(port);
        }
        let _ = fs::remove_file(&path);
    }
    Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))
}

/// Begins to listen. Others may listen on the same port, at other addresses.
///
/// # Errors
/// Fails with `EADDRINUSE` when another identifier or another living process listens there, and when the folder cannot be written.
pub(super) fn listen(shared: &Arc<Shared>, address: SocketAddr, space: u32) -> io::Result<()> {
    let (folder, number) = place();
    let path = folder.join(places::named(PREFIX, number, &port_file(space, address.port())));
    // Two threads may want the same port.
    let mut holders = lock(&HOLDERS);
    let all = holders.get_or_insert_default();
    let is_any = address.ip().is_unspecified();
    let others = on_port(&folder, PREFIX, space, address.port()).into_iter();
    let mut others = others.filter(|(owner, _)| *owner != number);
    let clashes = others
        .any(|(owner, file)| (is_any || has_address(&file, address.ip())) && reach(&folder, owner).is_ok());
    let clashes_here = all.get(&path).is_some_and(|of_port| {
        let mut others = of_port
            .iter()
            .filter(|holder| !Arc::ptr_eq(&holder.shared, shared));
        others.any(|holder| is_any || holder.addresses.contains(&address.ip()))
    });
    if clashes || clashes_here {
        return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
    }
    accept_connections(&folder, number)?;
    leave(all, &path, shared);
    let of_port = all.entry(path.clone()).or_default();
    of_port.push(Holder {
        shared: Arc::clone(shared),
        addresses: match is_any {
            true => own_addresses(),
            false => vec![address.ip()],
        },
    });
    let published = publish(&folder, number, &path, of_port);
    if published.is_err() {
        leave(all, &path, shared);
    }
    lock(&shared.inner).listens = published.is_ok().then_some(path);
    published
}

/// Ends listening, and gives the port back if nobody else of this process has it.
pub(super) fn unlisten(shared: &Shared) {
    let Some(path) = lock(&shared.inner).listens.take() else {
        return;
    };
    // The file is the parent's.
    if is_child() {
        return;
    }
    let (folder, number) = place();
    // Without the file, the port is another's at once: nothing else of the listener may be left by then.
    let mut holders = lock(&HOLDERS);
    let Some(all) = &mut *holders else { return };
    if !leave(all, &path, shared) {
        let _ = fs::remove_file(&path);
    } else if let Some(of_port) = all.get(&path) {
        // If the file cannot be written, it still has the address, and a process that connects there is told that nobody listens.
        let _ = publish(&folder, number, &path, of_port);
    }
}

/// Accepts connections for all listeners of this process, if nobody does.
fn accept_connections(folder: &Path, number: u32) -> io::Result<()> {
    let mut accepts = lock(&ACCEPTS);
    if *accepts {
        return Ok(());
    }
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
    })?;
    *accepts = true;
    Ok(())
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
    let (folder, number) = place();
    let path = folder.join(places::named(PREFIX, number, &port_file(space, target.port())));
    let holders = lock(&HOLDERS);
    let mut of_port = holders.as_ref()?.get(&path)?.iter();
    let found = of_port.find(|holder| holder.addresses.contains(&target.ip()));
    found.map(|holder| Arc::clone(&holder.shared))
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
