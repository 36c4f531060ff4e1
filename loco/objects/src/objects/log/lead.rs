//! The leader's work: it takes over, gathers requests, places records in all copies, and commits them.
//!
//! The order of the steps is the promise. A record is committed when every live participant has it: the leader puts it to all of them,
//! fences towards each, and only then announces the new end. A participant that is lost meanwhile counts no more, since its loss
//! was agreed. If the leader itself was declared lost, the fence or the check after it says so, and nothing is committed.
//!
//! A step that fails leaves records in some copies. The next pass places everything that is not committed again, with the
//! same bytes, so it does not matter how far the former one had come.

use loco_fabric::{Control as _, Fabric, NodeId, Peers};
use smallvec::SmallVec;

use super::copy::Author;
use super::{Log, Shared};
use crate::operations::fence;
use crate::{Error, Parent, Result, Thread};

/// What a leader knows.
pub(super) struct Lead {
    /// The position after the last record of this node's copy.
    end: u64,
    /// The position after the last record that all live participants have.
    committed: u64,
    /// Set if all live participants know that: it was announced.
    announced: bool,
    /// The number of the last request of each node among the records, by position.
    last: Box<[u64]>,
    /// The position of the node whose request is taken first, so that no node is always the last when there is little room.
    first: usize,
}

/// What a pass of the leader found, to wait until there is something else.
struct Seen {
    requests: SmallVec<[u64; 16]>,
    read_by_all: u64,
    departures: u64,
}

impl<F: Fabric> Log<F> {
    /// Does the leader's work once, if this node leads: takes over from a leader that is lost, appends what others have asked for,
    /// and commits it. Returns whether this node leads. Only programs without a [service thread](super::LogConfig::service)
    /// need to call it.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if fewer than
    /// [`members_min`](super::LogConfig::members_min) participants are left, [`Timeout`](crate::ErrorKind::Timeout), and the
    /// errors of posting and of fences.
    ///
    /// # After a timeout
    /// Records may be in some copies and not in others. They are committed by a later call, here or by the next leader.
    pub fn lead(&self, thread: &Thread<F>) -> Result<bool> {
        let _call = thread.call(self.shared.channel.name(), "lead");
        let leads = self.shared.leader() == self.shared.node();
        if leads {
            self.shared.pass(thread)?;
        }
        Ok(leads)
    }
}

impl<F: Fabric> Shared<F> {
    /// Leads, if this node does, until the leader may have something new to do. Waits otherwise until this node may have to lead. In
    /// both cases the end of the wait is `done`, too.
    pub(super) fn lead_or_wait(&self, thread: &Thread<F>, done: impl Fn() -> bool) -> Result<()> {
        let leader = self.leader();
        if leader != self.node() {
            return self.wait_until(thread, Peers::One(leader), done);
        }
        // Before the pass, so that what comes during the pass ends the wait.
        let seen = self.look();
        self.pass(thread)?;
        self.wait_until(thread, Peers::These(&self.peers()), || {
            done() || self.has_changed(&seen)
        })
    }

    /// Waits until `done`, or until one of `peers` is lost: another node may lead then, and there may be room.
    pub(super) fn wait_until(
        &self,
        thread: &Thread<F>,
        peers: Peers<'_>,
        done: impl Fn() -> bool,
    ) -> Result<()> {
        let waited = thread.wait_for(true, self.channel.name(), peers, || done().then_some(()));
        match waited {
            Err(error) if error.lost_peer().is_some_and(|node| self.is_gone(node)) => Ok(()),
            waited => waited,
        }
    }

    fn look(&self) -> Seen {
        Seen {
            requests: self.requests.headers(),
            read_by_all: self.read_by_all(),
            departures: self.channel.manager().fabric().control().departures(),
        }
    }

    /// Returns true if the leader may have something to do that it had not when it looked.
    fn has_changed(&self, seen: &Seen) -> bool {
        self.requests.changed_since(&seen.requests)
            || self.read_by_all() != seen.read_by_all
            || self.channel.manager().fabric().control().departures() != seen.departures
    }

    /// Does the leader's work once. This node must lead.
    fn pass(&self, thread: &Thread<F>) -> Result<()> {
        let mut lead = self.lead.enter(thread, self.channel.name())?;
        let lead = match &mut *lead {
            Some(lead) => lead,
            None => lead.insert(self.take_over(thread)?),
        };
        self.gather(lead)?;
        self.commit(thread, lead)
    }

    /// Becomes the leader: makes this node's copy the longest of those that are left.
    fn take_over(&self, thread: &Thread<F>) -> Result<Lead> {
        let (committed, mut last) = {
            let mut cursor = self.cursor.enter(thread, self.channel.name())?;
            let committed = self.examine(&mut cursor)?;
            let last: Box<[u64]> = cursor.last().iter().map(|last| last.request).collect();
            (committed, last)
        };
        // The first participant has nobody to take over from.
        if self.here > 0 {
            self.take_longest(thread, committed)?;
        }
        let end = self.copy.end(committed);
        for position in committed..end {
            let author = self.copy.author(position)?;
            if let Some(last) = last.get_mut(author.position) {
                *last = author.request;
            }
        }
        Ok(Lead {
            end,
            committed,
            // The former leader may have announced it to some and not to others.
            announced: self.here == 0,
            last,
            first: 0,
        })
    }

    /// Copies what the longest copy has and this one lacks.
    fn take_longest(&self, thread: &Thread<F>, committed: u64) -> Result<()> {
        'again: loop {
            let begin = self.copy.end(committed);
            let mut longest: Option<(u64, NodeId, Vec<u64>)> = None;
            for peer in self.peers() {
                let headers = match self.copy.headers_of(thread, peer) {
                    Err(error) if self.is_loss_of(&error, peer) => continue,
                    headers => headers?,
                };
                let end = self.copy.end_of(committed, |slot| headers[slot]);
                let most = longest.as_ref().map_or(begin, |&(most, ..)| most);
                if end > most {
                    longest = Some((end, peer, headers));
                }
            }
            let Some((end, peer, headers)) = longest else {
                return Ok(());
            };
            match self.copy.fetch(thread, (begin, end), peer, &headers) {
                // What it had may be nowhere else.
                Err(error) if self.is_loss_of(&error, peer) => continue 'again,
                fetched => return fetched,
            }
        }
    }

    pub(super) fn is_loss_of(&self, error: &Error, peer: NodeId) -> bool {
        error.lost_peer() == Some(peer) && self.is_gone(peer)
    }

    /// Writes the requests for which there is room into this node's copy.
    fn gather(&self, lead: &mut Lead) -> Result<()> {
        let nodes = self.nodes.len();
        let mut record = Vec::new();
        let limit = self.read_by_all() + self.copy.capacity() as u64;
        for position in (lead.first..nodes).chain(0..lead.first) {
            if lead.end >= limit {
                lead.first = position;
                break;
            }
            let request = lead.last[position] + 1;
            if self.requests.take(position, request, &mut record)? {
                self.copy.write(lead.end, Author { position, request }, &record)?;
                lead.last[position] = request;
                lead.end += 1;
            }
        }
        Ok(())
    }

    /// Places what is not committed in all copies, and commits it.
    fn commit(&self, thread: &Thread<F>, lead: &mut Lead) -> Result<()> {
        if lead.end == lead.committed && lead.announced {
            return Ok(());
        }
        let peers = self.peers();
        // A former pass of another thread may have left puts under way, which must not arrive when the slots are used again.
        self.poster.enter(thread, || &peers)?;
        for position in lead.committed..lead.end {
            for &peer in &peers {
                match self.copy.place(thread, position, peer) {
                    Err(error) if self.is_loss_of(&error, peer) => {}
                    placed => placed?,
                }
            }
        }
        // From here on everybody who is not lost has them.
        let lost = fence::towards_each(thread, &peers)?;
        self.check_members(peers.len() - lost.len() + 1)?;
        lead.committed = lead.end;
        lead.announced = false;
        self.announce(thread, &self.commits, lead.committed)?;
        lead.announced = true;
        Ok(())
    }

    /// Fails if `live` participants are too few to commit.
    pub(super) fn check_members(&self, live: usize) -> Result<()> {
        if live >= self.config.members_min {
            return Ok(());
        }
        let lost = self.nodes.iter().copied().find(|&node| self.is_gone(node));
        Err(Error::PeerLost {
            // Not reached: somebody is gone if fewer live than there were.
            node: lost.ok_or(Error::Closed)?,
            object: Some(self.channel.name().to_owned()),
        })
    }
}
