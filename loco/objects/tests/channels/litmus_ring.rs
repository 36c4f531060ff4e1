//! The litmus-like examples of LOCO'26 on ring buffers, Figs. 13 and 23, run many times on every fabric: the forbidden
//! outcome never shows.

#![allow(clippy::unwrap_used)]

use crate::common::ALL;
use loco::fabric::NodeId;
use loco::{Barrier, RingBuffer, fence};

const ROUNDS: u64 = 200;

/// Fig. 13: both submit, execute a global fence, and try to receive: not both find nothing.
#[test]
fn fig13_submit_fence_receive_both_ways() {
    for cluster in ALL {
        let results = cluster.run(2, |manager| {
            let x = RingBuffer::new(&manager, "x", NodeId(0), 256)?;
            let y = RingBuffer::new(&manager, "y", NodeId(1), 256)?;
            let rounds = Barrier::new(&manager, "rounds")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let other = NodeId(1 - manager.node().0);
            let (mine, theirs) = if other.0 == 1 { (x, y) } else { (y, x) };
            let (mut writer, mut reader) = (mine.writer()?, theirs.reader()?);
            let mut message = Vec::new();
            (1..=ROUNDS)
                .map(|r| {
                    rounds.wait(&thread)?;
                    assert!(writer.try_submit(&thread, &r.to_ne_bytes())?);
                    fence::towards(&thread, &[other])?;
                    let received = reader.try_receive(&thread, &mut message)?;
                    rounds.wait(&thread)?;
                    if !received {
                        // After the barrier it is there (Fig. 23), and out of the way of the next round.
                        assert!(
                            reader.try_receive(&thread, &mut message)?,
                            "{cluster:?}, round {r}"
                        );
                    }
                    assert_eq!(message, r.to_ne_bytes());
                    Ok(received)
                })
                .collect::<loco::Result<Vec<bool>>>()
        });
        for (r, (a, b)) in results[0].iter().zip(&results[1]).enumerate() {
            assert!(a | b, "{cluster:?}, round {r}: both received nothing");
        }
    }
}

/// Fig. 23: what was submitted before a barrier is received after it.
#[test]
fn fig23_ring_buffer_and_barrier() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let ring = RingBuffer::new(&manager, "x", NodeId(0), 64)?;
            let barrier = Barrier::new(&manager, "z")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node().0 == 0 {
                let mut writer = ring.writer()?;
                for r in 1..=ROUNDS {
                    // Acknowledgements of the last round came before the last barrier, so there is room.
                    assert!(
                        writer.try_submit(&thread, &r.to_ne_bytes())?,
                        "{cluster:?}, round {r}"
                    );
                    barrier.wait(&thread)?;
                    barrier.wait(&thread)?;
                }
            } else {
                let (mut reader, mut message) = (ring.reader()?, Vec::new());
                for r in 1..=ROUNDS {
                    barrier.wait(&thread)?;
                    assert!(
                        reader.try_receive(&thread, &mut message)?,
                        "{cluster:?}, round {r}"
                    );
                    assert_eq!(message, r.to_ne_bytes());
                    barrier.wait(&thread)?;
                }
            }
            Ok(())
        });
    }
}
