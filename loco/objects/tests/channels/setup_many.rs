//! Tests of set-up with many nodes and many channels: it completes within the ordinary deadlines. No time is asserted here;
//! `benches/set_up.rs` measures. `tests/many_nodes.rs` of the program `loco` has 64 nodes over TCP.

use crate::common::{ALL, Cluster, on_device};
use loco::{Barrier, Inserted, KvConfig, KvStore, OwnedVar, SharedRegion, Sst};

/// Makes what `loco demo` makes, and uses it.
fn demo(cluster: Cluster, nodes: usize) {
    let sums = cluster.run(nodes, |manager| {
        let first = manager.nodes()[0];
        let bar = Barrier::new(&manager, "bar")?;
        let news = OwnedVar::<u64, _>::new(&manager, "news", first)?;
        let table = Sst::<u64, _>::new(&manager, "table")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == first {
            news.store(7)?;
            news.push(&thread)?.wait(&thread)?;
        }
        let heard = news.wait_until(&thread, |value| value != 0)?;
        table.store_mine(heard + u64::from(manager.node().0))?;
        table.push(&thread)?.wait(&thread)?;
        table.wait_for_each(&thread, |row| row != 0)?;
        bar.wait(&thread)?;
        Ok(table.rows()?.map(OwnedVar::load).sum::<u64>())
    });
    let nodes = nodes as u64;
    let sum = 7 * nodes + nodes * (nodes - 1) / 2;
    assert!(sums.iter().all(|&found| found == sum), "{cluster:?}: {sums:?}");
}

#[test]
fn sixty_four_nodes_over_shared_memory() {
    if !on_device() {
        demo(Cluster::Synchronous, 64);
    }
}

#[test]
fn sixteen_nodes_over_every_fabric() {
    for cluster in ALL {
        demo(cluster, 16);
    }
}

#[test]
fn thousands_of_channels_are_made_and_dropped() {
    Cluster::Synchronous.run(2, |manager| {
        let end = Barrier::new(&manager, "end")?;
        let channels = (0..5_000)
            .map(|i| SharedRegion::new(&manager, &format!("r{i}"), 8))
            .collect::<loco::Result<Vec<_>>>()?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        end.wait(&thread)?;
        drop(channels);
        end.wait(&thread)?;
        crate::common::wait_until("nothing is kept any more", || manager.quarantined_channels() == 0);
        end.wait(&thread)
    });
}

#[test]
fn a_store_with_thousands_of_locks_among_many_nodes() {
    // The device is in an emulated machine, which is slow.
    let locks = if on_device() { 250 } else { 1_000 };
    let found = Cluster::Synchronous.run(8, |manager| {
        let end = Barrier::new(&manager, "end")?;
        let config = KvConfig::default().slots_per_node(64).locks(locks);
        let store = KvStore::<u64, u64, _>::new(&manager, "kv", config)?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let own = u64::from(manager.node().0);
        assert_eq!(store.insert(&thread, &own, &(own + 1))?, Inserted::Done);
        end.wait(&thread)?;
        let next = (own + 1) % 8;
        let value = store.get(&thread, &next)?;
        end.wait(&thread)?;
        Ok(value == Some(next + 1))
    });
    assert_eq!(found, [true; 8]);
}
