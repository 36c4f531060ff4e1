//! The calls that the worlds make on any of the objects.

use loco::fabric::{NodeId, Peers};
use loco::{AckKey, Barrier, Manager, OwnedVar, Result, Sst, Thread, WideOwnedVar};

use crate::Fabric;

/// A barrier.
pub trait Rounds: Sized + Send + Sync + 'static {
    /// Makes a barrier for `threads` threads of each node.
    fn make(manager: &Manager<Fabric>, threads: usize) -> Self;
    /// Arrives and waits for all.
    fn wait(&self, thread: &Thread<Fabric>, fenced: bool) -> Result<()>;
}

impl Rounds for Barrier<Fabric> {
    fn make(manager: &Manager<Fabric>, threads: usize) -> Self {
        Barrier::with_local_threads(manager, "bar", threads).unwrap()
    }

    fn wait(&self, thread: &Thread<Fabric>, fenced: bool) -> Result<()> {
        match fenced {
            true => Barrier::wait(self, thread),
            false => self.wait_unfenced(thread),
        }
    }
}

/// A register that node 0 writes.
pub trait Register: Sized + Send + Sync + 'static {
    fn make(manager: &Manager<Fabric>) -> Self;
    fn store(&self, thread: &Thread<Fabric>, value: u64) -> Result<()>;
    fn push(&self, thread: &Thread<Fabric>) -> Result<AckKey<Fabric>>;
    /// Returns this node's copy.
    fn load(&self, thread: &Thread<Fabric>) -> u64;
    /// Waits until this node's copy has `value`.
    fn wait_for(&self, thread: &Thread<Fabric>, value: u64) -> Result<()>;
}

const OWNER: NodeId = NodeId(0);

impl Register for OwnedVar<u64, Fabric> {
    fn make(manager: &Manager<Fabric>) -> Self {
        OwnedVar::new(manager, "register", OWNER).unwrap()
    }

    fn store(&self, _: &Thread<Fabric>, value: u64) -> Result<()> {
        OwnedVar::store(self, value)
    }

    fn push(&self, thread: &Thread<Fabric>) -> Result<AckKey<Fabric>> {
        OwnedVar::push(self, thread)
    }

    fn load(&self, _: &Thread<Fabric>) -> u64 {
        OwnedVar::load(self)
    }

    fn wait_for(&self, thread: &Thread<Fabric>, value: u64) -> Result<()> {
        self.wait_until(thread, |found| found == value).map(drop)
    }
}

impl Register for Sst<u64, Fabric> {
    fn make(manager: &Manager<Fabric>) -> Self {
        Sst::new(manager, "register").unwrap()
    }

    fn store(&self, _: &Thread<Fabric>, value: u64) -> Result<()> {
        self.store_mine(value)
    }

    fn push(&self, thread: &Thread<Fabric>) -> Result<AckKey<Fabric>> {
        self.push(thread)
    }

    fn load(&self, _: &Thread<Fabric>) -> u64 {
        self.row(OWNER).unwrap().load()
    }

    fn wait_for(&self, thread: &Thread<Fabric>, value: u64) -> Result<()> {
        self.row(OWNER)?.wait_for(thread, value)
    }
}

impl Register for WideOwnedVar<[u64; 2], Fabric> {
    fn make(manager: &Manager<Fabric>) -> Self {
        WideOwnedVar::new(manager, "register", OWNER).unwrap()
    }

    fn store(&self, thread: &Thread<Fabric>, value: u64) -> Result<()> {
        WideOwnedVar::store(self, thread, [value; 2])
    }

    fn push(&self, thread: &Thread<Fabric>) -> Result<AckKey<Fabric>> {
        WideOwnedVar::push(self, thread)
    }

    fn load(&self, thread: &Thread<Fabric>) -> u64 {
        WideOwnedVar::load(self, thread).unwrap()[0]
    }

    fn wait_for(&self, thread: &Thread<Fabric>, value: u64) -> Result<()> {
        self.wait_until(thread, |found| found[0] == value).map(drop)
    }
}

/// Waits as a register does, on behalf of a register that can only load.
pub fn wait_for_word(thread: &Thread<Fabric>, load: impl Fn() -> u64, value: u64) -> Result<()> {
    thread.wait_until("register", Peers::One(OWNER), || (load() == value).then_some(()))
}
