//! The hosts of a world: which there are, which one this is, and its door, which this process keeps unless another does.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use loco::fabric::{Hosts, NodeId, Secret, var};
use loco_host::door::{Doorkeeper, Doors};
use loco_host::places::{self, Place};

use super::{PLACES, PREFIX};
use crate::error::CliError;

/// The kind of the file of the process that keeps the door.
const KEEPER: &str = "keeper";
/// So often, a process that does not keep the door tries to.
const TRY: Duration = Duration::from_millis(200);
/// After so many attempts, a door that no process of this world keeps is somebody else's.
const TRIES: u32 = 10;

/// A host of the file: its id, and where its door is.
struct Host {
    id: NodeId,
    door: SocketAddr,
    /// Whether it is this machine.
    is_here: bool,
}

/// Reads a hosts file, and finds out which of its hosts this is.
pub(super) fn read(file: &Path, own: Option<u16>) -> Result<Doors, CliError> {
    let mut all = Vec::new();
    for (id, address) in Hosts::read(file)?.iter() {
        let found = address.resolve()?;
        let here = found
            .iter()
            .find(|door| TcpListener::bind((door.ip(), 0)).is_ok());
        // It has at least one address.
        if let Some(&door) = here.or(found.first()) {
            all.push(Host {
                id,
                door,
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
    let door = all[index].door;
    if door.ip().is_loopback() && all.iter().any(|host| !host.door.ip().is_loopback()) {
        let id = all[index].id.0;
        return Err(wrong(format!(
            "host {id} is {} here, which no other host reaches: write its address into the file",
            door.ip()
        )));
    }
    if Secret::of_process()?.is_none() {
        return Err(CliError::Usage(format!(
            "set the same {} or {} on all hosts of {file}",
            var::SECRET,
            var::SECRET_FILE
        )));
    }
    let doors = all.iter().map(|host| host.door).collect();
    Doors::new(doors, index, PLACES + 1).map_err(wrong)
}

/// Keeps the door of this host while this process lives, or waits until the one who keeps it is gone.
pub(super) fn keep(doors: &Doors, place: &Place) -> Result<(), CliError> {
    let keeper = Arc::new(Doorkeeper {
        doors: doors.clone(),
        folder: place.folder().to_owned(),
        prefix: PREFIX,
    });
    let listener = match keeper.open() {
        Ok(listener) => Some(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        Err(error) => {
            let door = doors.own_door();
            return Err(CliError::Usage(format!("cannot listen at {door}: {error}")));
        }
    };
    let sign = place.file(KEEPER);
    thread::Builder::new()
        .name("loco-door".to_owned())
        .spawn(move || {
            let listener = listener.unwrap_or_else(|| wait_to_keep(&keeper));
            serve(&keeper, &listener, &sign);
        })
        .map_err(CliError::os("starting the thread of the door"))?;
    Ok(())
}

fn wait_to_keep(keeper: &Doorkeeper) -> TcpListener {
    let mut tries = 0;
    loop {
        thread::sleep(TRY);
        let error = match keeper.open() {
            Ok(listener) => return listener,
            Err(error) => error,
        };
        tries += 1;
        if tries == TRIES && !is_kept(&keeper.folder) {
            let door = keeper.doors.own_door();
            say(&format!(
                "other hosts cannot come in: cannot listen at {door}: {error}"
            ));
        }
    }
}

/// Returns whether a process of this world keeps the door.
fn is_kept(folder: &Path) -> bool {
    let names = places::names(folder, PREFIX).unwrap_or_default();
    let mut kinds = names.iter().filter_map(|name| places::parsed(PREFIX, name));
    kinds.any(|(_, kind)| kind == KEEPER)
}

fn serve(keeper: &Arc<Doorkeeper>, listener: &TcpListener, sign: &PathBuf) {
    // Without it, another process may say that the door is somebody else's.
    let _ = std::fs::write(sign, "");
    keeper.keep(listener, |line| say(&line));
}

fn say(line: &str) {
    // A closed standard error is no reason to end.
    let _ = writeln!(io::stderr(), "loco nic: {line}");
}
