//! Several nodes in one process, for tests and examples.

use loco_fabric::{Mesh, ShmConfig, ShmFabric};

use crate::Result;

/// Runs `node` once for each of `n` nodes, each in its own thread, over shared memory, and returns their results in
/// the order of the nodes.
///
/// # Panics
/// If a node fails: with its error.
pub fn run<T: Send>(n: usize, node: impl Fn(ShmFabric) -> Result<T> + Sync) -> Vec<T> {
    run_with(n, &ShmConfig::default(), node)
}

/// The same with a configuration of the fabric.
///
/// # Panics
/// If a node fails: with its error.
pub fn run_with<T: Send>(
    n: usize,
    config: &ShmConfig,
    node: impl Fn(ShmFabric) -> Result<T> + Sync,
) -> Vec<T> {
    let meshes = Mesh::in_process(n).unwrap_or_else(|error| panic!("making {n} nodes: {error}"));
    std::thread::scope(|scope| {
        let threads: Vec<_> = meshes
            .into_iter()
            .map(|mesh| {
                let (node, config) = (&node, config.clone());
                scope.spawn(move || node(ShmFabric::new(mesh, config)?))
            })
            .collect();
        threads
            .into_iter()
            .enumerate()
            .map(|(node, thread)| match thread.join() {
                Ok(Ok(value)) => value,
                Ok(Err(error)) => panic!("node {node}: {error}"),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
