//! Traffic beside a test: a thread of the node that keeps operations under way to every node while a batch runs
//! (RDMA-TSO'24 section 5).
//!
//! Relies on [`Lines`]. Used by the node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loco_fabric::{Fabric, Result};

use crate::line::{Lines, TRAFFIC};
use crate::stress::Stress;

/// Keeps operations under way until `stop` is set, and returns when all have ended.
///
/// # Errors
/// Fails if the fabric fails.
pub fn flood<F: Fabric>(lines: &mut Lines<F>, stress: Stress, stop: &AtomicBool) -> Result<()> {
    let nodes = lines.shared.nodes.len();
    let me = lines.shared.me;
    // In a job of one node, the node keeps its own card busy.
    let peers: Vec<usize> = (0..nodes).filter(|&node| nodes == 1 || node != me).collect();
    let pairs =
        (0..stress.queue_pairs(peers.len())).flat_map(|pair| peers.iter().map(move |&node| (node, pair)));
    let peers = pairs
        .map(|(node, pair)| lines.line(node, TRAFFIC - pair))
        .collect::<Result<Vec<_>>>()?;
    let patience = || Instant::now() + Duration::from_secs(30);
    let mut turn = 0u64;
    while !stop.load(Ordering::Relaxed) {
        for &line in &peers {
            turn += 1;
            let deadline = patience();
            let number = lines.traffic(line, stress.traffic_bytes(), turn.is_multiple_of(4), deadline)?;
            lines.until(
                line,
                number.saturating_sub(u64::from(stress.traffic_depth)),
                deadline,
            )?;
        }
        std::thread::yield_now();
    }
    peers
        .into_iter()
        .try_for_each(|line| lines.flush(line, patience()))
}
