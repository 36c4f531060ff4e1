//! Explicit-state search: visits every state that sufficient subsets of the moves reach, each once.
//!
//! A search begins on the caller's thread. If it proves large, it shares its open states with further workers
//! when these have no work. [`crate::worker`] has the work of each worker, and [`crate::shared`] the state
//! that they share.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::shared::{Ended, Options, Shared, Stats};
use crate::system::{Failed, System};
use crate::worker::Worker;

/// The result of a search.
#[derive(Debug)]
pub struct Searched<F, C> {
    /// The finding of the system, if there was one.
    pub finding: Option<F>,
    /// The end of the search.
    pub ended: Ended,
    /// The work that was done.
    pub stats: Stats,
    /// The values that the workers have collected.
    pub collected: Vec<C>,
}

/// The result of [`search`] for a system.
pub type SearchResult<W> =
    Result<Searched<<W as System>::Finding, <W as System>::Collected>, Failed<<W as System>::Error>>;

/// Searches from the first state of the systems that `make` makes. `make` is called on each worker's thread.
///
/// # Errors
/// Returns [`Failed`] if the system returned an error or panicked. All workers have then ended.
pub fn search<W: System>(options: &Options<'_>, make: impl Fn() -> W + Sync) -> SearchResult<W> {
    let shared: Shared<'_, W> = Shared::new(options);
    let (shared, make) = (&shared, &make);
    shared.pool.add_workers(1);
    let results = std::thread::scope(|scope| {
        let mut others = Vec::new();
        let first = guard(shared, || {
            let mut worker = Worker::new(shared, make());
            if worker.start()? && !worker.run(options.alone)? {
                let count = options.workers.saturating_sub(1);
                shared.pool.add_workers(count);
                others.extend((0..count).map(|_| {
                    scope.spawn(|| {
                        guard(shared, || {
                            let mut worker = Worker::new(shared, make());
                            worker.work()?;
                            Ok(worker.finish())
                        })
                    })
                }));
                worker.run(u64::MAX)?;
            }
            worker.work()?;
            Ok(worker.finish())
        });
        let mut results = vec![first];
        for handle in others {
            results.push(handle.join().unwrap_or_else(|panic| Err(Failed::Panicked(panic))));
        }
        results
    });
    let mut stats = Stats::default();
    let mut collected = Vec::new();
    for result in results {
        let (part, found) = result?;
        stats.add(&part);
        collected.push(found);
    }
    let (ended, finding) = shared.end();
    Ok(Searched {
        finding,
        ended,
        stats,
        collected,
    })
}

/// Runs a worker. If it fails or panics, the others are told to stop, because they would wait for it.
fn guard<W: System, T>(
    shared: &Shared<'_, W>,
    worker: impl FnOnce() -> Result<T, W::Error>,
) -> Result<T, Failed<W::Error>> {
    // The remains of a worker that panicked serve only to stop the others.
    let result = match catch_unwind(AssertUnwindSafe(worker)) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => Failed::System(error),
        Err(panic) => Failed::Panicked(panic),
    };
    shared.pool.stop();
    Err(result)
}
