//! Several nodes in one process, for tests and examples.

use loco_any::{AnyConfig, AnyFabric, FabricChoice};
use loco_fabric::Fabric;
use loco_job::Mesh;
use loco_shm::{ShmConfig, ShmFabric};

use crate::Result;

/// Runs `node` once for each of `n` nodes, each in its own thread, over shared memory, and returns their results in
/// the order of the nodes.
///
/// # Panics
/// Panics if a node fails, with its error.
pub fn run<T: Send>(n: usize, node: impl Fn(AnyFabric) -> Result<T> + Sync) -> Vec<T> {
    let config = AnyConfig::default().choice(FabricChoice::Shm);
    run_on(n, |mesh| AnyFabric::new(mesh, config.clone()), node)
}

/// Runs nodes as [`run`] does, over a shared-memory fabric of this configuration.
///
/// # Panics
/// Panics if a node fails, with its error.
pub fn run_with<T: Send>(
    n: usize,
    config: &ShmConfig,
    node: impl Fn(ShmFabric) -> Result<T> + Sync,
) -> Vec<T> {
    run_on(n, |mesh| ShmFabric::new(mesh, config.clone()), node)
}

/// Runs nodes over any fabric of one process, which `bring_up` makes on each node.
///
/// # Panics
/// Panics if nodes fail, with their errors. A panic of a node goes on.
pub fn run_on<F: Fabric, T: Send>(
    n: usize,
    bring_up: impl Fn(Mesh) -> loco_fabric::Result<F> + Sync,
    node: impl Fn(F) -> Result<T> + Sync,
) -> Vec<T> {
    let meshes = Mesh::in_process(n).unwrap_or_else(|error| panic!("making {n} nodes: {error}"));
    std::thread::scope(|scope| {
        let threads: Vec<_> = meshes
            .into_iter()
            .map(|mesh| {
                let (node, bring_up) = (&node, &bring_up);
                scope.spawn(move || node(bring_up(mesh)?))
            })
            .collect();
        let (mut values, mut errors, mut panicked) = (Vec::new(), Vec::new(), None);
        for (node, thread) in threads.into_iter().enumerate() {
            match thread.join() {
                Ok(Ok(value)) => values.push(value),
                Ok(Err(error)) => errors.push(format!("node {node}: {error}")),
                Err(panic) => panicked = panicked.or(Some(panic)),
            }
        }
        // The error of a node may be that another one has failed, so all are shown, and a panic comes first.
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic);
        }
        assert!(errors.is_empty(), "{}", errors.join("\n"));
        values
    })
}
