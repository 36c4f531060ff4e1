//! Measures what it costs calls over shared memory to be seen: two nodes of this process, first alone, then with the pages that
//! `loco top` reads, then with the timeline on, too. Prints the best turn of each, in nanoseconds a call.

use std::time::Instant;

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{Barrier, Result, SharedRegion, TicketLock, testing};
use loco_trace::{timeline, waits};

/// Calls of a turn.
const CALLS: u32 = 2000;
/// Turns of each.
const TURNS: usize = 200;

/// Returns the best turn of `call`, in nanoseconds a call.
fn best(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..TURNS {
        let begin = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        best = best.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    Ok(best)
}

/// Returns the measured calls of node 0.
fn round() -> Vec<(&'static str, f64)> {
    let nodes = testing::run(2, |fabric| {
        let node = loco::Manager::new(fabric)?;
        let barrier = Barrier::new(&node, "bar")?;
        let lock = TicketLock::new(&node, "lock", NodeId(0))?;
        let region = SharedRegion::new(&node, "region", 64)?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        let at = || region.target(NodeId(1), 0);
        let mut found = Vec::new();
        if node.node() == NodeId(0) {
            found.push((
                "untracked put",
                best(|| thread.put_inline_untracked(&[1; 8], at()?))?,
            ));
            found.push((
                "put with a key",
                best(|| thread.put_inline(&[1; 8], at()?)?.wait(&thread))?,
            ));
            found.push((
                "lock and release",
                best(|| lock.lock(&thread, Scope::Nothing)?.release())?,
            ));
        }
        barrier.wait(&thread)?;
        found.push(("barrier", best(|| barrier.wait(&thread))?));
        Ok(found)
    });
    nodes.into_iter().next().unwrap_or_default()
}

fn main() -> std::io::Result<()> {
    let off = round();
    let page = |node| waits::start("bench", NodeId(node), 2);
    let pages = [page(0)?, page(1)?];
    let seen = round();
    let folder = std::env::temp_dir().join(format!("loco-timeline-bench-{}", std::process::id()));
    for node in [0, 1] {
        timeline::start(&folder, NodeId(node))?;
    }
    let on = round();
    std::fs::remove_dir_all(&folder)?;
    drop(pages);
    println!(
        "{:<18} {:>10} {:>10} {:>10}",
        "", "off (ns)", "page (ns)", "on (ns)"
    );
    for (((what, off), (_, seen)), (_, on)) in off.iter().zip(&seen).zip(&on) {
        println!("{what:<18} {off:>10.1} {seen:>10.1} {on:>10.1}");
    }
    Ok(())
}
