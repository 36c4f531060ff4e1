//! Measures how long a cache line takes between two cores. On virtual machines this changes for minutes at a time, as the host
//! moves the processors: figures from different regimes are not comparable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A word on cache lines of its own: processors fetch two lines at a time.
#[repr(align(128))]
struct Word(AtomicU64);

const LONG: Duration = Duration::from_millis(20);

/// Passes a word to and fro between threads on the first two processors for some milliseconds, and returns how long it takes one
/// way, in nanoseconds: the median of pieces, as one that other work interrupts says nothing.
pub fn line_ns() -> f64 {
    let (ping, pong) = (Word(AtomicU64::new(0)), Word(AtomicU64::new(0)));
    const PIECE: u64 = 500;
    let mut pieces = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let mut heard = 0;
            loop {
                let next = ping.0.load(Ordering::Acquire);
                if next == u64::MAX {
                    return;
                }
                if next != heard {
                    heard = next;
                    pong.0.store(next, Ordering::Release);
                }
                std::hint::spin_loop();
            }
        });
        let own = sched_getaffinity(Pid::from_raw(0)).ok();
        pin(0);
        let begin = Instant::now();
        let mut number = 0;
        while begin.elapsed() < LONG {
            let piece = Instant::now();
            for _ in 0..PIECE {
                number += 1;
                ping.0.store(number, Ordering::Release);
                while pong.0.load(Ordering::Acquire) != number {
                    std::hint::spin_loop();
                }
            }
            pieces.push(piece.elapsed().as_secs_f64() * 1e9 / (2 * PIECE) as f64);
        }
        ping.0.store(u64::MAX, Ordering::Release);
        // Processes that this thread starts run where they like.
        if let Some(own) = own {
            let _ = sched_setaffinity(Pid::from_raw(0), &own);
        }
    });
    pieces.sort_by(f64::total_cmp);
    pieces[pieces.len() / 2]
}

/// Keeps the calling thread on one processor, if there are as many.
fn pin(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
