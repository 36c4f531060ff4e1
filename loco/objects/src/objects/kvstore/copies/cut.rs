//! Reads of the whole store as of one moment, where values have copies.
//!
//! A scan takes part in a view like a call that writes, and takes every lock at its home in that view. If a node that it needs is lost, it
//! begins anew in the next view, so that a cut never misses what copies have kept. Used by `scan`.

use loco_fabric::Fabric;

use crate::{Error, Result, Thread};

use super::super::Shared;
use super::super::slot::Location;
use super::super::value::Encode;
use super::slot::{Backup, Presence};
use super::views::View;
use super::{Copies, lost};

impl<F: Fabric> Copies<F> {
    /// Returns true if another copy than that of the primary is the first in `view`, or none is.
    pub(in super::super) fn is_moved_in(&self, at: Location, view: View) -> bool {
        view.has(self.views.position(at.node))
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Returns the bytes of a value in a view in which its primary is lost; `None` if the key is not present. All locks are held.
    pub(in super::super) fn read_moved(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        view: View,
        at: Location,
    ) -> Result<Option<Vec<u8>>> {
        let holders = copies.holders(at, view);
        let Some(&first) = holders.first() else {
            return Err(lost(at.node));
        };
        let slot = copies.read(thread, first, at)?;
        let backup = Backup::new(&slot, at.counter);
        match backup.presence() {
            Presence::Absent | Presence::Over => Ok(None),
            Presence::Unknown => Err(lost(at.node)),
            Presence::Present => self.last_of(&backup).map(Some),
        }
    }

    /// Returns the bytes of a value that is torn in the slot of the primary. All locks are held.
    pub(in super::super) fn read_spare(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        view: View,
        at: Location,
    ) -> Result<Vec<u8>> {
        let holders = copies.holders(at, view);
        let Some(&first) = holders.first().filter(|first| first.copy == 0) else {
            return Err(lost(at.node));
        };
        let slot = copies.read(thread, first, at)?;
        self.last_of(&Backup::new(&slot, at.counter))
    }

    fn last_of(&self, backup: &Backup<'_>) -> Result<Vec<u8>, Error> {
        let value = backup.value().ok_or_else(|| self.torn())?;
        Ok(value.to_vec())
    }
}
