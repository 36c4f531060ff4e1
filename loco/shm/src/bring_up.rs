//! The set-up of the fabric: what the nodes tell one another, and their agreement that each can map the memory of each.
//!
//! Whether a process may map the memory of another depends on both: users, user namespaces, what a security module
//! says. So each node tries, and sends the others the result. Either all nodes go on or none does.
//!
//! Used by `fabric`.

use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Result};
use loco_host::membership::Membership;
use loco_job::{process_namespace, random};
use serde::{Deserialize, Serialize};

use crate::arena::Token;
use crate::gate::{Gate, OwnGate, Peer, has_ended};

/// The version of the set-up data. It changes when [`Card`], [`Opened`], the layout of keys or the layout of the gate
/// does.
const BRING_UP_VERSION: u32 = 4;

/// The data that a node tells the others at set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    pub(crate) pid: u32,
    pub(crate) token: Token,
    /// The descriptor of the gate.
    gate: u32,
    /// An identifier that is equal for processes that can open one another's `/proc/PID`.
    host: String,
}

/// The outcome of a node's attempt to map its peers' memory.
#[derive(Debug, Serialize, Deserialize)]
enum Opened {
    All,
    /// This node has ended.
    Lost(u16),
    /// Not all, for this reason.
    Failed(String),
}

impl Card {
    fn new(token: Token, gate: &OwnGate) -> Result<Card> {
        Ok(Card {
            pid: std::process::id(),
            token,
            gate: gate.descriptor(),
            host: process_namespace()?,
        })
    }

    /// Maps the gate of `node`, whose card this is.
    fn peer(&self, node: NodeId) -> Result<Peer> {
        // The process is opened first. If its memory is then found there, it is the right process.
        let process = Peer::process(node, self.pid)?;
        match Gate::open(self.token, node, self.pid, self.gate) {
            Ok(gate) => Ok(Peer::new(gate, process)),
            // The system has many errors for the memory of a process that is about to end.
            Err(_) if has_ended(process.as_ref()) => Err(FabricError::PeerLost(node)),
            Err(error) => Err(error),
        }
    }

    /// Returns the part of the token that travels in keys.
    pub(crate) fn rkey(&self) -> u32 {
        let [.., a, b, c, d] = self.token;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Makes this node's gate and exchanges cards: a collective call. Returns `Ok(Err(why))` on every node if one of them has
/// no card, or if they are not on one host.
pub(crate) fn exchange_cards(
    job: &Membership,
    timeout: Duration,
) -> Result<Result<(Arc<OwnGate>, Vec<Card>)>> {
    let own = random().and_then(|token| {
        let gate = Arc::new(OwnGate::create(token, job.mesh.clone())?);
        let card = Card::new(token, &gate)?;
        Ok((gate, card))
    });
    let card = match &own {
        Ok((_, card)) => Ok(card.clone()),
        Err(error) => Err(error.to_string()),
    };
    let answers: Vec<Result<Card, String>> = job.exchange("shm", BRING_UP_VERSION, &card, timeout)?;
    let mut cards = Vec::with_capacity(answers.len());
    for (&node, answer) in job.mesh.nodes().iter().zip(answers) {
        match answer {
            Ok(card) => cards.push(card),
            Err(why) => return Ok(Err(cannot(node, &why))),
        }
    }
    let on_another_host = |(node, card): (&NodeId, &Card)| (card.host != cards[0].host).then_some(*node);
    let others: Vec<_> = job
        .mesh
        .nodes()
        .iter()
        .zip(&cards)
        .filter_map(on_another_host)
        .collect();
    if !others.is_empty() {
        let one = if others.len() == 1 { "runs" } else { "run" };
        return Ok(Err(FabricError::Config(format!(
            "{} {one} on another host or in another PID namespace than {}: the shm fabric joins processes of one host; \
             use another fabric",
            NodeId::list(others),
            job.mesh.nodes()[0],
        ))));
    }
    Ok(own.map(|(gate, _)| (gate, cards)))
}

/// Maps the gates of all peers: a collective call. Returns `Ok(Err(why))` on every node if one of them cannot.
pub(crate) fn open_peers(
    job: &Membership,
    cards: &[Card],
    timeout: Duration,
) -> Result<Result<Vec<Option<Peer>>>> {
    let own = job.mesh.node();
    let peer = |(&node, card): (&NodeId, &Card)| (node != own).then(|| card.peer(node)).transpose();
    let peers = job
        .mesh
        .nodes()
        .iter()
        .zip(cards)
        .map(peer)
        .collect::<Result<Vec<_>>>();
    let opened = match &peers {
        Ok(_) => Opened::All,
        Err(FabricError::PeerLost(node)) => Opened::Lost(node.0),
        Err(error) => Opened::Failed(error.to_string()),
    };
    let answers: Vec<Opened> = job.exchange("shm", BRING_UP_VERSION, &opened, timeout)?;
    for (&node, answer) in job.mesh.nodes().iter().zip(&answers) {
        match answer {
            Opened::All => {}
            Opened::Lost(lost) => return Err(FabricError::PeerLost(NodeId(*lost))),
            Opened::Failed(why) => return Ok(Err(cannot(node, why))),
        }
    }
    Ok(peers)
}

/// Returns the error of all nodes because of `node`, which cannot use the fabric.
fn cannot(node: NodeId, why: &str) -> FabricError {
    FabricError::Config(format!(
        "{node} cannot use shared memory: {why}; use another fabric, which `LOCO_FABRIC=auto` finds"
    ))
}
