//! The programs of this repository under the model of network memory: as they are, over the model fabric in place of a network.
//!
//! A program is generic over its fabric, so it needs no change: [`Program`] reads the options that the command takes, and
//! [`Program::build`] makes a world whose nodes run it from its beginning to its end. Relies on the programs and on `loco-sim`; used by
//! the command `loco sim`, and by the example that tries mutations of the programs.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod kv;
mod transfer;

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use loco::ErrorKind;
use loco_sim::{Blame, ModelFabric, World};

/// What a node of a program runs.
type Node = dyn Fn(ModelFabric) -> Result<(), Failed> + Send + Sync;

/// The failure of a node.
struct Failed {
    text: String,
    /// The fault that it reports, if it reports one.
    blames: Option<Blame>,
}

impl Failed {
    /// Makes the failure of a node whose program ends with `error`. `object` is the error of the object that failed, if one did.
    fn new(error: &impl Display, object: Option<&loco::Error>) -> Failed {
        let blames = object.and_then(|object| match object.kind() {
            ErrorKind::PeerLost => object.lost_peer().map(Blame::Loss),
            ErrorKind::DeclaredLost => Some(Blame::OwnLoss),
            ErrorKind::Timeout => Some(Blame::Deadline),
            ErrorKind::Poisoned => Some(match object {
                loco::Error::HolderLost { node, .. } => Blame::Loss(*node),
                _ => Blame::SomeLoss,
            }),
            _ => None,
        });
        Failed {
            text: error.to_string(),
            blames,
        }
    }

    /// Makes the failure of a node whose result is wrong, whatever has happened.
    fn wrong(text: String) -> Failed {
        Failed { text, blames: None }
    }
}

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The time that a program may take. The clock moves only where deadlines pass, and must not end a program that counts operations.
const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A program with its options.
#[derive(Clone)]
pub struct Program {
    call: Vec<String>,
    nodes: u16,
    node: Arc<Node>,
}

/// A call of a program that cannot be run under the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// There is no program of this name.
    #[error("no program `{0}`: there are {names}", names = names().join(", "))]
    Unknown(String),
    /// The program does not take these options, or not here.
    #[error("{0}")]
    Usage(String),
}

/// Returns the names of the programs.
pub fn names() -> Vec<&'static str> {
    PROGRAMS.iter().map(|known| known.name).collect()
}

/// Returns whether the program that is called so reads its standard input.
pub fn reads_input(call: &[String]) -> bool {
    call.first().is_some_and(|name| name == "kv") && call.iter().any(|word| word == "shell")
}

/// Reads the command line of a program for a number of nodes, with its standard input.
type Read = fn(&[String], u16, &[u8]) -> Result<Arc<Node>, NoProgram>;

/// A program that this crate knows.
struct Known {
    name: &'static str,
    /// Options with which it ends soon.
    small: &'static str,
    read: Read,
}

const PROGRAMS: [Known; 2] = [
    Known {
        name: "kv",
        small: "load --keys 2 --ops 4 --window 2 --locks 1",
        read: kv::read,
    },
    Known {
        name: "transfer",
        small: "--accounts 3 --locks 2 --deposit 150 --transfers 3",
        read: transfer::read,
    },
];

impl Program {
    /// Reads the call of a program on so many nodes: its name, and the options that its command takes. Without options it gets
    /// ones with which it ends soon. `input` is its standard input, in every execution.
    ///
    /// # Errors
    /// Returns `Unknown`, and `Usage` for options that the command would refuse or with which it would never end here.
    pub fn read(call: &[String], nodes: u16, input: &[u8]) -> Result<Program, NoProgram> {
        let name = call.first().map_or("", String::as_str);
        let Some(known) = PROGRAMS.iter().find(|known| known.name == name) else {
            return Err(NoProgram::Unknown(name.to_owned()));
        };
        let mut call = call.to_vec();
        if call.len() == 1 {
            call.extend(known.small.split_whitespace().map(str::to_owned));
        }
        let node = (known.read)(&call, nodes, input)?;
        Ok(Program { call, nodes, node })
    }

    /// Returns the call, with the options of a program that was called without.
    pub fn call(&self) -> &[String] {
        &self.call
    }

    /// Adds the nodes that run the program to a world. Where faults may happen, a node may end with the error of the loss of a node that is
    /// lost, or of a deadline of its own that has passed; whoever ends without an error must have the right result.
    pub fn build(&self, world: &mut World) {
        let node = self.node.clone();
        world.program_with_faults(self.nodes, move |fabric| node(fabric), |failed| failed.blames);
    }
}

/// Reads the options of a command.
fn options<T: Parser>(call: &[String]) -> Result<T, NoProgram> {
    T::try_parse_from(call).map_err(|error| NoProgram::Usage(error.to_string().trim_end().to_owned()))
}

/// Fails unless the nodes together have done what they were asked for: a count that misses some of it has been read too early, or
/// before it had arrived.
fn all_done(what: &str, done: u64, expected: u64) -> Result<(), Failed> {
    match done == expected {
        true => Ok(()),
        false => Err(Failed::wrong(format!(
            "the nodes have made {expected} {what}, and the result counts {done}"
        ))),
    }
}
