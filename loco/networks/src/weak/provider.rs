//! The handle through which tests use a weak provider.

use loco_fabric::Tier;
use loco_ofi::{Library, OfiConfig};

use super::library::{self, Promises};
use super::promises::{Keeps, Orders};

/// A provider as weak as its attributes allow. It hands operations to the real provider, `tcp`, in any order that it need not
/// keep. It reports writes that were not asked to be delivered (`FI_DELIVERY_COMPLETE`) at any time.
///
/// It has no useful speed. If `says` is no more than `keeps`, the provider is honest, and the fabric on it keeps the contract. If it says
/// more than it keeps, or drops requests, the fabric is broken, and tests should find that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeakProvider {
    /// The seed of its choices. (It does not control the scheduling of threads, so it does not replay a run.)
    pub seed: u64,
    /// Its name, from which the fabric concludes how words travel ([`Words`](loco_ofi::Words)) and what is known besides the
    /// attributes ([`Trust::Known`](loco_ofi::Trust::Known)). A number is appended as a layer.
    pub name: String,
    /// The orders of its attributes.
    pub says: Orders,
    /// The orders that it keeps.
    pub keeps: Keeps,
    /// Whether it drops requests to report a write only when it is delivered.
    pub drops_delivery: bool,
}

impl WeakProvider {
    /// Returns a provider called `weak` that keeps these orders and says so.
    pub fn honest(seed: u64, orders: Orders) -> WeakProvider {
        WeakProvider {
            seed,
            name: "weak".to_owned(),
            says: orders,
            keeps: Keeps::Orders(orders),
            drops_delivery: false,
        }
    }

    /// Returns a provider called `weak` over a network of this tier. Its attributes say what attributes can say of that.
    pub fn of_tier(seed: u64, tier: Tier) -> WeakProvider {
        WeakProvider {
            keeps: Keeps::Tier(tier),
            ..WeakProvider::honest(seed, Orders::of_tier(tier))
        }
    }

    /// Returns a configuration of nodes on this provider. They are in one process. Each call makes a provider, which lives
    /// as long as the process.
    pub fn config(&self) -> OfiConfig {
        let name = library::add(Promises {
            seed: self.seed,
            name: self.name.clone(),
            says: self.says,
            keeps: self.keeps,
            drops_delivery: self.drops_delivery,
        });
        OfiConfig::default()
            .provider(Some(name))
            .library(Library::Given(library::api()))
    }
}
