//! A channel to begin with: one node publishes a number, and every other node waits for it.
//!
//! It is generic over the fabric. So the same code runs over shared memory and networks (`src/main.rs`), and under the memory
//! model of RDMA (`tests/model.rs`).

#![forbid(unsafe_code)]

use loco::Result;
use loco::fabric::AnyFabric;
use loco::prelude::*;

/// The place of the number in the memory of each node.
const NUMBER: usize = 0;
/// The place of the news: 1 as soon as the number is there.
const NEWS: usize = 8;
const BYTES: usize = 16;

/// A number that one node publishes to all others.
pub struct Bulletin<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    publisher: NodeId,
}

impl<F: Fabric> Bulletin<F> {
    /// Makes this node's endpoint. Every node makes one, under the same name.
    pub fn new(parent: &impl Parent<F>, name: &str, publisher: NodeId) -> Result<Self> {
        let channel = Channel::builder(parent, name)
            .kind(format!("bulletin of {publisher}"))
            .region("words", BYTES)
            .join()?;
        Ok(Bulletin { channel, publisher })
    }

    /// Puts the number into the memory of every other node, and then the news that it is there.
    pub fn publish(&self, thread: &Thread<F>, number: u64) -> Result<()> {
        let region = self.channel.region("words")?;
        for &peer in self.channel.peers() {
            let remote = region.remote(peer)?;
            let at = |offset| Target { remote, offset };
            let (number, news) = (number.to_ne_bytes(), 1u64.to_ne_bytes());
            thread.put_inline(&number, at(NUMBER))?.forget();
            // Many networks place two puts in any order. Strong order places the news after the number. With
            // `Flags::default()` in its place, `cargo test` shows an execution in which a node reads 0.
            let told = thread.put_inline_with(&news, at(NEWS), Flags::STRONG)?;
            told.forget();
        }
        Ok(())
    }

    /// Waits for the news, and returns the number.
    pub fn read(&self, thread: &Thread<F>) -> Result<u64> {
        let words = self.channel.region("words")?.local()?;
        let (number, news) = (words.cell::<u64>(NUMBER)?, words.cell::<u64>(NEWS)?);
        let publisher = Peers::One(self.publisher);
        thread.wait_until(self.channel.name(), publisher, || {
            (news.load() == 1).then_some(())
        })?;
        Ok(number.load())
    }
}
