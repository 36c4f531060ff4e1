//! The parcels that travel between nodes once they are connected.

use loco_fabric::PeerState;

/// Longest payload of one message or one contribution, in bytes. Set-up data is small; more is a mistake.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The way in which a node has closed a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// On purpose.
    Left,
    /// Its thread panicked, so that it may have left something half done there.
    Lost,
}

impl Closed {
    /// Returns the state in which others find the node in the view.
    pub(super) fn peer_state(self) -> PeerState {
        match self {
            Closed::Left => PeerState::Left,
            Closed::Lost => PeerState::Lost,
        }
    }
}

/// A parcel that travels between nodes.
#[derive(Clone, Copy)]
pub(super) enum Parcel<'a> {
    /// A message of [`Control::send`](loco_fabric::Control::send), between nodes of the view with this number.
    Message { view: u32, payload: &'a [u8] },
    /// A contribution to a [`Mesh::allgather`](super::Mesh::allgather) of the nodes of the view with this number.
    Gather {
        view: u32,
        label: &'a str,
        round: u64,
        bytes: &'a [u8],
    },
    /// The sender takes no part in the view with this number any more. Nothing of the view follows.
    Closed { view: u32, how: Closed },
}
