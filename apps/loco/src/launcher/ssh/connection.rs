//! The local end of a connection: the command that makes it, and the data that go into it.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ChildStdin;
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;

use super::{Remote, script};
use crate::error::CliError;

/// The options that are always given. The user's options come before them, and `ssh` takes the first of two.
///
/// There is nobody to answer questions. A host that does not answer, or falls silent, is given up after a while. No
/// other session shares the connection, since its end must end the node.
const OPTIONS: [&str; 19] = [
    "-T",
    "-x",
    "-a",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
    "-o",
    "ControlMaster=no",
    "-o",
    "ControlPath=none",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "RemoteCommand=none",
];

/// Returns the command that connects to the host and runs the script that comes through the connection there.
pub(in crate::launcher) fn command(remote: &Remote) -> Vec<OsString> {
    // The shell splits the user's command as usual.
    let exec = format!("exec {} \"$@\"", remote.ssh);
    let mut command: Vec<OsString> = ["sh", "-c", &exec, "ssh"].map(OsString::from).to_vec();
    command.extend(OPTIONS.map(OsString::from));
    command.extend([remote.host.as_str(), script::BEGIN].map(OsString::from));
    command
}

/// Carries the script and then signals to the far side of a node. Dropping this ends the connection's input, and
/// thereby the node.
pub(in crate::launcher) struct Control(mpsc::Sender<Vec<u8>>);

impl Control {
    /// Starts a thread that writes `script`, and later signals, into a connection, which may take its time.
    pub(in crate::launcher) fn open(mut pipe: ChildStdin, script: Vec<u8>) -> Result<Control, CliError> {
        let (sender, texts) = mpsc::channel::<Vec<u8>>();
        let write = move || {
            for text in std::iter::once(script).chain(texts) {
                if pipe.write_all(&text).is_err() {
                    // `ssh` has ended, which the launcher sees by itself.
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("loco-ssh".to_owned())
            .spawn(write)
            .map_err(CliError::os("starting a thread for a connection"))?;
        Ok(Control(sender))
    }

    /// Sends a signal to the node's processes.
    pub(in crate::launcher) fn signal(&self, name: &str) {
        // A connection that is broken has ended the node.
        let _ = self.0.send(format!("{name}\n").into_bytes());
    }
}

/// Returns the name by which `kill` on any system knows a signal; `None` for signals that are not passed on.
pub(in crate::launcher) fn signal_name(signal: Signal) -> Option<&'static str> {
    let names = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::STOP, "STOP"),
        (Signal::CONT, "CONT"),
    ];
    names
        .into_iter()
        .find_map(|(of, name)| (of == signal).then_some(name))
}
