//! Leaves requests of others to calls that poll, because of [foresight](super::foresight), and gives them back to the thread.

use super::core::Nic;
use crate::child::is_child;
use crate::completions::is_any_armed;
use crate::settings::abroad;

/// A process with more queue pairs expects nothing: to look whether they have a request under way takes long.
const QPS_MAX: usize = 64;

impl Nic {
    /// Returns whether foresight is of use.
    pub(super) fn foresees(&self) -> bool {
        self.is_plain() && abroad().is_none() && self.qps.len() <= QPS_MAX
    }

    /// Returns whether a request of this process is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.qps.values().any(|qp| !qp.sends.is_empty())
    }

    /// Leaves requests of others to calls if one is expected and this process has a request of its own under way. Returns true if
    /// nothing was left to calls before: then somebody has to look in.
    pub(super) fn leave_the_foreseen(&mut self) -> bool {
        let may_be = self.foresight.expects() && !self.left_to_calls.1 && self.foresees();
        if !may_be || is_any_armed() || is_child() || !self.is_under_way() {
            return false;
        }
        let begins = self.leave_to_calls(true, true);
        let now = self.now();
        self.foresight.leaves(now);
        begins
    }

    /// Gives requests back to the thread that were left to calls because of foresight. Returns true if there is something to tell to
    /// those who send them. Answers stay as they are.
    pub(super) fn give_back(&mut self) -> bool {
        let has_left = self.foresight.has_left();
        if has_left {
            self.leave_to_calls(self.left_to_calls.0, false);
        }
        has_left
    }

    /// Takes note that a call looks for requests that were left to it. Returns true if they have waited for long.
    pub(super) fn look_for_left(&mut self) -> bool {
        if !self.foresight.has_left() {
            return false;
        }
        let now = self.now();
        self.foresight.looks(now)
    }
}
