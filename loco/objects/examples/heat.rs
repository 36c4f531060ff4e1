//! Heat spreads along a rod that lies over all nodes. Start it: `loco run -n 3 -- cargo run --example heat`
//!
//! Each node has a piece of the rod and needs one temperature of each neighbour a step: a word that the neighbour owns and
//! pushes. The first end of the rod is kept hot, the other one cold.
use loco::prelude::*;

/// Cells of each node's piece.
const CELLS: usize = 4;
const STEPS: usize = 2000;

fn main() -> loco::Result<()> {
    loco::run(|node| {
        let nodes = node.nodes();
        let edges: Vec<[OwnedVar<f64>; 2]> = nodes
            .iter()
            .map(|&owner| {
                let edge = |side: &str| OwnedVar::new(node, &format!("{side} of {owner}"), owner);
                Ok([edge("left")?, edge("right")?])
            })
            .collect::<loco::Result<_>>()?;
        let barrier = Barrier::new(node, "barrier")?;
        let mut rods = Collective::<f64>::new(node, "rods")?;
        node.wait_for_ready()?;

        let thread = node.thread()?;
        let me = usize::from(node.node().0);
        let mut rod = [0.0; CELLS];
        for _ in 0..STEPS {
            for (edge, temperature) in edges[me].iter().zip([rod[0], rod[CELLS - 1]]) {
                edge.store(temperature)?;
                edge.push_untracked(&thread)?; // the barrier completes it
            }
            barrier.wait(&thread)?; // all edges of this step are there
            let left = if me == 0 { 100.0 } else { edges[me - 1][1].load() };
            let right = edges.get(me + 1).map_or(0.0, |next| next[0].load());
            barrier.wait(&thread)?; // all have read them
            let around = [&[left][..], &rod, &[right]].concat();
            rod = std::array::from_fn(|i| (around[i] + around[i + 2]) / 2.0);
        }
        let mean = rod.iter().sum::<f64>() / CELLS as f64;
        let means = rods.all_gather(&thread, mean)?;
        let means: Vec<_> = means.iter().map(|mean| format!("{mean:.1}")).collect();
        println!("{}: the pieces have {} degrees", node.node(), means.join(", "));
        Ok(())
    })
}
