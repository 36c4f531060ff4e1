//! Links to processes of other hosts: how they come about, and what becomes of requests when a host falls silent.
//!
//! The system acknowledges what comes over TCP by itself, as a card does. So a host that leaves bytes unacknowledged for longer than
//! a queue pair's patience is as one that leaves packets unacknowledged.

use std::io;

use super::core::{Nic, patience};
use super::link::Link;
use super::queue::Stage;
use crate::ffi::IBV_QPT_RC;
use crate::log;
use crate::settings::abroad;
use crate::wire::{Header, kind};
use crate::world::LOCAL_BITS;

/// The least patience with a host over TCP, in nanoseconds: TCP itself waits for 200 ms before it repeats what was lost.
const SILENCE_MIN: u64 = 500_000_000;
/// So often, links with requests under way are looked after.
const LOOK: u64 = 10_000_000;
/// A link with requests under way on which nothing was said for so long is probed.
const PROBE_AFTER: u64 = 50_000_000;

impl Nic {
    /// Takes the links that are to come about, each with the process to which it leads.
    pub(super) fn take_visits(&mut self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.visits)
    }

    /// Gives a link its connection, or drops it if there is none.
    pub(super) fn has_come(&mut self, id: u64, visited: io::Result<loco_job::Link>) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let came = visited.and_then(|connection| link.has_come(connection));
        if came.is_err() || self.poll_link(id).is_err() {
            self.drop_link(id);
        } else {
            self.activate_waiting();
        }
    }

    /// Takes a connection in that a process of another host has made.
    pub fn take_in(&mut self, connection: loco_job::Link) {
        let now = self.now();
        let added = Link::there(connection, now).and_then(|link| self.add_link(link));
        if let Err(error) = added {
            log::say(format_args!("cannot take a connection: {error}"));
        }
    }

    /// Lets requests fail whose host is silent. Returns when to look again, if requests are under way to other hosts.
    pub(super) fn look_after_far(&mut self, now: u64) -> Option<u64> {
        abroad()?;
        let mut due: Option<u64> = None;
        let ways: Vec<(u32, u64)> = self.ways.iter().map(|(number, id)| (*number, *id)).collect();
        for (number, id) in ways {
            let Some(look_at) = self
                .links
                .get(&id)
                .filter(|link| link.is_far())
                .map(|link| link.look_at)
            else {
                continue;
            };
            let next = if look_at > now {
                Some(look_at)
            } else {
                self.least_patience(number)
                    .and_then(|patience| self.look_after(number, id, patience, now))
            };
            due = [due, next].into_iter().flatten().min();
        }
        due
    }

    /// Looks after a link with requests under way. Returns when to look again, unless it was dropped.
    fn look_after(&mut self, number: u32, id: u64, patience: u64, now: u64) -> Option<u64> {
        let link = self.links.get_mut(&id)?;
        link.look_at = now + LOOK;
        if link.silence(now) >= patience {
            link.cut();
            self.drop_link(id);
            self.fail_unanswered(number, now);
            return None;
        }
        if link.is_quiet() && now.saturating_sub(link.spoken_at) > PROBE_AFTER {
            let [from, to] = [self.world.number, number].map(|number| number << LOCAL_BITS);
            self.send(id, &Header::new(kind::PROBE, from, to, 0), &[]);
        }
        self.links.get(&id).map(|link| link.look_at)
    }

    /// Returns the least patience of the queue pairs that wait for answers of a process, if any do that are not patient without end.
    fn least_patience(&self, number: u32) -> Option<u64> {
        let waiting = self.qps.values().filter(|qp| {
            qp.kind == IBV_QPT_RC
                && qp.attr.dest_qp_num >> LOCAL_BITS == number
                && patience(&qp.attr) > 0
                && qp.sends.iter().any(|sending| sending.stage == Stage::Sent)
        });
        waiting.map(|qp| patience(&qp.attr).max(SILENCE_MIN)).min()
    }

    /// Lets the requests to a process fail of those queue pairs whose patience the silence has outlasted.
    fn fail_unanswered(&mut self, number: u32, now: u64) {
        let least = self.least_patience(number);
        for qp in self.qps.values_mut() {
            let own = patience(&qp.attr);
            if qp.kind == IBV_QPT_RC
                && qp.attr.dest_qp_num >> LOCAL_BITS == number
                && own > 0
                && Some(own.max(SILENCE_MIN)) == least
            {
                for sending in &mut qp.sends {
                    if sending.stage == Stage::Sent {
                        sending.fails_at = Some(now);
                    }
                }
                self.active.insert(qp.qpn);
            }
        }
    }
}
