//! Tests the libfabric fabric between nodes of one process: the conformance suite over the provider `tcp`, with
//! all that the fabric knows of a provider, with nothing but the provider's attributes, and behind a provider that is as weak as
//! its attributes allow; and over the provider `verbs`.
//!
//! Without libfabric each test says *skipped*; `LOCO_REQUIRE_OFI` makes that a failure, as `test.sh` does. Those over `verbs`
//! need an RDMA device (`LOCO_REQUIRE_RDMA`), which `ci/verbs-suite` has.

#![allow(clippy::unwrap_used)]

use loco_conformance::World;
use loco_host::HugePages;
use loco_ofi::{OfiConfig, OfiFabric, Trust, usable};
use loco_test_networks::weak::{Orders, WeakProvider};

fn config(provider: &str, trust: Trust) -> OfiConfig {
    let config = OfiConfig::default().provider(Some(provider.to_owned()));
    small(config.trust(trust))
}

fn small(config: OfiConfig) -> OfiConfig {
    config
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(16)
}

/// Returns `tcp` behind a provider that keeps no order, and says so.
fn unordered() -> OfiConfig {
    small(WeakProvider::honest(1, Orders::NONE).config())
}

fn bring_up(n: usize, config: &OfiConfig) -> Vec<OfiFabric> {
    loco_conformance::bring_up(n, |mesh| OfiFabric::new(mesh, config.clone()).unwrap())
}

macro_rules! worlds {
    ($($(#[$meta:meta])* $world:ident = $module:ident: $config:expr;)*) => {$(
        $(#[$meta])*
        struct $world;

        impl World for $world {
            type Fabric = OfiFabric;
            fn nodes(n: usize) -> Vec<OfiFabric> {
                bring_up(n, &$config)
            }
            fn kill(node: &OfiFabric) {
                node.mesh().fail();
            }
            fn runs(_test: &str) -> bool {
                match usable(&$config) {
                    Ok(_) => true,
                    Err(error) => {
                        loco_testing::skipped("OFI", error);
                        false
                    }
                }
            }
        }

        mod $module {
            use super::$world;
            loco_conformance::suite!($world);
        }
    )*};
}

worlds! {
    /// TCP.
    Tcp = tcp: config("tcp", Trust::Known);
    /// TCP, where everything that the attributes do not promise is bought.
    TcpByAttributes = tcp_by_attributes: config("tcp", Trust::Attributes);
    /// A provider that keeps no order, and reports writes before they are placed.
    Unordered = unordered: unordered();
}

/// An RDMA device.
struct Verbs;

impl World for Verbs {
    type Fabric = OfiFabric;
    fn nodes(n: usize) -> Vec<OfiFabric> {
        bring_up(n, &config("verbs;ofi_rxm", Trust::Known))
    }
    fn kill(node: &OfiFabric) {
        node.mesh().fail();
    }
    fn runs(test: &str) -> bool {
        // Soft-RoCE does not promise it, see `verbs_device.rs` of `loco-verbs`.
        if matches!(
            test,
            "words_within_copies_do_not_tear" | "narrow_words_do_not_tear"
        ) {
            loco_testing::skipped("WHOLE_WORDS", "Soft-RoCE may tear words");
            return false;
        }
        match usable(&config("verbs;ofi_rxm", Trust::Known)) {
            Ok(_) => true,
            Err(error) => {
                loco_testing::skipped("RDMA", error);
                false
            }
        }
    }
}

mod verbs {
    use super::Verbs;
    loco_conformance::suite!(Verbs);
}

/// Providers that cannot be used are refused, and the error says why and what to do.
#[test]
fn what_cannot_be_used_is_refused_with_a_reason() {
    if !Tcp::runs("refused") {
        return;
    }
    let refusal = |provider| usable(&config(provider, Trust::Known)).unwrap_err().to_string();
    let shm = refusal("shm");
    assert!(
        shm.contains("docs/networks.md") && shm.contains("the fabric `shm`"),
        "{shm}"
    );
    let nobody = refusal("nobody");
    assert!(
        nobody.contains("nobody") && nobody.contains("fi_info -l"),
        "{nobody}"
    );
}
