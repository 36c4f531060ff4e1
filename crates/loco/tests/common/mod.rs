//! The fabrics that every test of this crate runs over.

use loco::fabric::{Nic, ShmConfig, ShmFabric};
use loco::{Config, Manager, Polling, Result};

/// A way to bring up a cluster: the network card, and who polls.
#[derive(Clone, Copy, Debug)]
pub enum Cluster {
    /// Operations are done when posted.
    Synchronous,
    /// A simulated card executes operations late, as the contract allows; whoever waits polls.
    Deferred(u64),
    /// The same with a polling thread.
    DeferredPolled(u64),
}

/// One of each kind.
pub const ALL: [Cluster; 3] = [
    Cluster::Synchronous,
    Cluster::Deferred(1),
    Cluster::DeferredPolled(2),
];

impl Cluster {
    /// Runs `node` on each of `n` nodes; their results in order.
    pub fn run<T: Send>(self, n: usize, node: impl Fn(Manager<ShmFabric>) -> Result<T> + Sync) -> Vec<T> {
        self.run_config(n, &Config::default(), node)
    }

    /// The same with settings.
    pub fn run_config<T: Send>(
        self,
        n: usize,
        config: &Config,
        node: impl Fn(Manager<ShmFabric>) -> Result<T> + Sync,
    ) -> Vec<T> {
        let config = Config {
            polling: match self {
                Cluster::DeferredPolled(_) => Polling::Thread,
                _ => Polling::CallerDriven,
            },
            ..config.clone()
        };
        loco::testing::run_with(n, &self.fabric(), |fabric| {
            node(Manager::with_config(fabric, config.clone())?)
        })
    }

    fn fabric(self) -> ShmConfig {
        match self {
            Cluster::Synchronous => ShmConfig::default(),
            Cluster::Deferred(seed) | Cluster::DeferredPolled(seed) => {
                ShmConfig::with_nic(Nic::deferred(seed))
            }
        }
    }
}
