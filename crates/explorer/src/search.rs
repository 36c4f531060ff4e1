//! Explicit-state search: every state that sufficient subsets of the moves reach, each once.
//!
//! A search begins on the caller's thread. One that proves large shares its open states with further workers when these
//! run dry. What each worker does is in [`crate::worker`], what they share in [`crate::shared`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::shared::{Ended, Options, Shared, Stats};
use crate::system::{Failed, System};
use crate::worker::Worker;

/// The result of a search.
#[derive(Debug)]
pub struct Searched<F, C> {
    /// What the system looked for, if it was found.
    pub finding: Option<F>,
    /// How the search ended.
    pub ended: Ended,
    /// What it has done.
    pub stats: Stats,
    /// What each worker has collected.
    pub collected: Vec<C>,
}

/// What [`search`] returns for a system.
pub type SearchResult<W> =
    Result<Searched<<W as System>::Finding, <W as System>::Collected>, Failed<<W as System>::Error>>;

/// Searches from the state that `make`'s systems start with. `make` is called on each worker's thread.
///
/// # Errors
/// [`Failed`]: the system gave an error, or panicked. All workers have ended then.
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

/// Runs a worker. If it fails or panics, the others are told to stop: they would wait for it.
fn guard<W: System, T>(
    shared: &Shared<'_, W>,
    worker: impl FnOnce() -> Result<T, W::Error>,
) -> Result<T, Failed<W::Error>> {
    // What a worker that panicked leaves behind is only looked at to stop the others.
    let result = match catch_unwind(AssertUnwindSafe(worker)) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => Failed::System(error),
        Err(panic) => Failed::Panicked(panic),
    };
    shared.pool.stop();
    Err(result)
}
