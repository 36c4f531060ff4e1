//! A node's side of the [rendezvous](super::rendezvous): it registers, learns the addresses of all, and hears of nodes
//! that end before all are connected.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Result, Std, Time};

use super::handshake::{self, Claim, Credentials, HandshakeError, Nodes, Purpose, Refusal};
use super::noise::{Opener, Sealer};
use super::rendezvous::{Notice, TABLE_BYTES_MAX, WRITE_PATIENCE, Word, noise};
use super::session::{Session, read_value, write_value};
use super::sockets::connect_within;
use super::system::spawn;
use crate::hosts::Address;
use crate::job::{Job, Meeting};

/// The pause between attempts to reach a server that is not there yet.
const RETRY: Duration = Duration::from_millis(20);

/// The connection of a node with the rendezvous, after it has learned the addresses of all nodes.
pub(super) struct Registration {
    session: Session,
    /// The node whose process serves the rendezvous, if one does.
    server: Option<NodeId>,
}

/// A registration whose notices are read. Dropped without a last word, it tells the rendezvous that this node has
/// ended.
pub(super) struct Watched {
    stream: TcpStream,
    sealer: Sealer,
    over: Arc<AtomicBool>,
}

/// The first notice that a node gets from the rendezvous after the addresses.
pub(super) enum Heard {
    /// This node ended before all were connected.
    Departed(NodeId),
    /// The connection ended before any notice came. If a node's process served the rendezvous, that node has ended with it.
    Nothing(Option<NodeId>),
}

/// The outcome of an attempt to register.
enum Attempt {
    Registered(BTreeMap<NodeId, Address>, Session),
    Departed(NodeId),
    /// The server has ended, though it knew this node.
    ServerEnded,
    /// The server has waited for as long as it would.
    Late,
}

impl Registration {
    /// Registers this node, which listens at `port`, and waits for the addresses of all nodes.
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] when a node ends before all have come; [`FabricError::Refused`];
    /// [`FabricError::Timeout`] naming the nodes that have not come; [`FabricError::Os`] when the host of the rendezvous has
    /// no address.
    pub(super) fn at(
        address: &Address,
        job: &Job,
        credentials: &Credentials,
        port: u16,
        deadline: Time,
    ) -> Result<(BTreeMap<NodeId, Address>, Registration)> {
        let start = Std.now();
        // A name without an address is an error at once.
        address.resolve()?;
        let claim = Claim {
            node: job.node.0,
            nodes: Nodes::of(&job.nodes, job.nodes_max()).map_err(noise)?,
            purpose: Purpose::Register { port },
        };
        let server = match job.meeting {
            Meeting::Node(_) => job.nodes.first().copied(),
            _ => None,
        };
        let mut missing = None;
        let late = |missing: Option<Vec<NodeId>>, error: &str| FabricError::Timeout {
            what: match missing {
                Some(missing) => format!(
                    "{} to come to the rendezvous at {address}",
                    NodeId::list(missing.into_iter())
                ),
                None => format!("the rendezvous at {address} ({error})"),
            },
            after: Std.now().since(start),
        };
        loop {
            let error = match attempt(address, credentials, &claim, deadline, &mut missing) {
                Ok(Attempt::Registered(addresses, session)) => {
                    return Ok((addresses, Registration { session, server }));
                }
                Ok(Attempt::Departed(node)) => return Err(FabricError::PeerLost(node)),
                Ok(Attempt::Late) => return Err(late(missing, "it has waited long enough")),
                Ok(Attempt::ServerEnded) => {
                    return Err(match server {
                        Some(node) => FabricError::PeerLost(node),
                        None => FabricError::Refused(format!(
                            "by the rendezvous at {address}: it ended before all nodes had come; look at the launcher's \
                             output"
                        )),
                    });
                }
                Err(error) => error,
            };
            if error.is_final() {
                return Err(FabricError::Refused(format!(
                    "by the rendezvous at {address}: {error}"
                )));
            }
            if deadline.since(Std.now()) <= RETRY {
                return Err(late(missing, &error.to_string()));
            }
            thread::sleep(RETRY);
        }
    }

    /// Listens for notices from now on, and calls `announce` with the first one.
    pub(super) fn watch(
        self,
        own: NodeId,
        announce: impl FnOnce(Heard) + Send + 'static,
        deadline: Time,
    ) -> Result<Watched> {
        let Registration { session, server } = self;
        let Session {
            stream,
            sealer,
            opener,
        } = session;
        let prepare = |e| FabricError::os("listening to the rendezvous".to_owned(), &e);
        let listening = stream.try_clone().map_err(prepare)?;
        let over = Arc::new(AtomicBool::new(false));
        let watched = Watched {
            stream,
            sealer,
            over: Arc::clone(&over),
        };
        spawn("loco-rendezvous-news", move || {
            announce(match hear(&listening, opener, deadline) {
                Some(lost) => Heard::Departed(lost),
                None => {
                    // Acquire pairs with the release in `Drop`: the end is then our own doing.
                    let is_over = over.load(Ordering::Acquire) || deadline.since(Std.now()).is_zero();
                    Heard::Nothing(server.filter(|&server| server != own && !is_over))
                }
            });
        })?;
        Ok(watched)
    }
}

impl Watched {
    /// Says a word.
    pub(super) fn say(&mut self, word: &Word) {
        if !matches!(word, Word::Sees(_)) {
            // The server may close as soon as it has read the last one.
            self.over.store(true, Ordering::Release);
        }
        // If the server has ended, nobody needs to know.
        let deadline = Std.now().after(WRITE_PATIENCE);
        let _ = write_value(&self.stream, &mut self.sealer, word, deadline);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Listens until a node has ended, which it returns, or the connection has.
fn hear(stream: &TcpStream, mut opener: Opener, deadline: Time) -> Option<NodeId> {
    loop {
        match read_value::<Notice>(stream, &mut opener, TABLE_BYTES_MAX, deadline) {
            Ok(Notice::Departed(node)) => return Some(NodeId(node)),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

fn attempt(
    address: &Address,
    credentials: &Credentials,
    claim: &Claim,
    deadline: Time,
    missing: &mut Option<Vec<NodeId>>,
) -> Result<Attempt, HandshakeError> {
    let stream = connect_within(address, deadline)?;
    let server = stream.peer_addr()?.ip().to_canonical();
    let mut session = handshake::connect(stream, credentials, claim, deadline)?;
    loop {
        let notice = match session.read(TABLE_BYTES_MAX, deadline) {
            Ok(notice) => notice,
            Err(error) if is_end(&error) => return Ok(Attempt::ServerEnded),
            Err(error) => return Err(error.into()),
        };
        match notice {
            Notice::Missing(nodes) => {
                let nodes: Vec<_> = nodes.into_iter().map(NodeId).collect();
                tracing::info!(
                    node = claim.node,
                    "waiting for {}",
                    NodeId::list(nodes.iter().copied())
                );
                *missing = Some(nodes);
            }
            Notice::Duplicate => return Err(HandshakeError::Refused(Refusal::Duplicate(claim.node))),
            Notice::Departed(node) => return Ok(Attempt::Departed(NodeId(node))),
            Notice::Late => return Ok(Attempt::Late),
            Notice::Complete(table) => {
                let entry = |(node, host, port): (u16, Option<IpAddr>, u16)| {
                    (NodeId(node), SocketAddr::new(host.unwrap_or(server), port).into())
                };
                let addresses = table.into_iter().map(entry).collect();
                return Ok(Attempt::Registered(addresses, session));
            }
        }
    }
}

/// Returns true if the other side has closed the connection, or its process has ended.
pub(super) fn is_end(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe
    )
}
