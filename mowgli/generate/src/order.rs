//! Permutations of a few things, and an ordered map over many workers. Knows nothing of programs.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Returns every permutation of `0..n` in lexicographic order.
pub fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new()];
    for _ in 0..n {
        let longer = |p: Vec<usize>| {
            let free: Vec<usize> = (0..n).filter(|i| !p.contains(i)).collect();
            free.into_iter().map(move |i| [p.as_slice(), &[i]].concat())
        };
        out = out.into_iter().flat_map(longer).collect();
    }
    out
}

/// Returns the number of workers to use if nobody says how many: one for each processor that this process may use.
pub fn workers() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Results that wait for their turn, and the number of the result whose turn it is.
struct Turns<T> {
    ready: BTreeMap<usize, T>,
    next: usize,
    stopped: bool,
}

/// Stops the other threads when the work of one panics.
struct StopOnPanic<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for StopOnPanic<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

/// Most results that may wait for the slowest worker, for each worker.
const AHEAD: usize = 64;

/// Computes `work(i)` for `i` in `0..count` on several workers and hands the results to `take` in the order of `i`, as they come.
/// `take` sees the items in one order for every number of workers. It returns false to stop.
pub fn in_order<T: Send>(
    count: usize,
    workers: NonZeroUsize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> bool,
) {
    let counter = AtomicUsize::new(0);
    let turns = Mutex::new(Turns {
        ready: BTreeMap::new(),
        next: 0,
        stopped: false,
    });
    let changed = Condvar::new();
    let lock = || turns.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = || {
        lock().stopped = true;
        changed.notify_all();
    };
    thread::scope(|scope| {
        for _ in 0..workers.get().min(count) {
            scope.spawn(|| {
                loop {
                    let i = counter.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    let mut turns = lock();
                    while !turns.stopped && i > turns.next + AHEAD * workers.get() {
                        turns = changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
                    }
                    if turns.stopped {
                        return;
                    }
                    drop(turns);
                    let _guard = StopOnPanic(&stop);
                    let result = work(i);
                    lock().ready.insert(i, result);
                    changed.notify_all();
                }
            });
        }
        for i in 0..count {
            let mut turns = lock();
            let result = loop {
                if let Some(result) = turns.ready.remove(&i) {
                    break result;
                }
                if turns.stopped {
                    // A worker panicked; the scope passes the panic on.
                    return;
                }
                turns = changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
            };
            turns.next = i + 1;
            drop(turns);
            changed.notify_all();
            if !take(i, result) {
                stop();
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_all_and_in_order() {
        let all = permutations(4);
        assert_eq!(all.len(), 24);
        assert!(all.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn results_come_in_order_whatever_the_number_of_workers() {
        for workers in [1, 2, 7] {
            let mut seen = Vec::new();
            let workers = NonZeroUsize::new(workers).unwrap();
            in_order(
                500,
                workers,
                |i| i * i,
                |i, square| {
                    seen.push((i, square));
                    i < 400
                },
            );
            assert_eq!(seen.len(), 401, "the work stops when it is told to");
            assert!(
                seen.iter()
                    .enumerate()
                    .all(|(n, &(i, square))| n == i && square == i * i)
            );
        }
    }
}
