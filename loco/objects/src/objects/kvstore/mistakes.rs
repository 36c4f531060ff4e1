//! Mistakes that the papers warn of, to show that checkers find them. A store makes one only in builds with the feature
//! `mistakes`, when told to by [`KvStore::with_defect`](super::KvStore).

use std::hash::Hash;

use loco_fabric::Fabric;

use super::{Encode, Shared};

/// A mistake of a store, to show that checkers find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// No fence between the write of an update and the release of the lock.
    ReleaseWithoutFence,
    /// The valid bit is set before the acknowledgements.
    ValidBeforeAcknowledged,
    /// A reader takes any use of a slot for the one that its index has.
    #[cfg(feature = "mistakes")]
    IgnoresCounter,
    /// A reader takes words of different writes for a value.
    #[cfg(feature = "mistakes")]
    IgnoresChecksum,
}

#[cfg(feature = "mistakes")]
impl<K: Encode + Eq + Hash, V: Encode, F: Fabric> super::KvStore<K, V, F> {
    /// Makes this mistake from now on, for tests of checkers. The first mistake that a store is given stays.
    pub fn with_defect(self, defect: Defect) -> Self {
        self.shared.defect.get_or_init(|| defect);
        self
    }
}

impl<F: Fabric, K: Encode + Eq + Hash> Shared<F, K> {
    /// Returns true if the store is to make this mistake. Only a build for tests of checkers ever does.
    #[cfg(feature = "mistakes")]
    pub(super) fn makes(&self, mistake: Defect) -> bool {
        self.defect.get() == Some(&mistake)
    }

    #[cfg(not(feature = "mistakes"))]
    #[allow(clippy::unused_self)]
    pub(super) const fn makes(&self, _: Defect) -> bool {
        false
    }
}
