//! The fabrics that every test of this crate runs over.

pub mod net;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loco::fabric::ofi::{self, OfiConfig};
use loco::fabric::verbs::{Provider, VerbsConfig};
use loco::fabric::{
    AnyConfig, AnyFabric, Atomicity, Control as _, Fabric as _, FabricChoice, HugePages, NodeId, PeerState,
    ShmConfig, ShmFabric, TcpConfig, Tier,
};
use loco::{Config, Manager, Polling, Result};
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_test_networks::deferred::{Deferred, Nic};

/// The fabric of a node: one of those that programs have, with a deferred NIC or without.
pub type Net = Deferred<AnyFabric>;

/// The fabric of a node on shared memory, with a deferred NIC or without.
#[allow(dead_code)] // Each test file uses its part.
pub type Shared = Deferred<ShmFabric>;

/// Runs `node` on each of `n` nodes on shared memory, with such a NIC; their results in order.
#[allow(dead_code)]
pub fn run_on_shm<T: Send>(
    n: usize,
    config: &ShmConfig,
    nic: Option<&Nic>,
    node: impl Fn(Shared) -> Result<T> + Sync,
) -> Vec<T> {
    loco::testing::run_on(
        n,
        |mesh| Deferred::new(ShmFabric::new(mesh, config.clone())?, nic),
        node,
    )
}

/// A way to bring up a cluster: the network card, and who polls.
#[allow(dead_code)] // Each test file uses its part.
#[derive(Clone, Copy, Debug)]
pub enum Cluster {
    /// Operations are done when posted.
    Synchronous,
    /// A simulated card executes operations late, as the contract allows; whoever waits polls. With an even seed the network keeps
    /// no order (tier `unordered`), with an odd one that of InfiniBand.
    Deferred(u64),
    /// Such a card on a network that keeps no order (tier `unordered`), with a polling thread.
    DeferredPolled(u64),
    /// The verbs fabric over the device of `loco nic` of which nothing is known, and which reorders what it may (tier `ooo-all`);
    /// whoever waits polls.
    Verbs,
    /// The verbs fabric over a device of which nothing is known, too, whose atomics are atomic against the CPU's
    /// (`IBV_ATOMIC_GLOB`). The device carries requests out at once, so that no other cluster can be in its process; whoever waits polls.
    VerbsGlob,
    /// The TCP fabric; whoever waits polls.
    Tcp,
    /// The libfabric fabric over TCP; whoever waits polls.
    Ofi,
}

/// One of each kind; that over libfabric only where the host has it. With `LOCO_TEST_VERBS=device` every cluster is the
/// verbs fabric on this host's RDMA device (see `ci/verbs-suite`), and there is one kind.
#[allow(dead_code)]
pub struct All;

/// See [`All`].
#[allow(dead_code)]
pub const ALL: All = All;

impl IntoIterator for All {
    type Item = Cluster;
    type IntoIter = std::vec::IntoIter<Cluster>;

    fn into_iter(self) -> Self::IntoIter {
        let all = [
            Cluster::Synchronous,
            Cluster::Deferred(1),
            Cluster::DeferredPolled(2),
            Cluster::Verbs,
            Cluster::Tcp,
            Cluster::Ofi,
        ];
        let on_device = on_device();
        let some: Vec<_> = all
            .into_iter()
            .filter(|c| !on_device || matches!(c, Cluster::Verbs))
            .filter(|c| !matches!(c, Cluster::Ofi) || has_libfabric())
            .collect();
        some.into_iter()
    }
}

/// True where every cluster is on this host's RDMA device.
pub fn on_device() -> bool {
    std::env::var("LOCO_TEST_VERBS").is_ok_and(|value| value == "device")
}

/// Returns true if this host can use libfabric over TCP. Reports otherwise that a part of the test is skipped.
fn has_libfabric() -> bool {
    match ofi::usable(&tcp()) {
        Ok(_) => true,
        Err(error) => {
            loco_testing::skipped("OFI", error);
            false
        }
    }
}

/// Returns the configuration of libfabric over TCP.
fn tcp() -> OfiConfig {
    OfiConfig::default()
        .provider(Some("tcp".to_owned()))
        .memory_limit_bytes(64 << 20)
        .huge_pages(HugePages::Never)
}

/// Returns a device of tier `ooo-all` that takes every liberty of the tier, and of which the fabric knows nothing.
#[allow(dead_code)]
pub fn unknown(limits: Limits) -> AlteredDevice {
    AlteredDevice::on(
        Tier::OooAll,
        1,
        Limits {
            known: None,
            ..limits
        },
    )
}

/// Returns a deadline that a test sets itself, on this host. A device may be an emulated one, on which what
/// takes a second elsewhere takes half a minute.
#[allow(dead_code)]
pub fn ample(usual: Duration) -> Duration {
    usual * if on_device() { 6 } else { 1 }
}

/// The time for which tests wait for what must come. Only a hang reaches it: a host that is busy with other
/// work may starve a node for seconds.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `is_so`. Fails after [`PATIENCE`], naming what did not come.
#[allow(dead_code)] // Each test file uses its part.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "still waiting: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits like [`wait_until`] without sleeping, to act while what `is_so` goes on.
#[allow(dead_code)]
pub fn spin_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "still waiting: {what}");
        std::thread::yield_now();
    }
}

/// Returns true if this node has heard that `peer` is lost.
#[allow(dead_code)]
pub fn is_lost(manager: &Manager<Net>, peer: NodeId) -> bool {
    manager.fabric().control().peer_state(peer) != PeerState::Alive
}

/// Waits until this node has heard that `peer` is lost.
#[allow(dead_code)]
pub fn until_lost(manager: &Manager<Net>, peer: NodeId) {
    wait_until(&format!("{peer} is lost"), || is_lost(manager, peer));
}

/// Waits for both survivors of three nodes, by the test's own means: a barrier would report the lost node. `meetings`
/// counts the meetings so far, this one included.
#[allow(dead_code)]
pub fn survivors_meet(arrived: &AtomicUsize, meetings: usize) {
    arrived.fetch_add(1, Ordering::SeqCst);
    wait_until("the other survivor", || {
        arrived.load(Ordering::SeqCst) >= 2 * meetings
    });
}

impl Cluster {
    /// Runs `node` on each of `n` nodes; their results in order.
    pub fn run<T: Send>(self, n: usize, node: impl Fn(Manager<Net>) -> Result<T> + Sync) -> Vec<T> {
        let config = Config::default().deadline(PATIENCE);
        self.run_config(n, &config, node)
    }

    /// Runs a cluster as `run` does, with these settings.
    pub fn run_config<T: Send>(
        self,
        n: usize,
        config: &Config,
        node: impl Fn(Manager<Net>) -> Result<T> + Sync,
    ) -> Vec<T> {
        let config = config.clone().polling(match self {
            Cluster::DeferredPolled(_) => Polling::Thread,
            _ => Polling::CallerDriven,
        });
        self.run_fabric(n, |fabric| node(Manager::with_config(fabric, config.clone())?))
    }

    /// Runs `node` on the fabric of each of `n` nodes, for tests that put something around it; their results in order.
    pub fn run_fabric<T: Send>(self, n: usize, node: impl Fn(Net) -> Result<T> + Sync) -> Vec<T> {
        let (fabric, nic) = (self.fabric(), self.nic());
        let bring_up = |mesh| Net::new(AnyFabric::new(mesh, fabric.clone())?, nic.as_ref());
        loco::testing::run_on(n, bring_up, node)
    }

    fn nic(self) -> Option<Nic> {
        match self {
            Cluster::Deferred(seed) if !on_device() => Some(Nic::deferred(seed).tier(match seed % 2 {
                0 => Tier::Unordered,
                _ => Tier::Ibta,
            })),
            Cluster::DeferredPolled(seed) if !on_device() => Some(Nic::deferred(seed).tier(Tier::Unordered)),
            _ => None,
        }
    }

    fn fabric(self) -> AnyConfig {
        let choice = match self {
            _ if on_device() => FabricChoice::Verbs,
            Cluster::Synchronous | Cluster::Deferred(_) | Cluster::DeferredPolled(_) => FabricChoice::Shm,
            Cluster::Verbs | Cluster::VerbsGlob => FabricChoice::Verbs,
            Cluster::Tcp => FabricChoice::Tcp,
            Cluster::Ofi => FabricChoice::Ofi(None),
        };
        let provider = match self {
            _ if on_device() => Provider::System,
            Cluster::VerbsGlob => {
                let limits = Limits {
                    known: None,
                    atomicity: Atomicity::Glob,
                    ..Limits::default()
                };
                AlteredDevice::new(limits).provider()
            }
            _ => unknown(Limits::default()).provider(),
        };
        AnyConfig::default()
            .choice(choice)
            .verbs(
                VerbsConfig::default()
                    .provider(provider)
                    .arena_bytes(4 << 20)
                    .huge_pages(HugePages::Never),
            )
            .tcp(
                TcpConfig::default()
                    .memory_limit_bytes(64 << 20)
                    .huge_pages(HugePages::Never),
            )
            .ofi(tcp())
    }
}
