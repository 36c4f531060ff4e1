//! Follows a schedule from an earlier failure, move by move. Used by replays, graphs and films.

use crate::exploring::walk::{Position, Walker};
use crate::reports::schedule::{Schedule, Word};
use crate::state::Move;
use crate::{Config, SimError};

/// A schedule that is being followed.
pub(crate) struct Script<'a> {
    wanted: std::slice::Iter<'a, Move>,
    steps_max: usize,
    /// Set if nothing follows the moves of the schedule, whose last ones are a round that goes on for ever.
    is_round: bool,
    enabled: Vec<Move>,
}

impl<'a> Script<'a> {
    pub(crate) fn new(config: &Config, schedule: &'a Schedule) -> Script<'a> {
        Script {
            wanted: schedule.moves().iter(),
            steps_max: config.steps_max,
            is_round: schedule.round().is_some(),
            enabled: Vec::new(),
        }
    }

    /// Returns the next move: that of the schedule, or, once the schedule has ended, the first enabled move. Only the
    /// schedule makes optional moves. Returns `None` at the end of the execution, and after one round of a livelock.
    pub(crate) fn next(
        &mut self,
        walker: &mut Walker<'_>,
        at: &mut Position,
    ) -> Result<Option<Move>, SimError> {
        walker.moves(&mut at.state, &mut self.enabled);
        match self.wanted.next() {
            Some(what) if !self.enabled.contains(what) => Err(SimError::Replay {
                number: at.schedule.len(),
                what: Word(*what).to_string(),
            }),
            Some(&what) => Ok(Some(what)),
            None if self.is_round => Ok(None),
            None => {
                let first = self.enabled.first().copied();
                Ok(first.filter(|what| !what.is_optional(&at.state)))
            }
        }
    }

    /// Returns the next move as [`next`](Script::next) does, and `None` also where a thread has failed or the execution is
    /// too long.
    pub(crate) fn next_unless_failed(
        &mut self,
        walker: &mut Walker<'_>,
        at: &mut Position,
    ) -> Result<Option<Move>, SimError> {
        if walker.failed(&at.state).is_some() || at.schedule.len() > self.steps_max {
            return Ok(None);
        }
        self.next(walker, at)
    }
}
