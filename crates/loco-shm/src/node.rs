//! What the handles of a node share, and what nodes tell one another at set-up.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use loco_fabric::{Caps, FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::Arenas;
use loco_host::membership::Membership;
use loco_job::random;
use serde::{Deserialize, Serialize};

use crate::arena::{Arena, ArenaId, Token};
use crate::nic::DeferredNic;

/// Changes when [`Card`] or the layout of keys does.
pub(crate) const BRING_UP_VERSION: u32 = 1;
/// What the handles of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) job: Membership,
    pub(crate) caps: Caps,
    /// How peers find this node's memory.
    pub(crate) card: Card,
    /// The peers', in the order of the mesh's nodes.
    pub(crate) cards: Vec<Card>,
    pub(crate) arenas: Arc<Arenas<Arena>>,
    pub(crate) huge_pages: HugePages,
    /// Peers' arenas that were imported, each mapped until this node ends.
    pub(crate) imported: Mutex<HashMap<ArenaId, Arc<Arena>>>,
    pub(crate) nic: Option<DeferredNic>,
}

/// What a node tells the others at set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    pid: u32,
    pub(crate) token: Token,
    /// Same for processes that can open one another's `/proc/PID`.
    host: String,
}

impl Card {
    pub(crate) fn new() -> Result<Card> {
        let os = |what: &'static str| {
            move |error: std::io::Error| FabricError::Os {
                what: format!("{what} (is /proc mounted?)"),
                source: error.into(),
            }
        };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(os("reading the host's boot id"))?;
        let namespace = fs::read_link("/proc/self/ns/pid").map_err(os("reading the PID namespace"))?;
        Ok(Card {
            pid: std::process::id(),
            token: random()?,
            host: format!("{} {}", boot.trim(), namespace.display()),
        })
    }

    /// The part of the token that travels in keys.
    pub(crate) fn rkey(&self) -> u32 {
        let [.., a, b, c, d] = self.token;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Fails if `its`, the card of `node`, is of another host than `own`.
pub(crate) fn check_host(own: &Card, node: NodeId, its: &Card) -> Result<()> {
    if its.host == own.host {
        return Ok(());
    }
    Err(FabricError::Config(format!(
        "{node} runs on another host or in another PID namespace: the shm fabric joins processes of one host; use \
         another fabric"
    )))
}

impl Node {
    /// What `node` told at set-up.
    pub(crate) fn card(&self, node: NodeId) -> Result<&Card> {
        self.job.card(&self.cards, node)
    }

    /// The arena of `peer`, mapped here.
    pub(crate) fn arena(&self, peer: NodeId, index: u32, fd: u32) -> Result<Arc<Arena>> {
        let card = self.card(peer)?;
        if peer == self.job.mesh.node() {
            return self.arenas.get(index as usize).ok_or_else(|| stale(peer));
        }
        let id = ArenaId {
            token: card.token,
            index,
        };
        let mut imported = self.imported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = imported.get(&id) {
            return Ok(Arc::clone(arena));
        }
        let arena = Arena::open(id, peer, card.pid, fd)?;
        imported.insert(id, Arc::clone(&arena));
        Ok(arena)
    }
}

/// A key that `peer` did not export, or another process with its id.
pub(crate) fn stale(peer: NodeId) -> FabricError {
    FabricError::Refused(format!(
        "the region key is not one that {peer} exported in this run"
    ))
}
