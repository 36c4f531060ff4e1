//! What a member answers to a process that asks to join.
//!
//! Relies on no other part of the mesh. Used by [`door`](super::door), which answers, and by [`asking`](super::asking).

use loco_fabric::Result;
use serde::{Deserialize, Serialize};

use crate::hosts::Address;

/// Longest answer, in bytes: enough for all the nodes that there can be, with long names.
pub(super) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// The answer to a process that asks to join.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The process has an index, and all members are told to expect it.
    Admitted(Admission),
    /// The member at this place is to be asked.
    Ask(Place),
    /// Somebody else joins, or a loss or a view is being agreed on.
    Later,
    /// All of so many ids were used.
    Full(u32),
    /// The member leaves, or is out of the job.
    Over,
}

/// What a process must know of the job that it joins.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Admission {
    /// The ids of the nodes that the job began with.
    pub(super) first: Vec<u16>,
    /// How many ids the job has room for.
    pub(super) room: u32,
    /// The index of the process.
    pub(super) index: u32,
    /// The number of the view that the process makes.
    pub(super) view: u32,
    /// The members, by index, and where each listens.
    pub(super) members: Vec<(u32, Place)>,
}

/// The address at which a member listens, as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// None stands for the host of the one that answers, whatever name others have for that.
    host: Option<String>,
    port: u16,
}

impl Place {
    pub(super) fn of(address: &Address) -> Place {
        Place {
            host: (!address.is_loopback()).then(|| address.host().to_owned()),
            port: address.port(),
        }
    }

    /// Returns the address for a process that has reached the one that answers `at` an address.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`](loco_fabric::FabricError::Config) for a host that is none.
    pub(super) fn seen_from(&self, at: &Address) -> Result<Address> {
        Address::parse(self.host.as_deref().unwrap_or(at.host()), Some(self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_on_the_host_of_the_one_that_answers_is_sought_where_that_was_reached() {
        let address = |text| Address::parse(text, None).unwrap();
        let seen = |text, at| Place::of(&address(text)).seen_from(&address(at)).unwrap();
        assert_eq!(seen("127.0.0.1:7", "alpha:1"), address("alpha:7"));
        assert_eq!(seen("localhost:7", "[::1]:1"), address("[::1]:7"));
        assert_eq!(seen("beta:7", "alpha:1"), address("beta:7"));
    }
}
