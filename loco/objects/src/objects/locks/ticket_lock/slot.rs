//! A place in the line as one word: the ticket, and its stage.

use loco_fabric::NodeId;

const STATE_BITS: u32 = 4;
const NODE_BITS: u32 = 16;
/// The bits of a ticket.
const TICKET_BITS: u32 = u64::BITS - STATE_BITS - NODE_BITS;

const _: () = assert!(NODE_BITS == u16::BITS);

/// The stage of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The ticket has the turn, or had it.
    Served,
    /// The ticket has the turn, or had it, and a former holder was lost.
    Recovered,
    /// The ticket was skipped: its node gave up or was lost.
    Skipped,
    /// The ticket's node waits for its grant.
    Claimed(NodeId),
    /// The ticket's node gave up. It may come back.
    Abandoned,
}

/// The content of a slot. Fresh memory is ticket 0, served, which is the initial state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) ticket: u64,
    pub(super) stage: Stage,
}

impl Slot {
    pub(super) fn new(ticket: u64, stage: Stage) -> Slot {
        Slot { ticket, stage }
    }

    pub(super) fn to_word(self) -> u64 {
        let (state, node) = match self.stage {
            Stage::Served => (0, 0),
            Stage::Recovered => (1, 0),
            Stage::Skipped => (2, 0),
            Stage::Claimed(node) => (3, node.0),
            Stage::Abandoned => (4, 0),
        };
        debug_assert_eq!(self.ticket >> TICKET_BITS, 0, "tickets fit for ages");
        (self.ticket << (STATE_BITS + NODE_BITS)) | (u64::from(node) << STATE_BITS) | state
    }

    pub(super) fn from_word(word: u64) -> Slot {
        let node = NodeId((word >> STATE_BITS) as u16);
        let stage = match word & ((1 << STATE_BITS) - 1) {
            0 => Stage::Served,
            1 => Stage::Recovered,
            2 => Stage::Skipped,
            3 => Stage::Claimed(node),
            _ => Stage::Abandoned,
        };
        Slot::new(word >> (STATE_BITS + NODE_BITS), stage)
    }

    /// Returns true if the ticket holds the lock, or the lock is free.
    pub(super) fn is_served(self) -> bool {
        matches!(self.stage, Stage::Served | Stage::Recovered)
    }

    /// Returns the turn of `ticket` if it has come: true if a holder was lost.
    pub(super) fn turn_of(self, ticket: u64) -> Option<bool> {
        (self.ticket == ticket && self.is_served()).then_some(self.stage == Stage::Recovered)
    }
}

/// A node's announcement at the lock's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announcement {
    /// Nothing yet.
    Nothing,
    /// The node is about to draw a ticket, or has drawn one and does not know it yet.
    Drawing,
    /// The last ticket that the node drew.
    Drew(u64),
}

impl Announcement {
    pub(super) fn to_word(self) -> u64 {
        match self {
            Announcement::Nothing => 0,
            Announcement::Drawing => 1,
            Announcement::Drew(ticket) => (ticket + 1) << 1,
        }
    }

    pub(super) fn from_word(word: u64) -> Announcement {
        match word {
            0 => Announcement::Nothing,
            1 => Announcement::Drawing,
            word => Announcement::Drew((word >> 1) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for ticket in [0, 1, 7, 1 << 40] {
            for stage in [
                Stage::Served,
                Stage::Recovered,
                Stage::Skipped,
                Stage::Claimed(NodeId(u16::MAX)),
                Stage::Abandoned,
            ] {
                let slot = Slot::new(ticket, stage);
                assert_eq!(Slot::from_word(slot.to_word()), slot);
            }
            assert_eq!(
                Announcement::from_word(Announcement::Drew(ticket).to_word()),
                Announcement::Drew(ticket)
            );
        }
        assert_eq!(Slot::from_word(0), Slot::new(0, Stage::Served));
        assert_eq!(
            Announcement::from_word(Announcement::Drawing.to_word()),
            Announcement::Drawing
        );
        assert_eq!(Announcement::from_word(0), Announcement::Nothing);
    }
}
