//! Measures what choosing the fabric at run time costs an operation over shared memory. Runs the same
//! operations through `AnyFabric` and through `ShmFabric` itself, in turns, so that both meet the same load
//! of the machine. Prints the best and the median turn of each, and the ratio.

use std::hint::black_box;
use std::time::Instant;

use loco::fabric::{AnyConfig, AnyFabric, Fabric, FabricChoice, NodeId, ShmConfig, ShmFabric, Target};
use loco::{Manager, Result, SharedRegion, Thread, testing};

/// Operations of a turn.
const OPERATIONS: u32 = 20_000;
/// Turns of each.
const TURNS: usize = 400;
const PEER: NodeId = NodeId(1);

type Node<F> = (Manager<F>, SharedRegion<F>);

fn node<F: Fabric>(fabric: F) -> Result<Node<F>> {
    let manager = Manager::new(fabric)?;
    let region = SharedRegion::new(&manager, "region", 4096)?;
    manager.wait_for_ready()?;
    Ok((manager, region))
}

/// Nanoseconds for each operation of a turn.
fn turn<F: Fabric>(node: &Node<F>, thread: &Thread<F>, what: What) -> Result<f64> {
    let at = node.1.target(PEER, 64)?;
    let target = || Target { ..at };
    let begin = Instant::now();
    for i in 0..OPERATIONS {
        let word = u64::from(black_box(i)).to_ne_bytes();
        match what {
            What::Put => thread.put_inline_untracked(&word, target())?,
            What::PutWithKey => thread.put_inline(&word, target())?.wait(thread)?,
            What::Get => drop(black_box(thread.read_word(target())?)),
            What::FetchAdd => drop(black_box(thread.fetch_add_word(target(), 1)?)),
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATIONS))
}

#[derive(Clone, Copy, Debug)]
enum What {
    Put,
    PutWithKey,
    Get,
    FetchAdd,
}

fn main() -> Result<()> {
    let fixed = testing::run_with(2, &ShmConfig::default(), node::<ShmFabric>);
    let config = AnyConfig::default().choice(FabricChoice::Shm);
    let chosen = testing::run_on(2, |mesh| AnyFabric::new(mesh, config.clone()), node::<AnyFabric>);
    let (fixed_thread, chosen_thread) = (fixed[0].0.thread()?, chosen[0].0.thread()?);
    println!(
        "{:<12} {:>22} {:>22}  ratio of best, of medians",
        "", "fixed best/median ns", "chosen best/median ns"
    );
    for what in [What::Put, What::PutWithKey, What::Get, What::FetchAdd] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            times[0].push(turn(&fixed[0], &fixed_thread, what)?);
            times[1].push(turn(&chosen[0], &chosen_thread, what)?);
        }
        let [fixed, chosen] = times.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            (times[0], times[TURNS / 2])
        });
        println!(
            "{:<12} {:>13.2} / {:>6.2} {:>13.2} / {:>6.2}  {:.3}, {:.3}",
            format!("{what:?}"),
            fixed.0,
            fixed.1,
            chosen.0,
            chosen.1,
            chosen.0 / fixed.0,
            chosen.1 / fixed.1
        );
    }
    Ok(())
}
