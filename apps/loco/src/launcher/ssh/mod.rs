//! Nodes on other hosts, which `ssh` starts.
//!
//! The far side needs a POSIX shell, `setsid`, `grep` and the program, nothing of ours. The command line of `ssh`
//! only says that a shell is to read a line and run it. All else goes through the connection: the secret, the
//! environment, the program, and then the signals for the node. No process list therefore shows the secret, on either
//! side. The end of the connection ends the node, however the connection or this process ended ([`far.sh`](far.sh)).
//!
//! Before the node's program begins, the far side prints a random *mark* ([`Progress`]). If `ssh` ends before that,
//! the failure is its own and not the program's.
//!
//! The standard input of a node comes through a second connection ([`feed.sh`](feed.sh)), since the first carries signals.

mod connection;
mod progress;
mod script;

pub(super) use connection::{Control, command, signal_name};
pub(super) use progress::Progress;
pub use script::is_name;
pub(super) use script::{feeder, node};

/// The maximum number of connections to one host that are being made at a time. `sshd` refuses connections above a
/// limit, by default 10 (`MaxStartups`).
pub(super) const CONNECTING_MAX: usize = 8;

/// The host of a node, and the way to it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The `ssh` to call, with options of the user, in the syntax of a shell.
    pub ssh: String,
    /// The host as the hosts file names it.
    pub host: String,
    /// The names of variables to pass on, beside those that begin with `LOCO_`.
    pub export: Vec<String>,
}

impl Remote {
    /// Returns the command with which a user can try the connection.
    pub(super) fn trial(&self) -> String {
        format!("{} -o BatchMode=yes {} true", self.ssh, self.host)
    }
}
