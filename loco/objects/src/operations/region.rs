//! A named region of a channel: this node's memory and, once connected, the peers' memory.

use std::sync::{Arc, OnceLock};

use loco_fabric::{Fabric, NodeId, RemoteMemory};

use crate::fabric::AnyFabric;
use crate::operations::peers::position_of;
use crate::{Error, Result};

/// A region that a channel declares (`kv/lock0.words`). It is a cheap handle.
pub struct Region<F: Fabric = AnyFabric> {
    inner: Arc<Inner<F>>,
}

struct Inner<F: Fabric> {
    fabric: F,
    /// The full name, `channel.region`.
    name: String,
    /// The index at which the short name starts.
    short: usize,
    len: usize,
    published: bool,
    local: Option<F::Memory>,
    /// The peers' memory by position among the job's nodes. The set-up service writes each once, and never
    /// waits inside.
    remotes: Box<[OnceLock<F::Remote>]>,
}

impl<F: Fabric> Region<F> {
    pub(crate) fn new(
        fabric: &F,
        channel: &str,
        name: &str,
        len: usize,
        local: Option<F::Memory>,
        published: bool,
    ) -> Self {
        let full_name = format!("{channel}.{name}");
        if let Some(local) = &local {
            fabric.name_memory(local, &full_name);
        }
        Region {
            inner: Arc::new(Inner {
                published,
                fabric: fabric.clone(),
                name: full_name,
                short: channel.len() + 1,
                len,
                local,
                remotes: fabric.nodes().iter().map(|_| OnceLock::new()).collect(),
            }),
        }
    }

    /// Returns the full name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn short_name(&self) -> &str {
        &self.inner.name[self.inner.short..]
    }

    /// Returns true if only [`Published`](crate::operations::published::Published) posts to it.
    pub(crate) fn is_published(&self) -> bool {
        self.inner.published
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.inner.len
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.inner.len == 0
    }

    /// Returns this node's memory.
    ///
    /// # Errors
    /// Returns [`UnknownRegion`](crate::Error::UnknownRegion) if this node offers none.
    pub fn local(&self) -> Result<&F::Memory> {
        self.inner.local.as_ref().ok_or_else(|| Error::UnknownRegion {
            channel: self.inner.name[..self.inner.short - 1].to_owned(),
            region: self.short_name().to_owned(),
        })
    }

    /// Returns a peer's memory.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected) before the channel is ready or if that peer offers no such
    /// region, and [`UnknownPeer`](crate::fabric::FabricError::UnknownPeer).
    #[inline]
    pub fn remote(&self, peer: NodeId) -> Result<&F::Remote> {
        // The ids are usually 0, 1, 2, ...
        match self
            .inner
            .remotes
            .get(usize::from(peer.0))
            .and_then(OnceLock::get)
        {
            Some(remote) if remote.node() == peer => Ok(remote),
            _ => self.find_remote(peer),
        }
    }

    #[cold]
    fn find_remote(&self, peer: NodeId) -> Result<&F::Remote> {
        let position = position_of(self.inner.fabric.nodes(), peer)?;
        self.inner.remotes[position]
            .get()
            .ok_or_else(|| Error::NotConnected {
                region: self.inner.name.clone(),
                peer,
            })
    }

    /// Sets a peer's memory. The first one stays.
    pub(crate) fn connect(&self, position: usize, remote: F::Remote) {
        let _ = self.inner.remotes[position].set(remote);
    }
}

impl<F: Fabric> Clone for Region<F> {
    fn clone(&self) -> Self {
        Region {
            inner: self.inner.clone(),
        }
    }
}

impl<F: Fabric> std::fmt::Debug for Region<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("name", &self.inner.name)
            .field("len", &self.inner.len)
            .finish_non_exhaustive()
    }
}
