//! Nodes count themselves and add up what each brings. Start three: `loco run -n 3 -- cargo run --example hello`
use loco::prelude::*;

fn main() -> loco::Result<()> {
    loco::run(|node| {
        let arrivals = AtomicVar::<u64>::new(node, "arrivals", node.nodes()[0])?;
        let mut sums = Collective::<f64>::new(node, "sums")?;
        let barrier = Barrier::new(node, "barrier")?;
        node.wait_for_ready()?; // every node has made these objects

        let thread = node.thread()?;
        arrivals.fetch_add(&thread, 1)?; // one-sided: the home's processor does not take part
        barrier.wait(&thread)?;
        let here = arrivals.read(&thread)?;

        let mine = 0.5 + f64::from(node.node().0);
        let sum = sums.all_reduce(&thread, mine, |sum, value| sum + value)?;
        println!("{}: {here} nodes are here and bring {sum}", node.node());
        Ok(())
    })
}
