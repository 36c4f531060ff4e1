//! The state of one cell of the ring, in a word.

use loco_fabric::NodeId;

const STAGE_BITS: u32 = 3;
const NODE_BITS: u32 = 16;
const CLOSED: u64 = 1 << 2;

// A node's id fits beside the stage, and the mark of a closed queue is among the bits of the stage, above its number.
const _: () = assert!(NODE_BITS == u16::BITS && CLOSED > 3 && CLOSED >> STAGE_BITS == 0);

/// The stage of a cell in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The cell waits for the push of its round.
    Empty,
    /// A push has claimed the cell. At this moment the push takes effect. Its value is on the way.
    Filling(NodeId),
    /// The cell has the value.
    Full,
    /// A pop has claimed the cell. At this moment the pop takes effect. The value is being read.
    Draining(NodeId),
}

/// A cell's word. Fresh memory is round 0, empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// The number of times that the ring has gone round.
    pub(super) round: u64,
    pub(super) stage: Stage,
    /// Set if the queue was closed when this cell was the next to be filled. It stays set. In stage `Empty` it closes
    /// the present round of the cell, in the other stages the next round.
    pub(super) closed: bool,
}

impl Cell {
    /// Returns the cell in another stage of the round.
    pub(super) fn to(self, stage: Stage) -> Cell {
        debug_assert!(
            matches!(
                (self.stage, stage),
                (Stage::Empty, Stage::Filling(_))
                    | (Stage::Filling(_), Stage::Full)
                    | (Stage::Full, Stage::Draining(_))
            ),
            "a cell is filled, then drained: {:?} to {stage:?}",
            self.stage
        );
        Cell { stage, ..self }
    }

    /// Returns the cell ready for the next round.
    pub(super) fn next_round(self) -> Cell {
        debug_assert!(
            matches!(self.stage, Stage::Filling(_) | Stage::Draining(_)),
            "only a claimed cell is freed: {:?}",
            self.stage
        );
        Cell {
            round: self.round + 1,
            stage: Stage::Empty,
            ..self
        }
    }

    pub(super) fn to_word(self) -> u64 {
        let (stage, node) = match self.stage {
            Stage::Empty => (0, 0),
            Stage::Filling(node) => (1, node.0),
            Stage::Full => (2, 0),
            Stage::Draining(node) => (3, node.0),
        };
        debug_assert_eq!(
            self.round >> (u64::BITS - STAGE_BITS - NODE_BITS),
            0,
            "rounds fit for ages"
        );
        let closed = if self.closed { CLOSED } else { 0 };
        (self.round << (STAGE_BITS + NODE_BITS)) | (u64::from(node) << STAGE_BITS) | closed | stage
    }

    pub(super) fn from_word(word: u64) -> Cell {
        let node = NodeId((word >> STAGE_BITS) as u16);
        let stage = match word & 3 {
            0 => Stage::Empty,
            1 => Stage::Filling(node),
            2 => Stage::Full,
            _ => Stage::Draining(node),
        };
        Cell {
            round: word >> (STAGE_BITS + NODE_BITS),
            stage,
            closed: word & CLOSED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell goes through its stages in one order, and only a claimed one is freed.
    #[cfg(debug_assertions)]
    #[test]
    fn steps_that_no_call_makes_are_noticed() {
        let node = NodeId(1);
        let stages = [
            Stage::Empty,
            Stage::Filling(node),
            Stage::Full,
            Stage::Draining(node),
        ];
        for (from, stage) in stages.into_iter().enumerate() {
            let cell = Cell {
                round: 1,
                stage,
                closed: false,
            };
            for (to, other) in stages.into_iter().enumerate() {
                let made = std::panic::catch_unwind(|| cell.to(other)).is_ok();
                assert_eq!(made, to == from + 1, "{stage:?} to {other:?}");
            }
            let freed = std::panic::catch_unwind(|| cell.next_round()).is_ok();
            assert_eq!(freed, from % 2 == 1, "{stage:?} to the next round");
        }
    }

    #[test]
    fn words_round_trip() {
        let node = NodeId(u16::MAX);
        for stage in [
            Stage::Empty,
            Stage::Filling(node),
            Stage::Full,
            Stage::Draining(node),
        ] {
            for closed in [false, true] {
                let cell = Cell {
                    round: 1 << 40,
                    stage,
                    closed,
                };
                assert_eq!(Cell::from_word(cell.to_word()), cell);
            }
        }
        let fresh = Cell {
            round: 0,
            stage: Stage::Empty,
            closed: false,
        };
        assert_eq!(fresh.to_word(), 0);
    }
}
