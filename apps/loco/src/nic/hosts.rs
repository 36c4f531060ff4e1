//! The hosts of a world: which there are, which one this is, and its dispatcher, which this process is unless another is.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use loco::fabric::{Hosts, NodeId, Secret, var};
use loco_host::dispatch::{Dispatcher, HostTable};
use loco_host::places::{self, Place};

use super::{PLACES, PREFIX};
use crate::error::CliError;

/// The kind of the file of the process that dispatches connections.
const DISPATCHER: &str = "dispatcher";
/// So often, a process that does not listen tries to.
const TRY: Duration = Duration::from_millis(200);
/// After so many attempts, a port at which no process of this world listens is somebody else's.
const TRIES: u32 = 10;

/// A host of the file: its id, and where its dispatcher listens.
struct Host {
    id: NodeId,
    address: SocketAddr,
    /// Whether it is this machine.
    is_here: bool,
}

/// Reads a hosts file, and finds out which of its hosts this is.
pub(super) fn read(file: &Path, own: Option<u16>) -> Result<HostTable, CliError> {
    let mut all = Vec::new();
    for (id, address) in Hosts::read(file)?.iter() {
        let found = address.resolve()?;
        let here = found
            .iter()
            .find(|address| TcpListener::bind((address.ip(), 0)).is_ok());
        // It has at least one address.
        if let Some(&address) = here.or(found.first()) {
            all.push(Host {
                id,
                address,
                is_here: here.is_some(),
            });
        }
    }
    let file = file.display();
    let wrong = |why: String| CliError::Usage(format!("{file}: {why}"));
    let here: Vec<usize> = (0..all.len()).filter(|at| all[*at].is_here).collect();
    let index = match (own, &here[..]) {
        (Some(own), _) => {
            let found = all.iter().position(|host| host.id.0 == own);
            found.ok_or_else(|| wrong(format!("there is no host {own}")))?
        }
        (None, [only]) => *only,
        (None, []) => return Err(wrong("no host is this machine".to_owned())),
        (None, several) => {
            let ids: Vec<String> = several.iter().map(|at| all[*at].id.0.to_string()).collect();
            let ids = ids.join(" and ");
            return Err(wrong(format!(
                "hosts {ids} are this machine: say which with --host ID"
            )));
        }
    };
    let address = all[index].address;
    if address.ip().is_loopback() && all.iter().any(|host| !host.address.ip().is_loopback()) {
        let id = all[index].id.0;
        return Err(wrong(format!(
            "host {id} is {} here, which no other host reaches: write its address into the file",
            address.ip()
        )));
    }
    if Secret::of_process()?.is_none() {
        return Err(CliError::Usage(format!(
            "set the same {} or {} on all hosts of {file}",
            var::SECRET,
            var::SECRET_FILE
        )));
    }
    let hosts = all.iter().map(|host| host.address).collect();
    HostTable::new(hosts, index, PLACES + 1).map_err(wrong)
}

/// Dispatches the connections to this host while this process lives, or waits until the one who does is gone.
pub(super) fn serve_host(hosts: &HostTable, place: &Place) -> Result<(), CliError> {
    let dispatcher = Arc::new(Dispatcher {
        hosts: hosts.clone(),
        folder: place.folder().to_owned(),
        prefix: PREFIX,
    });
    let listener = match dispatcher.open() {
        Ok(listener) => Some(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        Err(error) => {
            let address = hosts.own_address();
            return Err(CliError::Usage(format!("cannot listen at {address}: {error}")));
        }
    };
    let sign = place.file(DISPATCHER);
    thread::Builder::new()
        .name("loco-dispatch".to_owned())
        .spawn(move || {
            let listener = listener.unwrap_or_else(|| wait_to_listen(&dispatcher));
            serve(&dispatcher, &listener, &sign);
        })
        .map_err(CliError::os("starting the thread of the dispatcher"))?;
    Ok(())
}

fn wait_to_listen(dispatcher: &Dispatcher) -> TcpListener {
    let mut tries = 0;
    loop {
        thread::sleep(TRY);
        let error = match dispatcher.open() {
            Ok(listener) => return listener,
            Err(error) => error,
        };
        tries += 1;
        if tries == TRIES && !is_served(&dispatcher.folder) {
            let address = dispatcher.hosts.own_address();
            say(&format!(
                "other hosts cannot come in: cannot listen at {address}: {error}"
            ));
        }
    }
}

/// Returns whether a process of this world dispatches connections.
fn is_served(folder: &Path) -> bool {
    let names = places::names(folder, PREFIX).unwrap_or_default();
    let mut kinds = names.iter().filter_map(|name| places::parsed(PREFIX, name));
    kinds.any(|(_, kind)| kind == DISPATCHER)
}

fn serve(dispatcher: &Arc<Dispatcher>, listener: &TcpListener, sign: &PathBuf) {
    // Without it, another process may say that the port is somebody else's.
    let _ = std::fs::write(sign, "");
    dispatcher.serve(listener, |line| say(&line));
}

fn say(line: &str) {
    // A closed standard error is no reason to end.
    let _ = writeln!(io::stderr(), "loco nic: {line}");
}
