//! Tests the TCP fabric between nodes of one process: the conformance suite over plain and over encrypted connections.

#![allow(clippy::unwrap_used)]

use loco_conformance::World;
use loco_fabric::FabricError;
use loco_host::HugePages;
use loco_job::Mesh;
use loco_tcp::{TcpConfig, TcpFabric};

fn config() -> TcpConfig {
    TcpConfig::default()
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(16)
}

fn bring_up(n: usize, config: impl Fn(usize) -> TcpConfig + Sync) -> Vec<Result<TcpFabric, FabricError>> {
    let meshes = Mesh::in_process(n).unwrap();
    std::thread::scope(|scope| {
        let config = &config;
        let ups: Vec<_> = meshes
            .into_iter()
            .enumerate()
            .map(|(index, mesh)| scope.spawn(move || TcpFabric::new(mesh, config(index))))
            .collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    })
}

macro_rules! worlds {
    ($($(#[$meta:meta])* $world:ident = $module:ident: $config:expr;)*) => {$(
        $(#[$meta])*
        struct $world;

        impl World for $world {
            type Fabric = TcpFabric;
            fn nodes(n: usize) -> Vec<TcpFabric> {
                bring_up(n, |_| $config).into_iter().map(Result::unwrap).collect()
            }
            fn kill(node: &TcpFabric) {
                node.mesh().fail();
            }
        }

        mod $module {
            use super::$world;
            loco_conformance::suite!($world);
        }
    )*};
}

worlds! {
    /// Plain connections.
    Plain = plain: config();
    /// Encrypted connections.
    Encrypted = encrypted: config().encrypt(true);
}

/// Nodes that disagree on encryption say so, all of them.
#[test]
fn nodes_that_disagree_on_encryption_are_refused() {
    for up in bring_up(3, |index| config().encrypt(index == 1)) {
        let error = up.unwrap_err().to_string();
        assert!(
            error.contains("node 1 encrypts") && error.contains("LOCO_TCP_ENCRYPT"),
            "{error}"
        );
    }
}
