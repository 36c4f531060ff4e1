//! The monitor: a thread of each node that applies the other nodes' reports to its index, and acknowledges them.
//!
//! Other nodes' inserts and deletes wait for it, so it goes on as long as it can. A step that fails while the other node
//! lives is tried again, after pauses that grow. A failure that no repetition mends (a report that cannot be read, a panic in
//! the program's key type, the end of this node) ends the monitor: the calls of this node then fail with the reason, and those of
//! others with [`Refused`](crate::Error::Refused) instead of a timeout.

use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, NodeId, Peers, Time, Wait};

use crate::channels::service::{self, RETRY_MAX, RETRY_MIN};
use crate::objects::ring_buffer::RingReader;
use crate::operations::panics;
use crate::operations::peers::is_gone;
use crate::operations::published::Published;
use crate::{Error, Parent, Result, Thread};

use super::Shared;
use super::copies::{Copies, Views};
use super::tracker::{FAILED, decode};
use super::value::Encode;

/// Another node's tracker.
struct Source<F: Fabric> {
    writer: NodeId,
    reader: RingReader<F>,
    acknowledgement: Published<F>,
    /// The number of reports that were applied, and that were acknowledged.
    applied: u64,
    acknowledged: u64,
    done: bool,
}

/// A step that failed while it may succeed later.
struct Failed {
    /// The pause before it is tried again.
    pause: Duration,
    /// The end of that pause; `None` while no step has to be repeated.
    until: Option<Time>,
}

/// Runs the monitor until the store is dropped, or it fails for good.
pub(super) fn monitor<F: Fabric, K: Encode + Eq>(shared: &Arc<Shared<F, K>>) {
    let platform = shared.channel.manager().fabric().platform().clone();
    let mut sources = Vec::new();
    let watched = panics::catch(&platform, || run(shared, &mut sources));
    let error = match watched {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(payload) => {
            let whose = format!(
                "the key type of store `{}`, on the store's monitor,",
                shared.channel.name()
            );
            panics::error(whose, &*payload)
        }
    };
    tracing::error!(store = shared.channel.name(), %error, "the monitor ends: this node's index goes stale");
    // The first failure stays, and there is only one.
    let _ = shared.failure.set(error);
    shared.failed.store(1);
    // The nodes that wait for this one learn that they wait in vain. One that this does not reach runs into its deadline.
    if let Ok(thread) = shared.channel.manager().thread() {
        for source in sources.iter().filter(|source| !source.done) {
            let sent = source
                .acknowledgement
                .post_inline_untracked(&thread, &FAILED.to_ne_bytes());
            if let Err(error) = sent {
                tracing::warn!(store = shared.channel.name(), writer = %source.writer, %error, "the end of the monitor was not announced");
            }
        }
    }
}

/// Watches, and begins again after failures that may pass.
fn run<F: Fabric, K: Encode + Eq>(shared: &Shared<F, K>, sources: &mut Vec<Source<F>>) -> Result<()> {
    let stopped = || shared.stop.load() != 0;
    let mut pause = RETRY_MIN;
    loop {
        let failed = match watch(shared, sources) {
            Err(error) if service::may_pass(&error) => error,
            outcome => return outcome,
        };
        tracing::warn!(store = shared.channel.name(), error = %failed, "the monitor tries again");
        service::pause(&shared.channel, &mut pause, stopped);
        if stopped() {
            return Ok(());
        }
    }
}

fn watch<F: Fabric, K: Encode + Eq>(shared: &Shared<F, K>, sources: &mut Vec<Source<F>>) -> Result<()> {
    let manager = shared.channel.manager();
    let thread = manager.thread()?;
    let stopped = || shared.stop.load() != 0;
    if !service::wait_until_ready(&shared.channel, &thread, stopped)? {
        return Ok(());
    }
    for &writer in &shared.channel.peers()[sources.len()..] {
        sources.push(Source {
            writer,
            reader: shared.ring_of(writer)?.reader()?,
            acknowledgement: shared.acknowledgement(writer),
            applied: 0,
            acknowledged: 0,
            done: false,
        });
    }
    let mut message = Vec::new();
    let mut failed = Failed {
        pause: RETRY_MIN,
        until: None,
    };
    let views = shared.copies.as_ref().map(Copies::views);
    loop {
        let peers = views.map(Views::peers);
        let wait = Wait {
            what: shared.channel.name(),
            // Without copies it makes no difference whether a node is lost.
            peers: peers.as_deref().map_or(Peers::None, Peers::These),
            deadline: failed.until,
        };
        let waited = thread.fabric().wait(wait, || {
            let any = sources
                .iter_mut()
                .any(|source| !source.done && source.reader.has_next());
            // An announcement that failed is repeated after the pause.
            let turns = || failed.until.is_none() && views.is_some_and(Views::may_announce);
            (any || turns() || stopped()).then_some(())
        });
        match waited {
            // It is time to try again what failed.
            Err(FabricError::Timeout { .. }) if failed.until.is_some() => {}
            // Taken into the view below.
            Err(FabricError::PeerLost(_)) if views.is_some() => {}
            waited => waited?,
        }
        if stopped() {
            return Ok(());
        }
        let mut any_failed = false;
        match views.map_or(Ok(()), |views| views.turn(&thread)) {
            Err(error) if service::may_pass(&error) => {
                tracing::warn!(store = shared.channel.name(), %error, "turning away from a lost node is tried again");
                any_failed = true;
            }
            turned => turned?,
        }
        for source in sources.iter_mut().filter(|source| !source.done) {
            match drain(shared, &thread, source, &mut message) {
                Ok(()) => {}
                // Its messages from before the loss have been applied, as far as they arrived.
                Err(error) if is_gone(thread.fabric(), source.writer) => {
                    tracing::warn!(store = shared.channel.name(), %error, "a tracker ends");
                    source.done = true;
                }
                Err(error) if service::may_pass(&error) => {
                    tracing::warn!(store = shared.channel.name(), writer = %source.writer, %error, "acknowledging is tried again");
                    any_failed = true;
                }
                Err(error) => return Err(error),
            }
        }
        failed.note(&thread, any_failed);
    }
}

impl Failed {
    /// Notes whether a step of the last round failed.
    fn note<F: Fabric>(&mut self, thread: &Thread<F>, failed: bool) {
        if failed {
            self.until = Some(thread.now().after(self.pause));
            self.pause = (self.pause * 2).min(RETRY_MAX);
        } else if self.until.is_some() {
            self.until = None;
            self.pause = RETRY_MIN;
        }
    }
}

/// Applies everything that a node has reported, then acknowledges once.
fn drain<F: Fabric, K: Encode + Eq>(
    shared: &Shared<F, K>,
    thread: &Thread<F>,
    source: &mut Source<F>,
    message: &mut Vec<u8>,
) -> Result<()> {
    while source.reader.try_receive(thread, message)? {
        match decode(message) {
            Some((change, key, at)) => shared.apply_announced(thread, source.writer, change, key, at),
            None => {
                return Err(Error::Config(format!(
                    "`{}`: {} announced what cannot be a change: are keys the same type on all nodes?",
                    shared.channel.name(),
                    source.writer
                )));
            }
        }
        source.applied += 1;
    }
    debug_assert!(
        source.acknowledged <= source.applied,
        "only what is applied is acknowledged"
    );
    if source.applied != source.acknowledged {
        let applied = source.applied.to_ne_bytes();
        source.acknowledgement.post_inline_untracked(thread, &applied)?;
        source.acknowledged = source.applied;
    }
    Ok(())
}
