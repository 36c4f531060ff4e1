//! A key-value store over the memory of all nodes. Start it: `loco run -n 3 -- cargo run --example stock`
//!
//! Each node inserts a key of its own, then reads what all have inserted: lookups are one-sided, no other processor takes part.
use loco::prelude::*;

pub(crate) fn main() -> loco::Result<()> {
    loco::run(|node| {
        let stock = KvStore::<u64, u64>::new(node, "stock", KvConfig::default())?;
        let barrier = Barrier::new(node, "barrier")?;
        node.wait_for_ready()?;

        let thread = node.thread()?;
        let mine = u64::from(node.node().0);
        if stock.insert(&thread, &mine, &(100 * mine))? == Inserted::Done {
            stock.update(&thread, &mine, &(100 * mine + 1))?;
        }
        barrier.wait(&thread)?; // all have inserted

        let keys: Vec<u64> = node.nodes().iter().map(|node| u64::from(node.0)).collect();
        let values = stock.get_many(&thread, &keys)?; // several lookups under way at a time
        assert!(values.iter().all(Option::is_some), "all have inserted");
        println!(
            "{}: {:?}",
            node.node(),
            values.into_iter().flatten().collect::<Vec<_>>()
        );
        barrier.wait(&thread) // nobody takes its part of the store away before all have read
    })
}
