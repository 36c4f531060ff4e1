//! Objects on a card that puts nothing inline: what is shorter than a word of data goes from registered memory instead.

use loco::fabric::verbs::{VerbsConfig, VerbsFabric};
use loco::fabric::{Fabric as _, HugePages, NodeId};
use loco::fence::Scope;
use loco::prelude::*;
use loco::{Config, ErrorKind, Inserted, Result};
use loco_test_networks::altered::Limits;

use crate::common::{PATIENCE, unknown};

/// Runs `node` on two nodes of a card that puts nothing inline, and keeps no order.
fn run<T: Send>(node: impl Fn(Manager<VerbsFabric>) -> Result<T> + Sync) -> Vec<T> {
    let device = unknown(Limits {
        inline_bytes_max: 0,
        ..Limits::default()
    });
    let bring_up = |mesh| {
        let config = VerbsConfig::default()
            .provider(device.provider())
            .arena_bytes(4 << 20)
            .huge_pages(HugePages::Never);
        VerbsFabric::new(mesh, config)
    };
    loco::testing::run_on(2, bring_up, |fabric| {
        assert_eq!(fabric.caps().inline_bytes_max, 0);
        node(Manager::with_config(
            fabric,
            Config::default().deadline(PATIENCE),
        )?)
    })
}

#[test]
fn bytes_are_put_from_a_block_of_the_pool() {
    const BYTES: usize = 4096;
    run(|manager| {
        let region = SharedRegion::new(&manager, "region", 2 * BYTES)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            // More than the pool has blocks, so that each is used again.
            for value in 1..=100_u64 {
                let mut bytes = value.to_ne_bytes();
                let to = region.target(NodeId(1), 0)?;
                match value % 2 {
                    0 => thread.put_inline_untracked(&bytes, to)?,
                    _ => thread.put_inline(&bytes, to)?.wait(&thread)?,
                }
                bytes.fill(0xff);
                fence::thread(&thread)?;
            }
            let all = vec![3; BYTES];
            thread
                .put_inline(&all, region.target(NodeId(1), BYTES)?)?
                .forget();
            let long = thread.put_inline(&vec![4; BYTES + 1], region.target(NodeId(1), 0)?);
            let error = long.expect_err("it is longer than a block");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            fence::thread(&thread)?;
        }
        end.wait(&thread)?;
        if manager.node() == NodeId(1) {
            let mut word = [0; 8];
            region.read(0, &mut word)?;
            assert_eq!(u64::from_ne_bytes(word), 100);
            let mut all = vec![0; BYTES];
            region.read(BYTES, &mut all)?;
            assert!(all.iter().all(|&byte| byte == 3));
        }
        Ok(())
    });
}

#[test]
fn every_object_works() {
    run(|manager| {
        let me = manager.node();
        let owned = OwnedVar::<u64, _>::new(&manager, "owned", NodeId(0))?;
        let rows = Sst::<u64, _>::new(&manager, "rows")?;
        let shared = SharedVar::<u64, _>::new(&manager, "shared")?;
        let ticket = TicketLock::new(&manager, "ticket", NodeId(0))?;
        let tas = TasLock::new(&manager, "tas", NodeId(1))?;
        let queue = SharedQueue::<u64, _>::new(&manager, "queue", NodeId(0), 2)?;
        let ring = RingBuffer::new(&manager, "ring", NodeId(0), 256)?;
        let mut work = Collective::<u64, _>::new(&manager, "work")?;
        let store = KvStore::<u64, u64, _>::new(&manager, "store", KvConfig::default().slots_per_node(64))?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        for round in 1..=20_u64 {
            if me == NodeId(0) {
                owned.store(round)?;
                owned.push(&thread)?.wait(&thread)?;
            } else {
                owned.wait_until(&thread, |value| value >= round)?;
            }
            rows.store_mine(round)?;
            rows.push(&thread)?.forget();
            rows.wait_for_each(&thread, |row| row >= round)?;
            shared.write(round);
            shared.broadcast(&thread)?.wait(&thread)?;
            ticket.lock(&thread, Scope::Thread)?.release()?;
            tas.lock(&thread, Scope::Thread)?.release()?;
            let other = NodeId(1 - me.0);
            let key = 2 * round + u64::from(me.0);
            assert_eq!(store.insert(&thread, &key, &round)?, Inserted::Done);
            end.wait(&thread)?;
            assert_eq!(
                store.get(&thread, &(2 * round + u64::from(other.0)))?,
                Some(round)
            );
            assert_eq!(work.all_reduce(&thread, round, |a, b| a + b)?, 2 * round);
        }
        if me == NodeId(0) {
            let mut writer = ring.writer()?;
            for number in 0..100_u64 {
                writer.submit(&thread, &number.to_ne_bytes())?;
                assert_eq!(queue.push(&thread, number)?, Pushed::Done);
            }
        } else {
            let mut reader = ring.reader()?;
            for number in 0..100_u64 {
                assert_eq!(reader.receive(&thread)?, number.to_ne_bytes());
                assert_eq!(queue.pop(&thread)?, Popped::Value(number));
            }
        }
        end.wait(&thread)
    });
}
